"""The checkpoint files of a data directory, in Apache Kafka's formats.

In the data directory::

    recovery-point-offset-checkpoint   per partition: everything before this offset is on the disk
    log-start-offset-checkpoint        per partition: the start offset after DeleteRecords, if it is within a segment
    replication-offset-checkpoint      per partition: the high watermark
    cleaner-offset-checkpoint          per partition: the offset after the compacted part
    meta.properties                    the cluster and the node that the data belongs to
    .kafka_cleanshutdown               the last broker closed every log; absent while a broker runs

In a partition's directory::

    partition.metadata                 the topic's id

A checkpoint has a line ``0`` for the format, a line with the number of entries, and one line per entry, ``topic
partition offset``. Reading returns all entries or raises ``CorruptCheckpoint``.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from broker_embedded._platform.platform import FileSystem, read_file, write_file
from spark_kafka_native._protocol.ids import format_id, new_id, parse_id
from spark_kafka_native._protocol.topic import TopicPartition

logger = logging.getLogger(__name__)

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
PARTITION_METADATA: Final = "partition.metadata"

_FORMAT: Final = "0"


class CorruptFile(Exception):
    """The content of a file is wrong. ``str()`` has its path and the error."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class CorruptCheckpoint(CorruptFile):
    """A checkpoint, ``meta.properties`` or ``partition.metadata`` cannot be parsed, or belongs to another broker."""


# --- checkpoints -----------------------------------------------------------------------------------------------------


def write_offsets(files: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint, durably. Raises OSError."""
    rows = ((tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items()))
    write_rows(files, path, rows)


def read_offsets(files: FileSystem, path: str) -> dict[TopicPartition, int]:
    """The entries of an offset checkpoint; none if there is no file. Raises OSError, CorruptCheckpoint."""
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in read_rows(files, path, 3)
        }
    except ValueError as error:
        raise CorruptCheckpoint(path, str(error)) from None


def write_rows(
    files: FileSystem, path: str, rows: Iterable[tuple[object, ...]], *, sync_directory: bool = True
) -> None:
    """Replace a checkpoint by ``rows``, durably once the directory is synced. Raises OSError."""
    lines = [" ".join(map(str, row)) for row in rows]
    text = "\n".join([_FORMAT, str(len(lines)), *lines, ""])
    write_file(files, path, text.encode(), sync_directory=sync_directory)


def read_rows(files: FileSystem, path: str, width: int) -> list[list[str]]:
    """The rows of a checkpoint, each of ``width`` words; none if there is no file, or an empty one as Kafka creates it.

    Raises OSError, CorruptCheckpoint.
    """
    lines = _read_lines(files, path)
    if not lines:
        return []
    if lines.pop():
        raise CorruptCheckpoint(path, "cut off within a line")
    if lines[0] != _FORMAT:
        raise CorruptCheckpoint(path, f"format {lines[0]!r} is not {_FORMAT}")
    rows = [line.split() for line in lines[2:] if line]
    if len(lines) < 2 or lines[1] != str(len(rows)):
        says = "".join(lines[1:2]) or "nothing"
        raise CorruptCheckpoint(path, f"the number of entries is {len(rows)}, the file says {says}")
    if any(len(row) != width for row in rows):
        raise CorruptCheckpoint(path, f"an entry does not have {width} words")
    return rows


def _read_lines(files: FileSystem, path: str) -> list[str]:
    """Every line, and the bytes after the last line break; nothing if there is no file or it is empty."""
    try:
        text = read_file(files, path).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise CorruptCheckpoint(path, "not UTF-8 text") from None
    return text.split("\n") if text else []


class OffsetCheckpoints:
    """The offset checkpoints of a data directory. A file is replaced as a whole, and only if an offset has changed.

    Safe to call from any thread.
    """

    def __init__(self, file_system: FileSystem, data_dir: str) -> None:
        self._file_system = file_system
        self._data_dir = data_dir
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._lock = threading.Lock()

    def read(self, name: str) -> dict[TopicPartition, int]:
        """The offsets of a checkpoint; none if there is no file or it is corrupt. Raises OSError."""
        try:
            return read_offsets(self._file_system, self._path(name))
        except CorruptCheckpoint as error:
            logger.warning("%s; ignored", error)
            return {}

    def write(self, name: str, offsets_now: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Replace a checkpoint, durably. Raises OSError: the checkpoint written before still holds.

        ``offsets_now`` is called under the lock, so that of two threads the later one writes the later offsets.
        """
        with self._lock:
            offsets = dict(offsets_now())
            if self._written.get(name) != offsets:
                write_offsets(self._file_system, self._path(name), offsets)
                self._written[name] = offsets

    def _path(self, name: str) -> str:
        return f"{self._data_dir}/{name}"


class CleanedOffsets:
    """The offset up to which each log was compacted, where its next compaction starts. In memory and in a checkpoint.

    Without the checkpoint compaction starts at the logs' start offsets. Safe to call from any thread.
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
        """The offset after the compacted part of a log, None if it was never compacted."""
        return self._offsets.get(partition)

    def put(self, partition: TopicPartition, offset: int, *, unless: Callable[[], bool] = lambda: False) -> None:
        """Write the offset up to which a log is compacted, durably, unless ``unless()``: the log was deleted meanwhile.

        Raises OSError: the offset is lost with the next start.
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
        """Move the offset of a truncated log back to ``offset``. Raises OSError."""
        if self._offsets.get(partition, 0) > offset:
            self.put(partition, offset)

    def _write(self) -> None:
        self._checkpoints.write(self._name, lambda: self._offsets)


# --- ids -------------------------------------------------------------------------------------------------------------


def write_partition_metadata(files: FileSystem, path: str, topic_id: UUID) -> None:
    """Write the topic id of a partition's directory, durably. Raises OSError."""
    write_file(files, path, f"version: 0\ntopic_id: {format_id(topic_id)}".encode())


def read_partition_metadata(files: FileSystem, path: str) -> UUID | None:
    """The topic id of a partition's directory, None if there is no file. Raises OSError, CorruptCheckpoint."""
    lines = _read_lines(files, path)
    if not lines:
        return None
    entries = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    try:
        int(entries["version"])
        topic_id = parse_id(entries["topic_id"])
    except (KeyError, ValueError) as error:
        raise CorruptCheckpoint(path, f"no version and topic_id: {error}") from None
    if topic_id.int == 0:
        raise CorruptCheckpoint(path, "the topic_id is zero")
    return topic_id


# --- the data directory ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The cluster and the node of a data directory. ``cluster_id`` is text, usually the base64 of a UUID.

    ``version`` is 0 in clusters on ZooKeeper, which call the node's id ``broker.id``.
    """

    cluster_id: str
    node_id: int
    directory_id: UUID
    version: int = 1

    def check(self, path: str, *, cluster_id: str | None) -> None:
        """Raise CorruptCheckpoint naming the file ``path``: ``cluster_id`` is another one."""
        if cluster_id not in {None, self.cluster_id}:
            other = f"belongs to cluster {self.cluster_id}, not {cluster_id}"
            raise CorruptCheckpoint(path, f"{other}; set cluster.id={self.cluster_id}, or use another data directory")


_NODE_ID_KEYS: Final = ("broker.id", "node.id")
"""The key of the node's id in each version of ``meta.properties``."""


def write_meta_properties(files: FileSystem, path: str, meta: MetaProperties) -> None:
    """Replace ``meta.properties``, durably. Raises OSError."""
    ids = f"cluster.id={meta.cluster_id}\ndirectory.id={format_id(meta.directory_id)}\n"
    node = f"{_NODE_ID_KEYS[meta.version]}={meta.node_id}"
    write_file(files, path, f"{ids}{node}\nversion={meta.version}\n".encode())


def read_meta_properties(files: FileSystem, path: str) -> MetaProperties | None:
    """The content of ``meta.properties``, None if there is no such file.

    A missing directory id is generated.

    Raises OSError, CorruptCheckpoint.
    """
    lines = _read_lines(files, path)
    if not lines:
        return None
    entries = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    text = entries.get("version", "0")
    if text not in {"0", "1"}:
        raise CorruptCheckpoint(path, f"version must be 0 or 1, not {text!r}")
    version = int(text)
    try:
        return MetaProperties(
            cluster_id=entries["cluster.id"],
            node_id=int(entries[_NODE_ID_KEYS[version]]),
            directory_id=parse_id(entries["directory.id"]) if "directory.id" in entries else new_id(),
            version=version,
        )
    except KeyError as error:
        raise CorruptCheckpoint(path, f"{error.args[0]} is missing") from None
    except ValueError as error:
        raise CorruptCheckpoint(path, str(error)) from None
