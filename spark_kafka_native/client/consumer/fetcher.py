"""Reading one offset range of one partition as Arrow record batches.

The batch headers of an answer say where the next one begins, so the next Fetch is in flight while this answer is
decompressed and decoded. Rows of several answers are put together until a batch is worth handing on. At most one
answer is being decoded and one is under way; the latter waits in the socket while the rows are used.

When the partition has another leader, it is asked where the epochs ended in which the records were written, before any
of its records are used: a log that was cut and written anew is told, not read as if nothing had happened (KIP-320).
"""

from collections.abc import Iterator, Sequence
from typing import Final, Self

import pyarrow as pa

from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native.client.config import READ_COMMITTED, READ_UNCOMMITTED
from spark_kafka_native.client.consumer.fetch_channel import FetchChannel
from spark_kafka_native.client.consumer.fetch_request import FetchMetrics
from spark_kafka_native.client.consumer.gathering import TARGET_BYTES, Gathered
from spark_kafka_native.client.consumer.leader_epochs import ends_of_epochs
from spark_kafka_native.client.consumer.offsets import EARLIEST, LATEST, list_offsets
from spark_kafka_native.client.errors import BatchTooLarge, CorruptRecords, FetchTimeout, LogTruncated, OffsetOutOfRange
from spark_kafka_native.net.blocking import DEFAULT_MAX_FRAME_BYTES
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.net.errors import ConnectionLost, RequestTimeout, Throttled
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.fetch import PartitionData
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.records.aborted import AbortedTransaction
from spark_kafka_native.records.batch import LOG_OVERHEAD
from spark_kafka_native.records.batches import Batches
from spark_kafka_native.records.compression import MAX_DECOMPRESSED_BYTES
from spark_kafka_native.records.decode import decode
from spark_kafka_native.records.errors import CorruptBatch, OversizedBatch, UnreadableBatch
from spark_kafka_native.records.schema import ALL

TARGET_ROWS: Final = 50_000


class Fetcher:
    """The rows of ``partition`` from ``from_offset`` up to but not including ``until_offset``.

    Iterate it once, to the end or with ``close()`` (or ``with``) after. When an error ends the iteration, the rows
    below ``position`` have all been yielded and none at or beyond it has. After TopicRecreated from a broker before
    Kafka 3.1, rows that were yielded may be of the other topic (``planned_topics``).

    Raises, while iterating: OffsetOutOfRange, LogTruncated, FetchTimeout, CorruptRecords, BatchTooLarge,
    TopicRecreated, BrokerUnreachable and other KafkaErrors naming the partition.
    """

    def __init__(
        self,
        cluster: Cluster,
        partition: TopicPartition,
        from_offset: int,
        until_offset: int,
        *,
        columns: Sequence[str] = ALL,
        leader: PartitionLeader | None = None,
        known_epoch: int = NO_EPOCH,
        read_epoch: int = NO_EPOCH,
        isolation: int | None = None,
        target_rows: int = TARGET_ROWS,
        timeout_ms: float | None = None,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> None:
        """``columns`` are those of ``records.decode``; ``leader`` spares the first question for metadata.

        ``known_epoch`` is a leader epoch in which the log was seen to reach up to ``until_offset``: a later leader that
        lacks some of it has lost records of the range. Without it only what was read is compared with a new leader's.
        ``read_epoch`` is that of the record before ``from_offset``, where another reader has read up to there: a leader
        that lacks that record has lost some of what was read.
        ``timeout_ms`` is the longest time without progress, by default ``default.api.timeout.ms``; time that a broker
        throttles this client for does not count, up to ``MAX_THROTTLE_MS``. ``isolation`` by default is
        ``isolation.level``. A batch of more than ``max_decompressed_bytes`` raises BatchTooLarge.
        """
        self.partition = partition
        self.position = from_offset
        """The next offset to read."""
        self.until_offset = until_offset
        self._cluster = cluster
        self._columns = tuple(columns)
        self._committed_only = (cluster.config.isolation_level if isolation is None else isolation) == READ_COMMITTED
        self._timeout_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        self._target_rows = target_rows
        self._max_decompressed_bytes = max_decompressed_bytes
        self._corrupt_at: int | None = None
        self._state = "no broker has answered"
        self._end = until_offset
        """Where to stop: earlier than wanted if the log was cut before that."""
        self._known_epoch = known_epoch
        self._compared_epoch = max(known_epoch, read_epoch)
        """Up to which leader's epoch the log is known not to have been cut."""
        self._epoch = read_epoch
        """Of the leader that took the record before ``position``."""
        self._channel = FetchChannel(
            cluster, partition, isolation=READ_COMMITTED if self._committed_only else READ_UNCOMMITTED, leader=leader
        )

    @property
    def metrics(self) -> FetchMetrics:
        """Counters from the start of the read."""
        return self._channel.metrics

    def close(self) -> None:
        """Give the connection back."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Record batches of about ``target_rows`` rows, none empty."""
        gathered = Gathered(self._target_rows)
        try:
            for records in self._answers():
                self.metrics.records += records.num_rows
                yield from gathered.add(records)
        except KafkaError:
            yield from gathered.rest()
            raise
        finally:
            self.close()
        yield from gathered.rest()

    def _answers(self) -> Iterator[pa.RecordBatch]:
        """The rows of each answer. ``position`` moves before they are yielded."""
        stalled = Deadline.after_ms(self._timeout_ms)
        backoff = self._cluster.backoff()
        while self.position < self._end:
            before = self.position
            part = self._take(stalled)
            if part is not None:
                yield from self._rows_or_trouble(part)
            del part  # so that the next answer can have its memory
            if self.position > before:
                stalled = Deadline.after_ms(self._timeout_ms)
                backoff.reset()
            elif not stalled.pause(backoff.next_ms()):
                raise FetchTimeout(self.partition, self.position, round(self._timeout_ms), self._state)
        self._channel.check_topic()
        if self._end < self.until_offset:
            raise LogTruncated(self.partition, self.until_offset, self._end)

    def _take(self, stalled: Deadline) -> PartitionData | None:
        """The answer to the Fetch at ``position``; None if the offset was out of range for a moment only."""
        try:
            part = self._channel.take(self.position, stalled, epoch=self._epoch)
            self._compare_logs(stalled)
        except (ConnectionLost, RequestTimeout, Throttled) as error:
            raise FetchTimeout(self.partition, self.position, round(self._timeout_ms), str(error)) from error
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            self._check_range(stalled)
            return None
        self._state = f"the high watermark is {part.high_watermark}, the last stable offset {part.last_stable_offset}"
        return part

    def _rows_or_trouble(self, part: PartitionData) -> Iterator[pa.RecordBatch]:
        """The rows of one answer up to its first unreadable batch. Raises when that stands at ``position`` again."""
        try:
            yield from self._rows(part)
        except OversizedBatch as error:
            offset = self.position if error.base_offset is None else error.base_offset
            raise BatchTooLarge(self.partition, offset, self._max_decompressed_bytes) from error
        except UnreadableBatch as error:
            if self._corrupt_at == self.position:
                raise CorruptRecords(self.partition, self.position, str(error)) from error
            # The network or the broker's memory may be the cause: once more, over a new connection.
            self._corrupt_at = self.position
            self.metrics.retries += 1

    def _rows(self, part: PartitionData) -> Iterator[pa.RecordBatch]:
        """Raises UnreadableBatch only for the batch at ``position``; one that comes later just ends the answer."""
        records = part.records or b""
        assert isinstance(records, bytes | memoryview)
        batches, end, epoch = self._whole(Batches.of(records))
        if end == self.position:
            self._make_room(batches.view)
            return
        if end < self._end:
            self._channel.ask(end, epoch=epoch)
        aborted: Sequence[AbortedTransaction] | None = None
        if self._committed_only:
            aborted = part.aborted_transactions or ()
        while batches.size:
            try:
                decoded = decode(
                    batches,
                    from_offset=self.position,
                    until_offset=self._end,
                    columns=self._columns,
                    check_crcs=self._cluster.config.check_crcs,
                    aborted=aborted,
                    max_decompressed_bytes=self._max_decompressed_bytes,
                    target_rows=self._target_rows,
                    target_bytes=TARGET_BYTES,
                )
            except UnreadableBatch as error:
                self._channel.disconnect()
                batches, end, epoch = self._whole(batches.before(error.position or 0))
                if end == self.position:
                    raise
                continue
            if not decoded.bytes_used:
                break
            batches, aborted = batches.behind(decoded.bytes_used), decoded.aborted
            # Which epoch the batch before has is known again at the end of the answer.
            self.position, self._epoch = decoded.next_offset, NO_EPOCH
            if decoded.records.num_rows:
                yield decoded.records
        self.position, self._epoch = max(self.position, min(end, self._end)), epoch

    def _whole(self, batches: Batches) -> tuple[Batches, int, int]:
        """``batches`` up to an unreadable header; the offset behind the last whole one, and that one's epoch.

        The offset is ``position`` where no batch lies beyond it. Raises UnreadableBatch if the bad one comes first.
        """
        end, epoch, trouble = batches.reach(self.position, self._epoch)
        if trouble is None:
            return batches, end, epoch
        if end == self.position:
            self._channel.disconnect()
            raise trouble
        return batches.before(trouble.position), end, epoch

    def _make_room(self, payload: memoryview) -> None:
        """Ask for larger answers if the first batch did not fit: brokers older than KIP-74 cut it off.

        Raises CorruptBatch: there was room enough for the size that the batch says it has.
        """
        size = LOG_OVERHEAD + int.from_bytes(payload[8:LOG_OVERHEAD], "big")
        if self._channel.max_bytes < size <= DEFAULT_MAX_FRAME_BYTES:
            self._channel.max_bytes = size
        elif payload:
            self._channel.disconnect()
            raise CorruptBatch("no whole batch at or behind the offset asked for", position=0)

    def _compare_logs(self, deadline: Deadline) -> None:
        """If the leader is another than before, find out whether its log still has what was read and was to be read.

        Raises LogTruncated if it lacks some of what was read, or all that was to be read next.
        """
        leader_epoch = self._channel.leader_epoch
        if leader_epoch <= self._compared_epoch:
            return
        if self._compared_epoch != NO_EPOCH:
            self._look_for_divergence(deadline)
        self._compared_epoch = leader_epoch

    def _look_for_divergence(self, deadline: Deadline) -> None:
        # Where both epochs are one, the farther reach says it all.
        reaches = {self._epoch: self.position, self._known_epoch: self._end}
        for epoch, reach in reaches.items():
            if epoch == NO_EPOCH:
                continue
            ends = ends_of_epochs(self._cluster, {self.partition: epoch}, timeout_ms=deadline.remaining_ms)
            if self.partition in ends and ends[self.partition].end_offset < reach:
                self._end = min(self._end, ends[self.partition].end_offset)
        if self._end <= self.position:
            self._channel.disconnect()
            raise LogTruncated(self.partition, self.position, self._end)

    def _check_range(self, deadline: Deadline) -> None:
        """Raise OffsetOutOfRange unless the offset is in the log after all, as after an election it may be.

        Raises LogTruncated instead if the log is known to have reached further.
        """
        at = {self.partition: EARLIEST}
        earliest = list_offsets(self._cluster, at)[self.partition].offset
        at = {self.partition: LATEST}
        latest = list_offsets(self._cluster, at, isolation=READ_UNCOMMITTED)[self.partition].offset
        if not earliest <= self.position <= latest:
            if self.position > latest:
                self._look_for_divergence(deadline)
            raise OffsetOutOfRange(self.partition, self.position, earliest, latest)
        # A leader that knows no such epoch says so in the same words.
        self._epoch = NO_EPOCH
        self._state = f"the broker calls it out of range, yet says that the log has {earliest} to {latest}"
