"""Reading offset ranges of partitions: one Fetch per broker, for all partitions that it leads.

The batch headers of a response say where each partition continues, so the next Fetch is in flight while the response is
decompressed and decoded. One response at a time is decoded; the next ones wait in their sockets.

    cursor without a source --leader found, logs compared--> source of its broker --Fetch--> decode --> records
              ^                                                      |
              +---- retriable error: after a pause, at the same offset
                                                                     +---- any other error: failure, which is raised

Every Fetch says in which leader epoch the record before its offset was written. A leader that lacks that record
answers, from Kafka 2.7 on, where its log parts from the one that was read (KIP-320, KIP-595). A partition's new leader
is asked where the earlier epochs ended, before any of its records are used: a log that was truncated and written again
is an error.
"""

import math
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import Generic, Self
from uuid import UUID

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import READ_COMMITTED, READ_UNCOMMITTED
from spark_kafka_native._client.consumer.broker_source import BrokerSource, is_throttled
from spark_kafka_native._client.consumer.completed_fetch import CompletedFetch, Decode, T
from spark_kafka_native._client.consumer.cursor import Cursor, FetchMetrics, PartitionRange
from spark_kafka_native._client.consumer.leadership import check_range, find_leaders
from spark_kafka_native._client.consumer.planned_topics import compare_topic_ids
from spark_kafka_native._client.consumer.sources import Sources, Wakeup
from spark_kafka_native._client.errors import BatchTooLarge, CorruptRecords, FetchTimeout, LogTruncated
from spark_kafka_native._client.pausable_clock import PausableClock
from spark_kafka_native._client.retry import give_up, is_transient, jitter
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import AuthenticationFailed, ConnectionLost, RequestTimeout, Throttled
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.fetch import FetchResponse, PartitionData
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID
from spark_kafka_native._records.decompression import MAX_DECOMPRESSED_BYTES
from spark_kafka_native._records.errors import OversizedBatch, UnreadableBatch


class Fetcher(Generic[T]):
    """The records of ``ranges``, each of another partition, as ``decode`` makes them: in the order of their offsets.

    Iterate it. When a partition fails, the iteration raises its error, and ``failed`` is the partition; the records
    below its ``position`` have all been yielded, and none at or above it has. Iterating again continues with all
    partitions, once ``assign`` has given the failed one another range, or ``remove`` has removed it; else it raises
    again. After TopicRecreated from a broker before Kafka 3.1, records that were yielded may be of the other topic
    (`planned_topics`).

    Raises, while iterating: OffsetOutOfRange, LogTruncated, FetchTimeout, CorruptRecords, BatchTooLarge,
    TopicRecreated, BrokerUnreachable, AuthenticationFailed, other KafkaErrors; ValueError: a partition has two ranges.
    """

    def __init__(
        self,
        cluster: Cluster,
        ranges: Iterable[PartitionRange],
        *,
        decode: Decode[T],
        isolation: int | None = None,
        timeout_ms: float | None = None,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
        wakeup: Wakeup | None = None,
    ) -> None:
        """``isolation`` by default is ``isolation.level``.

        ``timeout_ms`` is the longest time that a partition may be without progress, by default
        ``default.api.timeout.ms``; time in which a broker throttles this client does not count, up to
        ``MAX_THROTTLE_MS``, nor does the time that the caller takes between rows.
        ``max_decompressed_bytes``: the limit of ``decode``, which BatchTooLarge names. ``wakeup`` ends an iteration
        that waits; the next one continues. With it, the leader of a partition without records is looked up again
        instead.
        """
        config = cluster.config
        self.metrics = FetchMetrics()
        self.failed: TopicPartition | None = None
        """The partition whose error ended the iteration; None if the error is not that of one partition."""
        self._cluster = cluster
        self._committed_only = (config.isolation_level if isolation is None else isolation) == READ_COMMITTED
        self._timeout_ms = config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        self._max_decompressed_bytes = max_decompressed_bytes
        self._decode = decode
        self._cursors: dict[TopicPartition, Cursor] = {}
        self._failures: dict[Cursor, None] = {}
        self._completed: deque[CompletedFetch] = deque()
        self._jitter = jitter()
        """The same for all partitions, so that those that have an error at once are retried at once."""
        self._clock = PausableClock()
        """For timeouts only: it is paused while the caller uses records, and between iterations."""
        isolation = READ_COMMITTED if self._committed_only else READ_UNCOMMITTED
        self._sources = Sources(cluster, isolation, self._clock, wakeup)
        self._is_endless = wakeup is not None
        self._look_up_ms = math.inf if wakeup is None else wakeup.look_up_ms
        self.named_topics = False
        """Whether a Fetch named its topics, so that records may be of another topic of a partition's name."""
        self._is_confirmed = False  # whether the topics' ids were compared after the last of these
        for wanted in ranges:
            if wanted.partition in self._cursors:
                raise ValueError(f"two ranges of {wanted.partition}")
            self.assign(wanted)

    def assign(self, wanted: PartitionRange) -> None:
        """Read this range of a partition instead of what is left of its present one. Not while iterating."""
        self.remove(wanted.partition)
        config, now = self._cluster.config, self._clock.now()
        cursor = Cursor(wanted, config, timeout_ms=self._timeout_ms, jitter=self._jitter, now=now)
        self._cursors[wanted.partition] = cursor
        if not cursor.is_finished:
            self._sources.wait(cursor)

    def remove(self, partition: TopicPartition) -> None:
        """Read no more of a partition. Not while iterating."""
        cursor = self._cursors.pop(partition, None)
        if cursor is not None:
            self._sources.detach(cursor)
            self._failures.pop(cursor, None)
            self._completed = deque(each for each in self._completed if each.cursor is not cursor)

    def position(self, partition: TopicPartition) -> int:
        """The next offset to yield of a partition."""
        return self._cursors[partition].position

    def topic_id(self, partition: TopicPartition) -> UUID:
        """The id of a partition's topic; all zeroes if it is not known."""
        return self._cursors[partition].topic_id if partition in self._cursors else ZERO_UUID

    def close(self) -> None:
        """Give the connections back, as the end of all ranges does. Iterating again connects again."""
        self._sources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Generator[tuple[TopicPartition, T]]:
        """Records of one partition at a time, of one response at most, and never none.

        An iteration that is left early, or ends with an error, keeps its connections and what they have received for
        the next one.
        """
        self.failed = None
        self._clock.resume()
        try:
            while True:
                while self._completed:
                    yield from self._records(self._completed[0])
                    self._completed.popleft()
                    self._raise_failure()
                if not self._sources:
                    self._check_topics()
                    self.close()
                    return
                self._find_sources()
                for source in self._sources:
                    self._send(source)
                self._raise_failure()
                self._await()
                self._raise_failure()
                if self._sources.is_woken and not self._completed:
                    return
        finally:
            self._clock.pause()

    # --- errors

    def _raise_failure(self) -> None:
        """Raise the error of the first of the partitions that failed, in the order of the ranges."""
        if not self._failures:
            return
        cursor = next(cursor for cursor in self._cursors.values() if cursor in self._failures)
        assert cursor.failure is not None
        self.failed = None if isinstance(cursor.failure, AuthenticationFailed) else cursor.partition
        raise cursor.failure

    def _fail(self, cursor: Cursor, error: KafkaError, cause: Exception | None = None) -> None:
        self._sources.detach(cursor)
        if isinstance(error, ConnectionLost | RequestTimeout | Throttled):
            error, cause = self._timeout(cursor, str(error)), error
        if cause is not None:
            error.__cause__ = cause
        cursor.failure = error
        self._failures[cursor] = None

    def _timeout(self, cursor: Cursor, state: str) -> FetchTimeout:
        return FetchTimeout(cursor.partition, cursor.position, round(self._timeout_ms), state)

    def _pause(self, cursor: Cursor, error: KafkaError, now: float) -> None:
        """Try again after a pause, if time is left."""
        pause_ms = cursor.backoff.next_ms()
        if cursor.remaining_ms(now) <= pause_ms:
            try:
                give_up(cursor.last_error, error)
            except KafkaError as final:
                self._fail(cursor, final)
            return
        cursor.last_error = error
        self._sources.wait(cursor, pause_ms)

    def _retry(self, cursor: Cursor, error: KafkaError, now: float) -> None:
        """A Fetch failed: look for the leader again, unless another try cannot help."""
        # A replica's error is not final: the leader gets the same Fetch first.
        if not cursor.replica.give_up(time.monotonic()) and not is_transient(error):
            self._fail(cursor, error)
            return
        self.metrics.retries += 1
        cursor.leader = None
        self._cluster.mark_stale(cursor.partition.topic)
        self._pause(cursor, error, now)

    def _lose(self, source: BrokerSource, error: KafkaError) -> None:
        source.disconnect()
        for cursor in list(source.cursors):
            self._retry(cursor, error, self._clock.now())

    # --- requests

    def _find_sources(self) -> None:
        """Attach the cursors whose time has come to the source of their leader, or of the replica that it named."""
        if not (due := self._sources.due()):
            return
        retriable, final = find_leaders(self._cluster, due, self._deadline(due, self._look_up_ms))
        now = self._clock.now()
        for cursor, error in retriable.items():
            self._pause(cursor, error, now)
        for cursor, error in final.items():
            self._fail(cursor, error)
        for cursor in due:
            if cursor.leader is None or cursor.failure is not None:
                continue
            node = cursor.leader.node
            if cursor.replica.node_id is not None:
                try:
                    node = self._cluster.node(cursor.replica.node_id, self._deadline([cursor], self._look_up_ms))
                except KafkaError as error:
                    self._retry(cursor, error, now)
                    continue
            cursor.rewind()
            self._sources.attach(cursor, node, cursor.replica.rack(time.monotonic()))

    def _send(self, source: BrokerSource) -> None:
        """Send the next Fetch of a source, if none is in flight and its time has come."""
        if source.in_flight or source.resume_at > time.monotonic() or not self._sources.has_cursors(source):
            return
        deadline = self._deadline(source.cursors)
        try:
            if not source.connect(deadline):
                return
            if throttle_ms := source.connection.throttle_ms:
                self._hold(source, throttle_ms)
                return
            if source.names_topics:
                if not self.named_topics:
                    self._compare_topics(self._deadline(source.cursors, self._look_up_ms))
                self.named_topics, self._is_confirmed = True, False
                if not source.cursors:
                    return
            source.response_timeout_ms = source.send(deadline)
            source.expires_at = self._clock.now() + source.response_timeout_ms / 1000
            self.metrics.requests += 1
        except KafkaError as error:
            self._lose(source, error)

    def _hold(self, source: BrokerSource, throttle_ms: float) -> None:
        """Send no Fetch before the end of a throttle (KIP-219)."""
        source.resume_at = time.monotonic() + throttle_ms / 1000
        for cursor in list(source.cursors):
            cursor.extend_for_throttle(throttle_ms)
            if throttle_ms > cursor.remaining_ms(self._clock.now()):
                self._fail(cursor, Throttled(self._cluster.address_of(source.node), "Fetch", math.ceil(throttle_ms)))

    def _await(self) -> None:
        """Wait for a response, or for the time of a request; take the response, with the next Fetch in flight."""
        source, expired = self._sources.poll()
        for late in expired:
            address = late.connection.address
            self._cluster.note_timeout(address)
            self._lose(late, RequestTimeout(address, "Fetch", round(late.response_timeout_ms)))
        if source is None:
            return
        try:
            response = source.receive()
        except KafkaError as error:
            self._lose(source, error)
            return
        self._sources.received(source, whole=response is not None)
        if response is not None:
            self._take(source, response)
            self._send(source)

    def _deadline(self, cursors: Iterable[Cursor], at_most_ms: float = math.inf) -> Deadline:
        """When the last of ``cursors`` will have been without progress for too long."""
        now = self._clock.now()
        return Deadline.after_ms(min(max(cursor.remaining_ms(now) for cursor in cursors), at_most_ms))

    # --- responses

    def _take(self, source: BrokerSource, response: FetchResponse) -> None:
        """Put the batches of a response with those to decode; move the cursors to where the next Fetch is to be."""
        if is_throttled(response):
            self._take_throttled(source, response.throttle_time_ms)
            return
        throttle_ms, now = source.connection.throttle_ms, self._clock.now()
        with_records = [
            cursor for cursor, part in source.parts_of(response) if self._take_part(source, cursor, part, response, now)
        ]
        for cursor in with_records:
            self._sources.continue_after(cursor)
        if with_records:
            source.backoff.reset()
        elif source.cursors:
            source.resume_at = time.monotonic() + source.backoff.next_ms() / 1000
        if self._cluster.is_from_another_broker(response):
            source.disconnect()
        if throttle_ms:
            self._hold(source, throttle_ms)

    def _take_throttled(self, source: BrokerSource, throttle_ms: int) -> None:
        """A quota left the response without records: the same Fetch is sent again after the throttle."""
        for cursor in [cursor for cursor in source.cursors if not cursor.remaining_ms(self._clock.now())]:
            self._fail(cursor, Throttled(self._cluster.address_of(source.node), "Fetch", throttle_ms))
        if source.connection.throttle_ms:
            self._hold(source, source.connection.throttle_ms)

    def _take_part(
        self, source: BrokerSource, cursor: Cursor, part: PartitionData | None, response: FetchResponse, now: float
    ) -> bool:
        """Take a partition's part of a response. Whether it has records that are still to be read."""
        code = ErrorCode.of(response.error_code or (part.error_code if part else 0))
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and cursor.replica.node_id is None:
            error = check_range(self._cluster, cursor, self._deadline([cursor], self._look_up_ms))
            if error is None:
                self._pause(cursor, self._timeout(cursor, cursor.state), now)
            else:
                self._retry(cursor, error, self._clock.now())
        elif code is not ErrorCode.NONE:
            self._retry(cursor, KafkaError(code, str(cursor.partition), operation="READ"), now)
        elif part is None:
            detail = f"{cursor.partition} is missing from the Fetch response"
            self._retry(cursor, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail), now)
        elif part.diverging_epoch.end_offset >= 0:
            diverged_at = min(part.diverging_epoch.end_offset, cursor.next_offset)
            self._retry(cursor, LogTruncated(cursor.partition, cursor.next_offset, diverged_at), now)
        else:
            return self._take_records(source, cursor, part, now)
        return False

    def _take_records(self, source: BrokerSource, cursor: Cursor, part: PartitionData, now: float) -> bool:
        """Put a partition's batches with those to decode. Whether there are any beyond its offset."""
        assert cursor.leader is not None
        size = 0 if part.records is None else len(part.records)
        replica, replica_now = cursor.replica, time.monotonic()
        cursor.state = f"the high watermark is {part.high_watermark}, the last stable offset {part.last_stable_offset}"
        named = part.preferred_read_replica
        if not size and replica.node_id is None and named >= 0 and named != cursor.leader.node.node_id:
            replica.follow(named, replica_now)
            self._sources.wait(cursor)
            return False
        # A replica without records where more are expected lags; the leader has whatever there is.
        if (not size and replica.give_up(replica_now)) or replica.expire(replica_now):
            self._sources.wait(cursor)
        self.metrics.bytes_fetched += size
        try:
            completed = CompletedFetch.of(cursor, source, part, committed_only=self._committed_only)
        except UnreadableBatch as error:
            source.disconnect()
            self._unreadable(cursor, error)
            return False
        if completed is not None:
            self._completed.append(completed)
            return True
        if not cursor.remaining_ms(now) and self._is_endless:
            cursor.look_leader_up_again(now)
            self._sources.wait(cursor)
        elif not cursor.remaining_ms(now):
            self._fail(cursor, self._timeout(cursor, cursor.state))
        return False

    def _unreadable(self, cursor: Cursor, error: UnreadableBatch) -> None:
        """The batch at ``position`` cannot be read: once more over a new connection, then the partition fails.

        The network or the broker's memory may be the cause.
        """
        if isinstance(error, OversizedBatch):
            offset = cursor.position if error.base_offset is None else error.base_offset
            self._fail(cursor, BatchTooLarge(cursor.partition, offset, self._max_decompressed_bytes), error)
        elif cursor.corrupt_at == cursor.position:
            self._fail(cursor, CorruptRecords(cursor.partition, cursor.position, str(error)), error)
        else:
            cursor.corrupt_at = cursor.position
            self.metrics.retries += 1
            self._pause(cursor, self._timeout(cursor, cursor.state), self._clock.now())

    def _records(self, completed: CompletedFetch) -> Iterator[tuple[TopicPartition, T]]:
        cursor = completed.cursor
        try:
            for records, count in completed.records(self._decode, self._clock.now):
                self.metrics.records += count
                self._clock.pause()
                yield cursor.partition, records
                self._clock.resume()
        except UnreadableBatch as error:
            self._unreadable(cursor, error)
            return
        if cursor.position >= cursor.end_offset:
            self._sources.detach(cursor)
            if cursor.end_offset < cursor.until_offset:
                self._fail(cursor, LogTruncated(cursor.partition, cursor.until_offset, cursor.end_offset))
        elif cursor.failure is None and cursor not in self._sources:
            # The batches' headers reached to the end of the range, but the last ones could not be decoded.
            self._sources.wait(cursor)

    # --- topics

    def _compare_topics(self, deadline: Deadline) -> None:
        """Fail the partitions whose topic is not the planned one, or does not exist. Raises KafkaError."""
        planned = {part: each.topic_id for part, each in self._cursors.items() if each.from_offset < each.until_offset}
        for partition, error in compare_topic_ids(self._cluster, planned, deadline).items():
            self._fail(self._cursors[partition], error)

    def _check_topics(self) -> None:
        """Compare the topics' ids after the last Fetch, if one had names, within ``default.api.timeout.ms``.

        Raises KafkaError, of the first partition that fails, or because the cluster does not answer.
        """
        self._raise_failure()
        if self.named_topics and not self._is_confirmed:
            self._compare_topics(self._cluster.deadline())
            self._is_confirmed = True
            self._raise_failure()
