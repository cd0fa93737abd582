"""The partitions that a stream of a group consumer reads, and their next record."""

import logging
import math
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping
from types import TracebackType
from typing import Final

import pyarrow as pa

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.fetcher import Fetcher
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
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
from spark_kafka_native._record_clients.consumer.record_rows import records_of
from spark_kafka_native._record_clients.errors import ClientClosed, ConsumerTimeout, NoOffset
from spark_kafka_native._record_clients.records import ConsumerRecord

_log = logging.getLogger(__name__)

_END: Final = 2**63 - 1
_LONGEST_WAIT_MS: Final = 60_000

_pid = os.getpid()
"""Of this process. ``os.getpid`` for each record would cost as much as a third of ``take``."""


class StreamPartitions:
    """The partitions that are assigned to one stream. One thread takes their records, and fetches them.

    A record is being processed until the next one is taken.

    An exception of a signal handler may end ``take`` after each call inside it, and the next ``take`` continues: the
    fetcher reads again what may be lost, and a record that the caller did not get is returned.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        timeout_ms: int,
        reset: Callable[[TopicPartition], int],
        wake: Callable[[], None],
    ) -> None:
        """``timeout_ms``: longest wait for a record, -1: no limit.

        ``reset`` returns the offset at which to continue where the position has no records; it may raise KafkaError.
        ``wake`` is called when the record of a stopped partition has been processed.
        """
        self._pid = _pid
        self._timeout_s = math.inf if timeout_ms < 0 else timeout_ms / 1000
        self._reset = reset
        self._wake_member = wake
        self._alarm = Alarm()
        self._wakeup = Wakeup(self._alarm)
        # These belong to the thread that takes records.
        self._cluster = cluster
        self._fetcher = self._fetcher_of([])
        self._rows: Generator[tuple[TopicPartition, pa.RecordBatch]] | None = None
        self._fetched: set[TopicPartition] = set()
        """The partitions of the fetcher."""
        self._may_lack_rows = False
        """Whether the chunk may lack rows that the fetcher has passed: until changes, fetch and chunk are complete.

        Still true in the next ``take`` after an exception in one of these, such as that of a signal handler.
        """
        self._lock = threading.RLock()
        self._positions: dict[TopicPartition, int] = {}
        """The next offset to process of each assigned partition; that of the chunk as of ``_note_position``."""
        self._processed: dict[TopicPartition, int] = {}
        """The offset after the last processed record of each assigned partition that has one."""
        self._stopped: set[TopicPartition] = set()
        self._changes: dict[TopicPartition, int | None] = {}
        """Partitions that the fetcher is to read from an offset on, or no more (None)."""
        self._chunk: deque[ConsumerRecord] = deque()
        self._chunk_of: TopicPartition | None = None
        self._chunk_end = 0
        self._previous: ConsumerRecord | None = None
        """The record of the chunk before the current one, which has been processed."""
        self._current: ConsumerRecord | None = None
        """The record of the chunk that was taken last, if its partition is still assigned."""
        self._in_process: ConsumerRecord | None = None
        """The record that is being processed; its partition may be lost."""
        self.is_returned = False
        """Whether the caller has got the current record. Set by the caller, as the last thing before it uses it."""
        self._thread: threading.Thread | None = None
        """The thread that processes it. Its ident may be that of a later thread, too."""
        self._is_acknowledged = False
        """Whether it counts as processed."""
        self.taker: threading.Thread | None = None
        """The thread in ``take``."""
        self._failure: Exception | None = None
        self._failed_at: TracebackType | None = None
        """The traceback of the failure, which each raise would lengthen."""
        self._is_ending = False
        self._is_closed = False

    # --- the thread that takes records

    def take(self) -> ConsumerRecord | None:
        """The next record; None after ``close``.

        Raises ConsumerTimeout after ``consumer.timeout.ms``; NoOffset; KafkaError; RuntimeError: another thread takes
        one; ClientClosed: the process was forked.
        """
        if self._pid != _pid:
            raise ClientClosed("the stream belongs to a consumer of the process before fork()")
        thread = threading.current_thread()
        # No call, so neither a signal handler nor another thread, between these.
        if self.taker is not None:
            raise RuntimeError("another thread waits for a record of this stream; each stream is for one thread")
        self.taker = thread
        try:
            with self._lock:
                self._thread = thread
                if self.is_returned and self._chunk and not self._is_ending:
                    return self._begin_next()
                if self._current is None or self.is_returned or self._chunk_of in self._stopped:
                    self._finish()
                if self._is_ending:
                    return None
                if (record := self._begin()) is not None:
                    return record
                self._end_chunk()
            return self._wait()
        finally:
            self.taker = None
            if self._is_closed:
                self._release()

    def _wait(self) -> ConsumerRecord | None:
        """Fetch until there is a record; None: the stream is closed."""
        self._wakeup.at = time.monotonic() + self._timeout_s
        while True:
            with self._lock:
                if self._failure is not None:
                    raise self._failure.with_traceback(self._failed_at)
                if self._is_ending:
                    return None
                self._apply_changes()
            fetched = self._fetch()
            with self._lock:
                if fetched is not None:
                    self._take(*fetched)
                self._may_lack_rows = False
                if (record := self._begin()) is not None:
                    return record
            if time.monotonic() >= self._wakeup.at:
                without = "" if self._positions else "; the group has not assigned a partition to this stream yet"
                timeout_ms = round(self._timeout_s * 1000)
                raise ConsumerTimeout(f"no record within consumer.timeout.ms ({timeout_ms} ms){without}")

    def _fetch(self) -> tuple[TopicPartition, pa.RecordBatch] | None:
        """Rows of a partition; None: the thread was woken, or a partition begins at another offset."""
        self._may_lack_rows = True
        failure: Exception | None = None
        try:
            found = None if self._rows is None else next(self._rows, None)
            if found is None:
                self._rows = iter(self._fetcher)
                found = next(self._rows, None)
        except KafkaError as error:
            if (failure := self._recover(error)) is None:
                return None
        if failure is not None:
            self._may_lack_rows = False
            raise failure
        if found is None and not self._fetched:
            poll = select.poll()
            poll.register(self._alarm, select.POLLIN)
            poll.poll(min(max(self._wakeup.at - time.monotonic(), 0) * 1000, _LONGEST_WAIT_MS))
        self._alarm.clear()
        if found is None:
            self._advance()
        return found

    def _advance(self) -> None:
        """Let positions follow the fetcher, which passes records that are not returned, as those of transactions."""
        with self._lock:
            for partition in self._fetched - self._stopped - self._changes.keys():
                self._positions[partition] = self._fetcher.position(partition)

    def _take(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        """Make rows the chunk, unless their partition has been stopped or changed meanwhile."""
        if partition in self._stopped or partition in self._changes or partition not in self._positions:
            return
        chunk, end = deque(records_of(partition, batch)), self._fetcher.position(partition)
        self._chunk, self._chunk_of, self._chunk_end = chunk, partition, end

    def _recover(self, error: KafkaError) -> Exception | None:
        """Continue after the error of a partition -> the error for the user, if a retry may not help.

        Raises an error that is not of one partition; then the next ``take`` continues with another fetcher.
        """
        partition = self._fetcher.failed
        if partition is None:
            raise error
        # Whatever the error: else the fetcher would raise it again, before it reads other partitions.
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
        with self._lock:
            if partition in self._positions and partition not in self._changes:
                self._positions[partition] = position
                self._processed.pop(partition, None)
        _log.warning("%s; the consumer continues at offset %d", error, position)
        self._fetcher.assign(PartitionRange(partition=partition, from_offset=position, until_offset=_END))
        return None

    def _fetcher_of(self, ranges: Collection[PartitionRange]) -> Fetcher[pa.RecordBatch]:
        timeout_ms = self._cluster.config.metadata_max_age_ms
        return row_fetcher(self._cluster, ranges, timeout_ms=timeout_ms, wakeup=self._wakeup)

    def _range(self, partition: TopicPartition, position: int) -> PartitionRange:
        """From a position on, of the topic that the fetcher reads."""
        topic_id = self._fetcher.topic_id(partition)
        return PartitionRange(partition=partition, from_offset=position, until_offset=_END, topic_id=topic_id)

    # --- under the lock

    def _begin(self) -> ConsumerRecord | None:
        """The record that is being processed from now on, the next one of the chunk; None: it has no more.

        The current one again, if it was not finished.
        """
        if self._current is None and self._chunk:
            return self._begin_next()
        return self._current

    def _begin_next(self) -> ConsumerRecord:
        """The next record of the chunk. The current one, if any, has been processed."""
        # No call, so no signal handler, between these.
        self.is_returned = self._is_acknowledged = False
        self._previous = self._current
        self._current = self._in_process = record = self._chunk[0]
        self._chunk.popleft()
        return record

    def _finish(self) -> None:
        """The current record has been processed, if the caller got it."""
        self._is_acknowledged |= self.is_returned
        self._note_position()
        current, self._current, self._previous, self._in_process = self._current, None, None, None
        if current is not None and self._chunk_of in self._stopped:
            self._wake_member()

    def _note_position(self) -> None:
        """That of the chunk's partition, by its current record, so that ``take`` need not for each record."""
        if self._current is None or self._chunk_of is None:
            return
        self._positions[self._chunk_of] = self._current.offset + self._is_acknowledged
        processed = self._current if self._is_acknowledged else self._previous
        if processed is not None:
            self._processed[self._chunk_of] = processed.offset + 1

    def _end_chunk(self) -> None:
        if self._chunk_of in self._positions and self._chunk_of not in self._stopped:
            self._positions[self._chunk_of] = self._chunk_end
        self._chunk_of = None

    def _apply_changes(self) -> None:
        if self._may_lack_rows:
            self._read_again()
        if not self._changes:
            return
        self._may_lack_rows = True
        if self._rows is not None:
            self._rows.close()
            self._rows = None
        for partition, offset in self._changes.items():
            if offset is None:
                self._fetcher.remove(partition)
                self._fetched.discard(partition)
            else:
                self._fetcher.assign(PartitionRange(partition=partition, from_offset=offset, until_offset=_END))
                self._fetched.add(partition)
        self._changes.clear()

    def _read_again(self) -> None:
        """Read all partitions from their positions on, with another fetcher."""
        self._rows = None
        self._fetcher.close()
        kept = self._positions.keys() - self._changes.keys()
        self._fetcher = self._fetcher_of([self._range(partition, self._positions[partition]) for partition in kept])
        self._fetched = kept
        self._changes = {partition: offset for partition, offset in self._changes.items() if offset is not None}
        self._may_lack_rows = False

    def _release(self) -> None:
        with self._lock:
            if self.taker is None:
                self._fetcher.close()
                self._alarm.close()

    # --- other threads

    @property
    def assigned(self) -> list[TopicPartition]:
        """The assigned partitions. Without a lock: a handler of a signal may wait for the member's thread."""
        return list(self._positions)

    @property
    def is_unread(self) -> bool:
        """Whether it has partitions, and no thread has ever requested a record."""
        return self._thread is None and bool(self._positions)

    @property
    def in_process(self) -> ConsumerRecord | None:
        """The record that is being processed; its partition may be lost."""
        return self._in_process

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, too, each from its offset on."""
        starts = {partition: min(offset, _END - 1) for partition, offset in offsets.items()}  # or nothing is fetched
        with self._lock:
            self._positions.update(starts)
            self._changes.update(starts)
        self.wake()

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Return no more records of these partitions."""
        with self._lock:
            self._stopped.update(self._positions.keys() & partitions)
            if self._chunk_of in self._stopped:
                self._chunk.clear()

    def is_processing(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether a record of these partitions is being processed."""
        with self._lock:
            return self._current is not None and self._chunk_of in partitions

    def remove(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Read these partitions no more -> the offset after the last processed record of each that has one.

        The record that is being processed is one of them.
        """
        with self._lock:
            self.stop(partitions)
            self._is_acknowledged |= self._chunk_of in partitions
            self._note_position()
            removed = self._positions.keys() & partitions
            for partition in removed:
                del self._positions[partition]
            processed = {part: self._processed.pop(part) for part in self._processed.keys() & removed}
            self._changes.update(dict.fromkeys(removed))
            self._stopped -= removed
            if self._chunk_of in removed:
                self._current = self._chunk_of = None
        self.wake()
        return processed

    def acknowledge(self, thread: threading.Thread) -> None:
        """Count the record that a thread processes as processed. It keeps its partition until the next one is taken."""
        with self._lock:
            self._is_acknowledged |= self._thread is thread and self.is_returned

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to process of each partition."""
        with self._lock:
            self._note_position()
            return dict(self._positions)

    def fail(self, error: Exception) -> None:
        """Let ``take`` raise an error."""
        with self._lock:
            self._failure, self._failed_at = error, error.__traceback__
        self.wake()

    def end(self) -> None:
        """Let ``take`` return no record any more. Takes no lock: a handler of a signal may call it."""
        self._is_ending = True
        self.wake()

    def close(self) -> None:
        """As ``end``, and release connections and descriptors."""
        with self._lock:
            self.stop(self._positions)
            self._is_ending = self._is_closed = True
            self.wake()
            self._release()

    def wake(self) -> None:
        """Let a waiting thread look at the state here, and advance the positions."""
        self._alarm.ring()


def _after_fork_in_child() -> None:
    global _pid  # noqa: PLW0603 -- it is that of the process
    _pid = os.getpid()


os.register_at_fork(after_in_child=_after_fork_in_child)
