"""The offsets that the files of the logs do not tell: one checkpoint for each kind, all logs together."""

import logging
import threading
from collections.abc import Callable, Mapping

from broker_embedded.log.checkpoints import CorruptCheckpoint, read_offsets, write_offsets
from broker_embedded.platform.platform import FileSystem
from spark_kafka_native.protocol.topic import TopicPartition

logger = logging.getLogger(__name__)


class OffsetCheckpoints:
    """The checkpoints in a data directory. A file is replaced as a whole, and only if it would say something else.

    Safe to call from any thread.
    """

    def __init__(self, file_system: FileSystem, data_dir: str) -> None:
        self._file_system = file_system
        self._data_dir = data_dir
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._lock = threading.Lock()

    def read(self, name: str) -> dict[TopicPartition, int]:
        """What a checkpoint says; nothing if it is not there or does not read. Raises OSError."""
        try:
            return read_offsets(self._file_system, self._path(name))
        except CorruptCheckpoint as error:
            logger.warning("%s; going on without it", error)
            return {}

    def write(self, name: str, offsets_now: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Replace a checkpoint, durably. Raises OSError; what was written before still holds.

        ``offsets_now`` is called when nobody else is writing: of two threads the later one says what holds later.
        """
        with self._lock:
            offsets = dict(offsets_now())
            if self._written.get(name) != offsets:
                write_offsets(self._file_system, self._path(name), offsets)
                self._written[name] = offsets

    def _path(self, name: str) -> str:
        return f"{self._data_dir}/{name}"


class CleanedOffsets:
    """How far each log was compacted: where its next compaction looks for new records. A checkpoint, and in memory.

    A checkpoint that is lost costs time: compaction begins at the logs' starts. Safe to call from any thread.
    """

    def __init__(self, checkpoints: OffsetCheckpoints, name: str) -> None:
        self._checkpoints = checkpoints
        self._name = name
        self._offsets: dict[TopicPartition, int] = {}
        self._lock = threading.Lock()

    def load(self) -> None:
        """Read the checkpoint. Raises OSError."""
        self._offsets = self._checkpoints.read(self._name)

    def get(self, partition: TopicPartition) -> int | None:
        """The offset behind what was compacted of a log, None if it never was."""
        return self._offsets.get(partition)

    def put(self, partition: TopicPartition, offset: int, *, unless: Callable[[], bool] = lambda: False) -> None:
        """Say how far a log is compacted, durably, unless the log has gone meanwhile.

        Raises OSError: it holds until the next start only.
        """
        with self._lock:
            if not unless():
                self._offsets[partition] = offset
                self._write()

    def keep(self, partitions: Mapping[TopicPartition, object]) -> None:
        """Forget all other logs, durably. Raises OSError."""
        with self._lock:
            gone = self._offsets.keys() - partitions.keys()
            if gone:
                self._offsets = {tp: offset for tp, offset in self._offsets.items() if tp not in gone}
                self._write()

    def cut(self, partition: TopicPartition, offset: int) -> None:
        """The log was cut at an offset: what is appended there is new. Raises OSError."""
        if self._offsets.get(partition, 0) > offset:
            self.put(partition, offset)

    def _write(self) -> None:
        self._checkpoints.write(self._name, lambda: self._offsets)
