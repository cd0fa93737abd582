"""The partitions that a stream of a group consumer reads, and their next record."""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from types import TracebackType

import pyarrow as pa

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.fetcher import Fetcher
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.consumer.sources import Wakeup
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.consumer.assigned_fetches import AssignedFetches
from spark_kafka_native._record_clients.consumer.record_rows import records_of
from spark_kafka_native._record_clients.errors import ClientClosed, ConsumerTimeout
from spark_kafka_native._record_clients.records import ConsumerRecord

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
        self._fetches: AssignedFetches[pa.RecordBatch] = AssignedFetches(cluster, _fetcher_of, self._continue_at)
        self._positions = self._fetches.positions
        """That of the chunk's partition is as of ``_note_position``."""
        self._lock = self._fetches.lock
        self._processed: dict[TopicPartition, int] = {}
        """The offset after the last processed record of each assigned partition that has one."""
        self._stopped = self._fetches.stopped
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
        """The thread that called ``take`` last, and processes its record. A later thread may have the same ident."""
        self._is_acknowledged = False
        """Whether the current record counts as processed."""
        self.taker: threading.Thread | None = None
        """The thread in ``take``."""
        self._failure: Exception | None = None
        self._failed_at: TracebackType | None = None
        """The traceback of the failure, which each raise would lengthen."""
        self._is_ending = False
        self._is_closed = False

    # --- the thread that takes records

    def take(self) -> ConsumerRecord | None:
        """The next record; None after ``end`` or ``close``.

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
        """Fetch until there is a record; None after ``end`` or ``close``."""
        until = time.monotonic() + self._timeout_s
        while True:
            with self._lock:
                if self._failure is not None:
                    raise self._failure.with_traceback(self._failed_at)
                if self._is_ending:
                    return None
                self._fetches.apply_changes()
            found = self._fetches.next(until)
            with self._lock:
                if found is None:
                    self._fetches.advance()
                else:
                    self._take(*found)
                self._fetches.may_lack_records = False
                if (record := self._begin()) is not None:
                    return record
            if time.monotonic() >= until:
                without = "" if self._positions else "; the group has not assigned a partition to this stream yet"
                timeout_ms = round(self._timeout_s * 1000)
                raise ConsumerTimeout(f"no record within consumer.timeout.ms ({timeout_ms} ms){without}")

    def _take(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        """Make rows the chunk, unless their partition has been stopped or changed meanwhile."""
        if not self._fetches.is_wanted(partition):
            return
        chunk, end = deque(records_of(partition, batch)), self._fetches.position(partition)
        self._chunk, self._chunk_of, self._chunk_end = chunk, partition, end

    def _continue_at(self, partition: TopicPartition) -> int:
        """The offset at which to continue where the position has no records."""
        offset = self._reset(partition)
        with self._lock:
            self._processed.pop(partition, None)  # of records that do not exist any more
        return offset

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

    def _release(self) -> None:
        with self._lock:
            if self.taker is None:
                self._fetches.close()

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
        self._fetches.assign(offsets)

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
            processed = {part: self._processed.pop(part) for part in self._processed.keys() & removed}
            self._fetches.remove(removed)
            if self._chunk_of in removed:
                self._current = self._chunk_of = None
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
        self._fetches.wake()


def _fetcher_of(
    cluster: Cluster, ranges: Collection[PartitionRange], timeout_ms: float, wakeup: Wakeup
) -> Fetcher[pa.RecordBatch]:
    return row_fetcher(cluster, ranges, timeout_ms=timeout_ms, wakeup=wakeup)


def _after_fork_in_child() -> None:
    global _pid  # noqa: PLW0603 -- it is that of the process
    _pid = os.getpid()


os.register_at_fork(after_in_child=_after_fork_in_child)
