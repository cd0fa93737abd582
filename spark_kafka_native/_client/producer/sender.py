"""Produce requests: which batches are sent to which broker, and what its responses mean.

One thread: ``pump`` does what can be done now on all connections, waits for the first thing to happen, and returns. A
broker has at most ``max.in.flight.requests.per.connection`` requests; each carries the next batch of as many partitions
as fit into ``max.request.size``.

An error of one partition is raised once all other responses are processed. The caller ends, or it gives up this
partition's batches (``give_up``) and continues with the others.
"""

import dataclasses
import math
from collections import deque
from collections.abc import Callable
from typing import Final
from uuid import UUID

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.coordinators import quick_backoff
from spark_kafka_native._client.cluster.metadata import PartitionLeader
from spark_kafka_native._client.errors import DeliveryTimeout, ProduceError
from spark_kafka_native._client.pausable_clock import PausableClock
from spark_kafka_native._client.producer.broker_connections import BrokerConnection, BrokerConnections, InFlightRequest
from spark_kafka_native._client.producer.encoding import REQUEST_OVERHEAD_BYTES, split_batch
from spark_kafka_native._client.producer.partition_queue import BatchOutcome, OutgoingBatch, PartitionQueue
from spark_kafka_native._client.producer.produce_request import (
    UNKNOWN_OFFSET,
    Acknowledgement,
    Loaded,
    max_version,
    pair,
    produce_request,
    refusal,
)
from spark_kafka_native._client.producer.producer_ids import ProducerIds
from spark_kafka_native._client.transactions.scope import TransactionScope
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import AuthenticationFailed, ConnectionLost, RequestTimeout, UnsupportedApiVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.compression import CompressionType

_FIRST_VERSION_WITH_ZSTD: Final = 7
_LONGEST_WAIT_S: Final = 1.0
_MAYBE_WRITTEN: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""Errors after which the leader has the batch, or may have it."""
_Ready = tuple[PartitionQueue, PartitionLeader]


@dataclasses.dataclass(slots=True)
class ProduceMetrics:
    """Counters of one producer, from its start. ``records``, ``batches``, ``bytes_sent``: what was acknowledged."""

    records: int = 0
    batches: int = 0
    bytes_sent: int = 0
    requests: int = 0
    retries: int = 0


class Sender:
    """Sends batches in the order of their partitions until they are acknowledged."""

    def __init__(
        self,
        cluster: Cluster,
        scope: TransactionScope | None = None,
        *,
        reuse_producer_id: bool = False,
        on_acknowledged: Callable[[Acknowledgement], None] | None = None,
        wakeup: int | None = None,
    ) -> None:
        """``scope``: everything is written in its transactions, by its producer.

        ``reuse_producer_id``: begin with a producer id that an earlier sender of the cluster has given back.
        ``on_acknowledged`` is called with each batch that is acknowledged, in ``pump``. ``wakeup``: a file descriptor
        that ends the wait of ``pump`` when it is readable.
        """
        config = cluster.config
        self.metrics = ProduceMetrics()
        self.buffered_bytes = 0
        self.buffered_records = 0
        self._cluster = cluster
        self._config = config
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._busy: dict[TopicPartition, PartitionQueue] = {}
        self._expires_at = math.inf
        """A lower bound of the expiry of the batches in ``_busy``."""
        self._connections = BrokerConnections(cluster, wakeup)
        self.failures: dict[TopicPartition, ProduceError] = {}
        """The errors of all partitions that must be given up. ``pump`` raises the first."""
        self._on_acknowledged = on_acknowledged
        self._producer_ids = ProducerIds(cluster, scope, reuse=reuse_producer_id)
        self._scope = scope
        self._transactional_id = scope.identity.transactional_id if scope else None
        self._adds_partitions = scope is None or scope.identity.has_epoch_per_transaction
        self._clock = PausableClock()
        self.now = self._clock.now
        """Seconds on the clock of ``expires_at``, which stands still between pumps."""
        # Without sequence numbers only one batch of a partition may be under way, or a retry could overtake another.
        self._in_flight_per_partition = config.max_in_flight_requests_per_connection if config.enable_idempotence else 1
        # Without responses a request is gone once it is written.
        self._in_flight_per_broker = config.max_in_flight_requests_per_connection if config.acks else 1

    def add(self, partition: TopicPartition, batch: OutgoingBatch) -> None:
        """Append a batch to its partition's queue. Nothing is sent before ``pump``."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = PartitionQueue(
                partition,
                idempotent=self._config.enable_idempotence,
                max_in_flight=self._in_flight_per_partition,
                backoff=self._cluster.backoff() if self._scope is None else quick_backoff(self._cluster),
                transactional=self._scope is not None,
            )
        queue.add(batch)
        self._busy[partition] = queue
        self._expires_at = min(self._expires_at, batch.expires_at)
        self.buffered_bytes += batch.size_in_bytes
        self.buffered_records += batch.records_count

    def pump(self, *, wait: bool, longest_wait_s: float = _LONGEST_WAIT_S) -> None:
        """Send what can be sent and take what has been answered; with ``wait``, not before something happened.

        Raises ProduceError: a batch was refused, or not acknowledged within ``delivery.timeout.ms``. The partition's
        other batches would come after a gap: before the next ``pump`` it must be given up.
        """
        self._clock.resume()
        acknowledged = self.metrics.records
        try:
            # Responses first: a connection that took long to make must not make those look late that were there.
            self._poll(0.0)
            self._check_deadlines(self.now())
            if not self.failures:
                self._dispatch(self.now())
            if wait and self._busy and not self.failures and self.metrics.records == acknowledged:
                self._poll(self._patience_s(self.now(), longest_wait_s))
            for error in self.failures.values():
                raise error
        finally:
            self._clock.pause()

    def give_up(self, partition: TopicPartition) -> int:
        """Drop the batches of a partition; later ones have numbers of a new epoch. Returns the dropped records.

        Dropped batches that are in flight, or that were sent before, may still be written, but before any later one.
        """
        self.failures.pop(partition, None)
        queue = self._busy.pop(partition, None)
        if queue is None:
            return 0
        records, size_bytes = queue.abandon()
        self._queues[partition] = queue.successor()
        self.buffered_records -= records
        self.buffered_bytes -= size_bytes
        return records

    def release(self) -> None:
        """Give the connections back; those with requests in flight are closed."""
        self._connections.release()

    def give_back_producer_id(self) -> None:
        """Let the next sender of the cluster continue with the producer id. All batches are acknowledged."""
        assert not self._busy, "batches without acknowledgement: the brokers' next sequence numbers are unknown"
        self._producer_ids.give_back(self._queues.values())

    def settle(self) -> None:
        """Wait for all responses for at most ``request.timeout.ms``; then ``release``.

        A transaction must not end while a broker may still append a batch of it. Throttled batches are therefore waited
        for, too, within ``delivery.timeout.ms``.
        """
        self._connections.receive_all(self._config.request_timeout_ms, self._config.delivery_timeout_ms)
        self.release()

    # --- sending

    def _dispatch(self, now: float) -> None:
        by_node: dict[int, list[_Ready]] = {}
        ready = [queue for queue in self._busy.values() if queue.is_ready(now)]
        if self._scope is not None:
            # The partitions are added to the transaction before the first batch is sent.
            left_s = min((queue.expires_at() for queue in ready), default=now) - now
            self._scope.add_partitions((queue.partition for queue in ready), Deadline.after_ms(left_s * 1000))
        for queue, leader in self._with_leaders(ready, now):
            if queue.may_go_to(leader.node.node_id):
                by_node.setdefault(leader.node.node_id, []).append((queue, leader))
        for parts in by_node.values():
            broker = self._connect(parts, now)
            if broker is not None:
                self._fill(broker, parts, now)

    def _with_leaders(self, queues: list[PartitionQueue], now: float) -> list[_Ready]:
        """Queues with their partitions' leaders; those whose leader is not known are postponed."""
        leaders = {queue: self._cluster.known_leader(queue.partition) for queue in queues}
        unknown = {queue.partition.topic for queue, leader in leaders.items() if leader is None}
        reason = "the partition has no leader"
        if unknown:
            left_ms = self._setup_ms(now)
            try:
                found = self._cluster.metadata(
                    unknown, create=True, missing_ok=True, throttled_ok=False, timeout_ms=left_ms
                ).leaders(queue.partition for queue in queues)
                leaders = {queue: leader or found.get(queue.partition) for queue, leader in leaders.items()}
            except KafkaError as error:
                self._check_authentication(queues[0], error)
                reason = self._reason_of(error, left_ms)
        for queue, leader in leaders.items():
            if leader is None:
                queue.postpone(self.now(), reason)
                self._cluster.mark_stale(queue.partition.topic)
        return [(queue, leader) for queue, leader in leaders.items() if leader is not None]

    def _connect(self, parts: list[_Ready], now: float) -> BrokerConnection | None:
        """The connection to the leader of ``parts``; None if it cannot be made, and they are postponed."""
        time_left_ms = self._setup_ms(now)
        try:
            return self._connections.connect(parts[0][1].node, time_left_ms)
        except KafkaError as error:
            self._check_authentication(parts[0][0], error)
            for queue, _ in parts:
                queue.postpone(self.now(), self._reason_of(error, time_left_ms))
                self._cluster.mark_stale(queue.partition.topic)
            return None

    def _fill(self, broker: BrokerConnection, parts: list[_Ready], now: float) -> None:
        """Send requests until the broker has enough of them or nothing is ready; none while it throttles."""
        if broker.connection.throttle_ms:
            broker.extend_for_throttle((queue for queue, _ in parts), self.now(), self._config.request_timeout_ms)
            return
        rest = deque(parts)
        while len(broker.requests) < self._in_flight_per_broker and not broker.connection.closed:
            if not (chosen := self._choose(rest, now)):
                return
            self._send(broker, chosen)

    def _choose(self, parts: deque[_Ready], now: float) -> list[_Ready]:
        """Partitions for one request, a batch each; those left out come first the next time."""
        chosen: list[_Ready] = []
        space = self._config.max_request_size - REQUEST_OVERHEAD_BYTES
        for _ in range(len(parts)):
            queue, leader = parts[0]
            if queue.is_ready(now):
                while (too_large := queue.next_too_large) is not None:
                    self._split(queue, too_large)
                if chosen and queue.next_size > space:
                    break
                space -= queue.next_size
                chosen.append((queue, leader))
            parts.rotate(-1)
        return chosen

    def _send(self, broker: BrokerConnection, chosen: list[_Ready]) -> None:
        newest = max_version((leader.topic_id for _, leader in chosen), adds_partitions=self._adds_partitions)
        self._check_version(broker, chosen[0][0], newest)
        for queue, leader in chosen:  # all of them before the first batch is taken, because this can fail
            if self._config.enable_idempotence and queue.identity is None:
                self._identify(queue, leader.topic_id)
        load = []
        for queue, leader in chosen:
            batch = queue.take(broker.node.node_id)
            self.metrics.retries += batch.tries > 1
            load.append(Loaded(queue=queue, batch=batch, topic_id=leader.topic_id))
        broker.requests.append(
            InFlightRequest(load=load, expires_at=self.now() + self._config.request_timeout_ms / 1000)
        )
        self.metrics.requests += 1
        request = produce_request(
            load,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            transactional_id=self._transactional_id,
        )
        try:
            broker.connection.enqueue(request, max_version=newest)
            self._write(broker)
        except KafkaError as error:
            self._lose(broker, error)

    def _write(self, broker: BrokerConnection) -> None:
        """Write as much as the socket accepts. With acks=0 a written batch counts as acknowledged."""
        if broker.connection.write_some() and self._config.acks == 0:
            while broker.requests:
                for item in broker.requests.popleft().load:
                    if not item.queue.is_abandoned:
                        self._acknowledge(item.queue, item.batch)

    def _check_version(self, broker: BrokerConnection, queue: PartitionQueue, newest: int | None) -> None:
        """Raise ProduceError: the broker does not support this client's versions of Produce, or the compression."""
        try:
            version = broker.connection.version_of(ProduceRequest, newest)
        except UnsupportedApiVersion as error:
            raise self._error(queue, error.code, f"{error.detail}; writing needs Kafka 0.11 or newer") from error
        if self._config.compression_type is CompressionType.ZSTD and version < _FIRST_VERSION_WITH_ZSTD:
            prefix = self._config.option_prefix
            detail = f"{broker.address} is older than 2.1 and cannot take {prefix}compression.type = zstd"
            raise self._error(queue, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail)

    def _identify(self, queue: PartitionQueue, topic_id: UUID) -> None:
        try:
            self._producer_ids.identify(queue, topic_id)
        except KafkaError as error:
            hint = "" if error.retriable else f"; try {self._config.option_prefix}enable.idempotence=false"
            raise self._error(queue, error.code, f"no producer id: {error}{hint}") from error

    # --- responses

    def _poll(self, patience_s: float) -> None:
        for broker in self._connections.wait(patience_s):
            self._advance(broker)

    def _advance(self, broker: BrokerConnection) -> None:
        try:
            self._write(broker)
            broker.connection.read_some()
            while not broker.connection.closed and (received := broker.connection.next_response()) is not None:
                _, response = received
                assert isinstance(response, ProduceResponse)
                self._take(broker, response)
        except ProduceError:
            raise
        except KafkaError as error:
            self._lose(broker, error)

    def _take(self, broker: BrokerConnection, response: ProduceResponse) -> None:
        paired = pair(broker.requests[0].load, response)
        for item, part in paired:
            if part is None:
                raise ConnectionLost(broker.address, f"its response to Produce lacks {item.queue.partition}")
        broker.requests.popleft()
        if broker.connection.throttle_ms:
            broker.extend_for_throttle(broker.queues_in_flight(), self.now(), self._config.request_timeout_ms)
        for item, part in paired:
            if part is not None and not item.queue.is_abandoned:
                self._settle(item.queue, item.batch, part)
        if self._cluster.is_from_another_broker(response):
            self._lose(broker, ConnectionLost(broker.address, "the connection is to another broker"))

    def _settle(self, queue: PartitionQueue, batch: OutgoingBatch, part: PartitionProduceResponse) -> None:
        code = ErrorCode.of(part.error_code)
        match queue.outcome_of(batch, code, log_start_offset=part.log_start_offset):
            case BatchOutcome.DONE:
                if self._scope is not None:
                    self._scope.record_written(queue.partition, part.base_offset, batch.records_count)
                self._acknowledge(queue, batch, part.base_offset, part.log_append_time_ms)
            case BatchOutcome.RETRY:
                self._retry(queue, batch, refusal(queue.partition, part), answered=code not in _MAYBE_WRITTEN)
            case BatchOutcome.SPLIT:
                self.metrics.retries += 1
                self._split(queue, batch)
            case BatchOutcome.FATAL:
                before = queue.last_error and f"; the error before: {queue.last_error}"
                self._fail(queue, code, f"{refusal(queue.partition, part)}{before}")

    def _acknowledge(
        self,
        queue: PartitionQueue,
        batch: OutgoingBatch,
        base_offset: int = UNKNOWN_OFFSET,
        log_append_time_ms: int = -1,
    ) -> None:
        for written in queue.acknowledge(batch, self.now()):
            if self._on_acknowledged is not None:
                known = (base_offset, log_append_time_ms) if written is batch else (UNKNOWN_OFFSET, -1)
                first, count = written.first_record, written.records_count
                self._on_acknowledged(Acknowledgement(queue.partition, first, count, *known))
            self.metrics.records += written.records_count
            self.metrics.batches += 1
            self.metrics.bytes_sent += written.size_in_bytes
            self.buffered_bytes -= written.size_in_bytes
            self.buffered_records -= written.records_count
        if len(queue):  # the next batch may have to be acknowledged earlier
            self._expires_at = min(self._expires_at, queue.expires_at())
        else:
            self._busy.pop(queue.partition, None)

    def _split(self, queue: PartitionQueue, batch: OutgoingBatch) -> None:
        """Send the records of a batch that is too large in smaller ones."""
        pieces = split_batch(batch.encoded, self._config, queue.pieces_of(batch))
        assert len(pieces) > 1, "a batch of several records is split until it has one"
        self.buffered_bytes += sum(len(piece.buffer) for piece in pieces) - batch.size_in_bytes
        queue.replace(batch, pieces, self.now())

    def _retry(self, queue: PartitionQueue, batch: OutgoingBatch, error: KafkaError, *, answered: bool) -> None:
        if batch.tries > self._config.retries:
            option = f"{self._config.option_prefix}retries"
            self._fail(queue, error.code, f"{error} ({option} = {self._config.retries} are used up)")
        if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:  # that is not about leaders
            self._cluster.mark_stale(queue.partition.topic)
        queue.fail(batch, self.now(), str(error), answered=answered)

    def _lose(self, broker: BrokerConnection, error: KafkaError) -> None:
        """A connection broke: send its batches in flight again."""
        self._connections.close(broker)
        if broker.requests:
            self._check_authentication(broker.requests[0].load[0].queue, error)
        while broker.requests:
            for item in broker.requests.popleft().load:
                if not item.queue.is_abandoned:
                    self._retry(item.queue, item.batch, error, answered=False)

    # --- time

    def _check_deadlines(self, now: float) -> None:
        for broker in self._connections:
            if broker.requests and now >= broker.requests[0].expires_at:
                self._cluster.note_timeout(broker.address)
                self._lose(broker, RequestTimeout(broker.address, "Produce", self._config.request_timeout_ms))
        if now < self._expires_at:
            return
        self._expires_at = min((queue.expires_at() for queue in self._busy.values()), default=math.inf)
        for queue in self._busy.values():
            if now >= queue.expires_at():
                over = f"{self._config.option_prefix}delivery.timeout.ms ({self._config.delivery_timeout_ms} ms) ended"
                reason = f"{over} {queue.describe_attempts()}"
                expired = DeliveryTimeout(queue.partition, ErrorCode.REQUEST_TIMED_OUT, reason, self.buffered_records)
                self.failures.setdefault(queue.partition, expired)

    def _patience_s(self, now: float, longest_s: float) -> float:
        """Seconds until the next pause, throttle or deadline ends."""
        times = [now + longest_s, *self._connections.next_times(now)]
        for queue in self._busy.values():
            times.append(queue.expires_at())
            if (wakes_at := queue.wakes_at()) is not None and wakes_at > now:
                times.append(wakes_at)
        return max(min(times) - now, 0.0)

    def _setup_ms(self, now: float) -> float:
        """How long to wait for metadata or a connection: other partitions' batches have deadlines too."""
        left_s = min((queue.expires_at() for queue in self._busy.values()), default=now) - now
        return min(max(left_s, 0.0) * 1000, self._config.request_timeout_ms)

    def _reason_of(self, error: KafkaError, time_left_ms: float) -> str:
        """The error to remember; empty, so that the one before it stays, if no time was left."""
        return str(error) if time_left_ms >= self._config.request_timeout_ms else ""

    def _check_authentication(self, queue: PartitionQueue, error: KafkaError) -> None:
        """Raise ProduceError for errors that no retry repairs: trying a wrong password again locks accounts."""
        if isinstance(error, AuthenticationFailed):
            raise self._error(queue, error.code, error.detail) from error

    def _fail(self, queue: PartitionQueue, code: ErrorCode, reason: str) -> None:
        """Note the error of a partition, which ends this ``pump``."""
        self.failures.setdefault(queue.partition, self._error(queue, code, reason))

    def _error(self, queue: PartitionQueue, code: ErrorCode, reason: str) -> ProduceError:
        return ProduceError(queue.partition, code, reason, self.buffered_records)
