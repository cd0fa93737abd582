"""The partitions that are assigned to a stream, and the fetcher of their records."""

import logging
import select
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping
from typing import Final, Generic, TypeVar

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.fetcher import Fetcher
from spark_kafka_native._client.consumer.sources import Wakeup
from spark_kafka_native._client.errors import (
    FetchTimeout,
    LogTruncated,
    NoSuchPartition,
    OffsetOutOfRange,
    TopicRecreated,
)
from spark_kafka_native._client.retry import is_transient
from spark_kafka_native._net.alarm import Alarm
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.errors import NoOffset

_log = logging.getLogger(__name__)

T = TypeVar("T")

_END: Final = 2**63 - 1
_LONGEST_WAIT_MS: Final = 60_000


class AssignedFetches(Generic[T]):
    """The assigned partitions of one stream, whose thread fetches. Other threads assign, stop and remove partitions.

    An exception of a signal handler may end ``apply_changes`` and ``next`` after each call inside them. Then the next
    ``apply_changes`` begins to read again at ``positions``, because records may be lost that the fetcher has passed.
    """

    def __init__(
        self,
        cluster: Cluster,
        make_fetcher: Callable[[Cluster, Collection[PartitionRange], float, Wakeup], Fetcher[T]],
        reset: Callable[[TopicPartition], int],
    ) -> None:
        """``make_fetcher``: from cluster, ranges, timeout in milliseconds and wakeup.

        ``reset`` returns the offset at which to continue where the position has no records; it may raise KafkaError.
        """
        self.lock = threading.RLock()
        """Of all that several threads use, here and in the stream."""
        self.positions: dict[TopicPartition, int] = {}
        """The next offset to process of each assigned partition, as the stream sets it."""
        self.stopped: set[TopicPartition] = set()
        self.may_lack_records = False
        """Whether the fetcher's positions may be after records that the stream does not have.

        True from the start of a change or fetch until the stream has its result, which sets it to False.
        """
        self._alarm = Alarm()
        self._wakeup = Wakeup(self._alarm)
        self._cluster = cluster
        self._make_fetcher = make_fetcher
        self._reset = reset
        self._fetcher = self._fetcher_of([])
        self._found: Generator[tuple[TopicPartition, T]] | None = None
        self._fetched: set[TopicPartition] = set()
        """The partitions of the fetcher."""
        self._changes: dict[TopicPartition, int | None] = {}
        """Partitions that the fetcher is to read from an offset on, or no more (None)."""

    # --- the thread of the stream

    def apply_changes(self) -> None:
        """Let the fetcher read what has been assigned, and no more what has been removed. Under ``lock``."""
        if self.may_lack_records:
            self._read_again()
        if not self._changes:
            return
        self.may_lack_records = True
        if self._found is not None:
            self._found.close()
            self._found = None
        for partition, offset in self._changes.items():
            if offset is None:
                self._fetcher.remove(partition)
                self._fetched.discard(partition)
            else:
                self._fetcher.assign(PartitionRange(partition=partition, from_offset=offset, until_offset=_END))
                self._fetched.add(partition)
        self._changes.clear()

    def next(self, until: float) -> tuple[TopicPartition, T] | None:
        """Records of a partition; None: ``wake`` was called, or it is ``until``, or an error of a partition is retried.

        Sets ``may_lack_records``. Raises NoOffset; KafkaError, after which the next call continues.
        """
        self._wakeup.at = until
        self.may_lack_records = True
        failure: Exception | None = None
        try:
            found = None if self._found is None else next(self._found, None)
            if found is None:
                self._found = iter(self._fetcher)
                found = next(self._found, None)
        except KafkaError as error:
            if (failure := self._recover(error)) is None:
                return None
        if failure is not None:
            self.may_lack_records = False
            raise failure
        if found is None and not self._fetched:
            poll = select.poll()
            poll.register(self._alarm, select.POLLIN)
            poll.poll(min(max(until - time.monotonic(), 0) * 1000, _LONGEST_WAIT_MS))
        self._alarm.clear()
        return found

    def position(self, partition: TopicPartition) -> int:
        """The next offset that ``next`` returns of a partition."""
        return self._fetcher.position(partition)

    def advance(self) -> None:
        """Let ``positions`` follow the fetcher, which passes offsets without records, as those of markers.

        The stream has processed all records of ``next``.
        """
        with self.lock:
            for partition in self._fetched - self.stopped - self._changes.keys():
                self.positions[partition] = self._fetcher.position(partition)

    def is_wanted(self, partition: TopicPartition) -> bool:
        """Whether records of a partition that were fetched are still to be processed. Under ``lock``."""
        return partition in self.positions and partition not in self.stopped and partition not in self._changes

    def _recover(self, error: KafkaError) -> Exception | None:
        """Continue after the error of a partition -> the error for the user, if a retry may not help.

        Raises an error that is not of one partition; then the next ``apply_changes`` continues with another fetcher.
        """
        partition = self._fetcher.failed
        if partition is None:
            raise error
        # Assign it again after every error, because the fetcher raises the same error until then.
        self._fetcher.assign(self._range(partition, self._fetcher.position(partition)))
        if isinstance(error, OffsetOutOfRange | LogTruncated | TopicRecreated):
            return self._continue_elsewhere(partition, error)
        if isinstance(error, FetchTimeout):
            return None
        if not is_transient(error) and not isinstance(error, NoSuchPartition):
            return error
        _log.warning("%s; the consumer tries again", error)
        return None

    def _continue_elsewhere(self, partition: TopicPartition, error: KafkaError) -> Exception | None:
        """Continue at another offset, because the position has no records -> the error for the user, if any."""
        try:
            position = self._reset(partition)
        except (KafkaError, NoOffset) as failure:
            if isinstance(failure, NoOffset) or not is_transient(failure):
                return failure
            _log.warning("%s; the consumer tries again to find an offset to continue at: %s", error, failure)
            return None
        with self.lock:
            if partition in self.positions and partition not in self._changes:
                self.positions[partition] = position
        _log.warning("%s; the consumer continues at offset %d", error, position)
        self._fetcher.assign(PartitionRange(partition=partition, from_offset=position, until_offset=_END))
        return None

    def _read_again(self) -> None:
        """Read all partitions from their positions on, with another fetcher."""
        self._found = None
        self._fetcher.close()
        kept = self.positions.keys() - self._changes.keys()
        self._fetcher = self._fetcher_of([self._range(partition, self.positions[partition]) for partition in kept])
        self._fetched = kept
        self._changes = {partition: offset for partition, offset in self._changes.items() if offset is not None}
        self.may_lack_records = False

    def _fetcher_of(self, ranges: Collection[PartitionRange]) -> Fetcher[T]:
        return self._make_fetcher(self._cluster, ranges, self._cluster.config.metadata_max_age_ms, self._wakeup)

    def _range(self, partition: TopicPartition, position: int) -> PartitionRange:
        """From a position on, of the topic that the fetcher reads."""
        topic_id = self._fetcher.topic_id(partition)
        return PartitionRange(partition=partition, from_offset=position, until_offset=_END, topic_id=topic_id)

    # --- any thread

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, too, each from its offset on."""
        starts = {partition: min(offset, _END - 1) for partition, offset in offsets.items()}  # or nothing is fetched
        with self.lock:
            self.positions.update(starts)
            self._changes.update(starts)
        self.wake()

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, which are assigned, no more."""
        with self.lock:
            for partition in partitions:
                del self.positions[partition]
            self._changes.update(dict.fromkeys(partitions))
            self.stopped.difference_update(partitions)
        self.wake()

    def wake(self) -> None:
        """End a wait of ``next``. Takes no lock: a handler of a signal may call it."""
        self._alarm.ring()

    def close(self) -> None:
        """Release connections and descriptors. Not while ``next`` runs."""
        self._fetcher.close()
        self._alarm.close()
