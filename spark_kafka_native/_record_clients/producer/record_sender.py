"""Records -> bytes -> partitions -> batches -> brokers, and the results into the records' futures.

Used by one thread at a time. Records of a topic become one Arrow record batch, which takes the path of Spark's rows
from there (``client.producer``). A record that cannot be sent fails alone. A partition whose leader refuses a batch
fails with all its unacknowledged records. The producer continues with the other partitions and with later records.
"""

import concurrent.futures.thread  # noqa: F401 -- pyarrow imports it for its first array, too late at a process's end
import logging
import operator
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, SupportsIndex

import numpy as np
import pyarrow as pa

from spark_kafka_native._client.cluster.metadata import TopicMetadata
from spark_kafka_native._client.errors import NoSuchPartition, ProduceError, RecordTooLarge
from spark_kafka_native._client.partitioning.partitioner_names import PartitionerError
from spark_kafka_native._client.producer.assignment import PartitionAssigner, topic_metadata
from spark_kafka_native._client.producer.encoding import encode_runs
from spark_kafka_native._client.producer.partition_queue import OutgoingBatch
from spark_kafka_native._client.producer.produce_request import UNKNOWN_OFFSET, Acknowledgement
from spark_kafka_native._client.producer.routing import Rows, check_sizes, group_by_partition
from spark_kafka_native._client.producer.sender import ProduceMetrics, Sender
from spark_kafka_native._net.errors import AuthenticationFailed
from spark_kafka_native._protocol.errors import KafkaError, RestatedError, counted
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.errors import ClientClosed
from spark_kafka_native._record_clients.producer.config import ProducerConfig
from spark_kafka_native._record_clients.producer.connections import Connections
from spark_kafka_native._record_clients.producer.futures import complete
from spark_kafka_native._record_clients.producer.handlers import (
    RECORD_BYTES,
    CallbackHandler,
    QueuedRecord,
    checked_records,
)
from spark_kafka_native._record_clients.records import ProducerRecord, RecordMetadata
from spark_kafka_native._record_clients.serializers import serialize

_log = logging.getLogger(__name__)

SHARES: Final = 3
"""``buffer.memory`` is for the queue, for what was last taken from it, and for batches without a response."""
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_OF_ONE_RECORD: Final = (RecordTooLarge, ValueError, TypeError, OverflowError, pa.ArrowException)
"""Errors that a batch of records can have because of one of them."""


class _Encoded:
    """A record with the bytes to send."""

    __slots__ = ("key", "partition", "queued", "value")

    def __init__(self, queued: QueuedRecord, key: bytes | None, value: bytes | None, partition: int | None) -> None:
        self.queued = queued
        self.key = key
        self.value = value
        self.partition = partition


class RecordSender:
    """Sends records, and completes them in ``send``, ``pump`` and ``fail_all``.

    What ``send`` takes waits in a backlog while the batches without a response take a third of ``buffer.memory``.
    """

    def __init__(self, config: ProducerConfig, connections: Connections, wakeup: int | None = None) -> None:
        """``wakeup``: a file descriptor that ends the wait of ``pump`` when it is readable."""
        self._connections = connections
        self._cluster = connections.cluster
        self._tables = connections.tables
        self._condition = connections.condition
        self._config = config
        self._client = config.client
        self._callbacks = config.callback_handler or CallbackHandler()
        named = config.partitioner_class if isinstance(config.partitioner_class, str) else None
        self._key_partitioner = None if isinstance(config.partitioner_class, str) else config.partitioner_class
        self._assigner = PartitionAssigner(self._cluster, self._tables or named)
        self._sender = Sender(self._cluster, on_acknowledged=self._acknowledged, wakeup=wakeup)
        self._backlog: deque[tuple[str, deque[QueuedRecord]]] = deque()
        """Records of topics that are not encoded yet, in the order of ``send``."""
        self._backlog_count = 0
        self._pending: dict[TopicPartition, dict[int, QueuedRecord]] = {}
        """Records without a result by their number in the partition, as ``Acknowledgement`` counts them."""
        self._next: dict[TopicPartition, int] = {}
        self._pending_bytes = 0
        """Of the records in ``_pending``, before compression."""
        self._piece: list[QueuedRecord] = []
        """Records that are being encoded."""
        self._results: dict[QueuedRecord, RecordMetadata | Exception] = {}
        self.failed = 0
        """Records that ended with an error."""

    @property
    def metrics(self) -> ProduceMetrics:
        """Counters from the start."""
        return self._sender.metrics

    @property
    def unacknowledged(self) -> int:
        """Records that were passed to ``send`` and have no result."""
        return self._sender.buffered_records + self._backlog_count

    @property
    def is_full(self) -> bool:
        """Whether records wait for space, or the next ones would: pass no others to ``send``."""
        return bool(self._backlog) or not self._has_space

    def send(self, records: Sequence[QueuedRecord]) -> None:
        """Take records, unless they were cancelled. Those with an error fail. ``pump`` sends the others."""
        topics: dict[str, deque[QueuedRecord]] = {}
        for queued in self._before_sending(checked_records(records, "the event handler")):
            if queued.begin():
                topics.setdefault(queued.record.topic, deque()).append(queued)
                self._backlog_count += 1
        self._backlog.extend(topics.items())
        self._encode_backlog()
        self._deliver()

    def make(self, record: ProducerRecord) -> QueuedRecord:
        """A record to pass to ``send``."""
        return QueuedRecord(record, self._condition)

    def pending(self) -> list[QueuedRecord]:
        """The records that were passed to ``send`` and have no result."""
        sent = [queued for records in self._pending.values() for queued in records.values()]
        return [*sent, *self._piece, *self._results, *(queued for _, items in self._backlog for queued in items)]

    def pump(self, *, wait: bool, longest_wait_s: float = 1.0) -> None:
        """Send what can be sent, and process responses; with ``wait``, not before something has happened."""
        self._encode_backlog()
        try:
            self._sender.pump(wait=wait, longest_wait_s=longest_wait_s)
        except ProduceError as error:
            for each in {error.partition: error, **self._sender.failures}.values():
                if isinstance(each.__cause__, AuthenticationFailed):
                    self.fail_all(each)
                else:
                    self._give_up(each)
        self._deliver()

    def fail_all(self, error: Exception) -> None:
        """Fail all records without a result; nothing can be sent any more."""
        self._connections.failure = self._connections.failure or error
        for _, items in self._backlog:
            self._fail(items, error)
        self._backlog.clear()
        self._backlog_count = 0
        self._fail(self._piece, error)
        self._piece = []
        for partition in list(self._pending):
            self._fail_partition(partition, error)
        self._deliver()

    def close(self) -> None:
        """Fail the records without a result, and close all connections."""
        self.fail_all(ClientClosed("the producer was closed before brokers acknowledged the record"))
        self._sender.release()
        self._connections.close()

    # --- records to batches

    def _before_sending(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
        try:
            return checked_records(self._callbacks.before_sending(list(records)), "before_sending")
        except Exception:  # of the user's handler
            _log.exception("before_sending of the callback handler failed; its records are sent as they are")
            return records

    @property
    def _has_space(self) -> bool:
        return SHARES * max(self._sender.buffered_bytes, self._pending_bytes) < self._client.buffer_memory

    def _encode_backlog(self) -> None:
        """Encode records until their batches take a third of ``buffer.memory``. Any error fails its records alone.

        Does nothing in a ``send`` by a serializer: the records are encoded after those that are being encoded.
        """
        if self._piece:
            return
        while self._backlog and self._has_space:
            name, items = self._backlog[0]
            taken = list(items)
            try:
                if self._connections.failure is not None:
                    raise self._connections.failure
                if self._tables is not None:
                    self._tables.check(name)
                self._send_piece(topic_metadata(self._cluster, name), items)
            except Exception as error:
                if not isinstance(error, KafkaError | PartitionerError | ClientClosed):
                    _log.exception("records for topic %s could not be sent", name)
                # Of the topic, or an unexpected one: the records that were taken for this piece, and those after them.
                self._fail([queued for queued in taken if not queued.is_handed_over], error)
                self._piece = []
                self._backlog_count -= len(items)
                items.clear()
                if isinstance(error, AuthenticationFailed):
                    self.fail_all(error)
            if not items and self._backlog and self._backlog[0][1] is items:
                self._backlog.popleft()

    def _send_piece(self, topic: TopicMetadata, items: deque[QueuedRecord]) -> None:
        """Take records that are about a quarter of ``buffer.memory`` in bytes, and add their batches to the sender.

        Raises KafkaError: of the topic.
        """
        piece: list[_Encoded] = []
        size_bytes, most_bytes = 0, self._client.buffer_memory // 4
        while items and size_bytes <= most_bytes:
            queued = items.popleft()
            self._backlog_count -= 1
            try:
                self._piece.append(queued)
                encoded = self._encode(topic, queued)
                data_bytes = len(encoded.key or b"") + len(encoded.value or b"") + queued.record.header_bytes
                queued.size_bytes = data_bytes + RECORD_BYTES
                size_bytes += queued.size_bytes
            except Exception as error:  # of a serializer, a partitioner or a handler, which are functions of the user
                self._fail([queued], error)
                continue
            piece.append(encoded)
        self._hand_over(topic, piece)
        self._piece = []

    def _encode(self, topic: TopicMetadata, queued: QueuedRecord) -> _Encoded:
        record = queued.record
        key = serialize(self._config.key_serializer, record.key, topic.name, "key")
        value = serialize(self._config.value_serializer, record.value, topic.name, "value")
        partition = record.partition
        if partition is not None and partition not in topic.partitions:  # that of a handler: ``send`` has checked it
            raise NoSuchPartition(TopicPartition(topic.name, partition), len(topic.partitions))
        if partition is None and record.key is not None and self._key_partitioner is not None:
            partition = self._partition_of(topic, record.key)
        return _Encoded(queued, key, value, partition)

    def _partition_of(self, topic: TopicMetadata, key: Any) -> int:
        """The user's choice: an index into the sorted list of partitions, which are numbered from 0."""
        assert self._key_partitioner is not None
        count = len(topic.partitions)
        try:
            index = self._key_partitioner(key, count)
        except BaseException as error:  # a function of the user can raise anything, also SystemExit
            raise PartitionerError(f"partitioner.class failed for topic {topic.name}: {error!r}") from error
        if not isinstance(index, SupportsIndex) or not 0 <= operator.index(index) < count:
            legal = f"an index from 0 to {count - 1}"
            raise PartitionerError(f"partitioner.class returned {index!r:.100} for topic {topic.name}, not {legal}")
        return operator.index(index)

    def _hand_over(self, topic: TopicMetadata, items: Sequence[_Encoded]) -> None:
        """Make batches of records. After an error the halves are tried, until the record with the error fails alone."""
        if not items:
            return
        try:
            rows = Rows.of(_record_batch(items), 0)
            check_sizes(topic.name, rows, self._client.max_request_size)
            ids = self._assigner.assign_fresh(topic, rows)
        except _OF_ONE_RECORD as error:
            if len(items) == 1:
                self._fail([items[0].queued], _of_record(error))
            else:
                middle = len(items) // 2
                self._hand_over(topic, items[:middle])
                self._hand_over(topic, items[middle:])
            return
        for runs in group_by_partition(rows.sizes, ids, 0, full_bytes=1):
            partitions = [TopicPartition(topic.name, number) for number in runs.partitions]
            ends = np.append(runs.starts[1:], len(runs.rows)).tolist()
            numbers = runs.rows.tolist()
            # Before records are counted, because it can fail.
            batches = list(encode_runs(rows.measured, self._client, partitions, rows=runs.rows, starts=runs.starts))
            for partition, start, end in zip(partitions, runs.starts.tolist(), ends, strict=True):
                self._count(partition, [items[number].queued for number in numbers[start:end]])
            for partition, batch in batches:
                of_batch = numbers[batch.first_row : batch.first_row + batch.records_count]
                expires_at = self._expires_at(items[number] for number in of_batch)
                self._sender.add(partition, OutgoingBatch(encoded=batch, expires_at=expires_at))

    def _expires_at(self, items: Iterable[_Encoded]) -> float:
        """The end of ``delivery.timeout.ms`` after the first of these records was sent, on the sender's clock."""
        waited_s = time.monotonic() - min(each.queued.sent_at for each in items)
        return self._sender.now() + self._client.delivery_timeout_ms / 1000 - waited_s

    def _count(self, partition: TopicPartition, items: list[QueuedRecord]) -> None:
        """Number records as the sender does, before their batches are added to it."""
        first = self._next.get(partition, 0)
        self._pending.setdefault(partition, {}).update(enumerate(items, first))
        self._next[partition] = first + len(items)
        for queued in items:
            queued.is_handed_over = True
            self._pending_bytes += queued.size_bytes

    # --- results

    def _acknowledged(self, written: Acknowledgement) -> None:
        pending = self._pending[written.partition]
        offset = written.base_offset
        for number in range(written.first_record, written.first_record + written.records_count):
            queued = pending.pop(number)
            self._pending_bytes -= queued.size_bytes
            appended_ms = written.log_append_time_ms
            timestamp_ms = queued.timestamp_ms if appended_ms == -1 else appended_ms
            self._complete(queued, RecordMetadata(*written.partition, offset, timestamp_ms))
            if offset != UNKNOWN_OFFSET:
                offset += 1

    def _give_up(self, error: ProduceError) -> None:
        """Fail the records of a partition after its error."""
        count = len(self._pending.get(error.partition, ()))
        self._fail_partition(error.partition, error.with_unacknowledged(count))

    def _fail_partition(self, partition: TopicPartition, error: Exception) -> None:
        if self._sender.give_up(partition):
            del self._next[partition]  # the sender counts from 0 again
        if pending := self._pending.pop(partition, None):
            self._pending_bytes -= sum(queued.size_bytes for queued in pending.values())
            records = counted(len(pending), "record")
            _log.warning("%s: %s failed, and may have been written: %s", partition, records, error)
            self._fail(pending.values(), error)

    def _complete(self, queued: QueuedRecord, result: RecordMetadata) -> None:
        self._results[queued] = result

    def _fail(self, items: Iterable[QueuedRecord], error: Exception) -> None:
        for queued in items:
            if not queued.done() and queued not in self._results:
                self.failed += 1
                self._results[queued] = error

    def _deliver(self) -> None:
        """Complete futures, whose callbacks may send records, and so come here again."""
        results, self._results = self._results, {}
        complete(results.items(), self._condition)


def _of_record(error: Exception) -> Exception:
    """The error of a batch of one record, as that of the record."""
    if not isinstance(error, RecordTooLarge):
        return error
    parts = f"key {error.key_bytes}, value {error.value_bytes}"
    limit = f"more than max.request.size ({error.max_request_size})"
    text = f"a record for topic {error.topic} takes {error.size_bytes} bytes ({parts}), {limit}"
    return RestatedError(error.code, text)


def _record_batch(items: Sequence[_Encoded]) -> pa.RecordBatch:
    """The columns of ``records.arrow.encode``."""
    records = [item.queued.record for item in items]
    columns: dict[str, Any] = {
        "key": pa.array([item.key for item in items], pa.large_binary()),
        "value": pa.array([item.value for item in items], pa.large_binary()),
        "timestamp": pa.array([item.queued.timestamp_ms for item in items], pa.int64()),
    }
    if any(item.partition is not None for item in items):
        columns["partition"] = pa.array([item.partition for item in items], pa.int32())
    if any(record.headers for record in records):
        headers = [[{"key": name, "value": value} for name, value in record.headers] for record in records]
        columns["headers"] = pa.array(headers, _HEADERS)
    return pa.RecordBatch.from_pydict(columns)
