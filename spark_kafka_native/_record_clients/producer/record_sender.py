"""Records -> bytes -> partitions -> batches -> brokers, and the results into the records' futures.

Belongs to one thread. Records of a topic become one Arrow record batch, which takes the path of Spark's rows from there
(``client.producer``). A record that cannot be sent fails alone. A partition whose leader refuses a batch fails with all
its unacknowledged records, and the producer continues with the other partitions and with later records.
"""

import logging
import operator
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, SupportsIndex

import numpy as np
import pyarrow as pa

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import TopicMetadata
from spark_kafka_native._client.errors import NoSuchPartition, ProduceError, RecordTooLarge
from spark_kafka_native._client.partitioning.key_hashes import I32
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
from spark_kafka_native._record_clients.producer.futures import RecordFuture, complete
from spark_kafka_native._record_clients.producer.handlers import CallbackHandler, QueuedRecord
from spark_kafka_native._record_clients.producer.lookup import CurrentTables
from spark_kafka_native._record_clients.records import ProducerRecord, RecordMetadata
from spark_kafka_native._record_clients.serializers import serialize

_log = logging.getLogger(__name__)

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_OF_ONE_RECORD: Final = (RecordTooLarge, PartitionerError, ValueError, TypeError, OverflowError, pa.ArrowException)
"""Errors that a batch of records can have because of one of them."""


class _Encoded:
    """A record with the bytes to send."""

    __slots__ = ("key", "partition", "queued", "value")

    def __init__(self, queued: QueuedRecord, key: bytes | None, value: bytes | None, partition: int | None) -> None:
        self.queued = queued
        self.key = key
        self.value = value
        self.partition = partition


class BrokerSender:
    """Sends records, and completes their futures in ``send``, ``pump``, ``flush`` and ``fail_all``."""

    def __init__(self, config: ProducerConfig, wakeup: int | None = None) -> None:
        """``wakeup``: a file descriptor that ends the wait of ``pump`` when it is readable."""
        self.condition = threading.Condition()
        """Of all records: it is notified of their results."""
        self._discovery = config.discovery.discovery()
        self.cluster = cluster = Cluster(config.client, discovery=self._discovery, warns=True)
        self._config = config
        self._client = cluster.config
        self._callbacks = config.callback_handler or CallbackHandler()
        self.tables = CurrentTables(cluster, config.lookup_table) if config.lookup_table is not None else None
        """Of the partitioner lookup: ``refresh`` a topic before its records are passed to ``send``."""
        named = config.partitioner_class if isinstance(config.partitioner_class, str) else None
        self._key_partitioner = None if isinstance(config.partitioner_class, str) else config.partitioner_class
        self._assigner = PartitionAssigner(cluster, self.tables or named)
        self._sender = Sender(cluster, on_acknowledged=self._acknowledged, wakeup=wakeup)
        self._pending: dict[TopicPartition, dict[int, QueuedRecord]] = {}
        """Records without a result by their number in the partition, as ``Acknowledgement`` counts them."""
        self._next: dict[TopicPartition, int] = {}
        self._results: list[tuple[RecordFuture, RecordMetadata | Exception]] = []
        self.failed = 0
        """Records whose futures got an error."""
        self.failure: Exception | None = None
        """An error after which nothing can be sent any more."""

    @property
    def metrics(self) -> ProduceMetrics:
        """Counters from the start."""
        return self._sender.metrics

    @property
    def unacknowledged(self) -> int:
        """Records that were handed over and have no result."""
        return self._sender.buffered_records

    @property
    def is_full(self) -> bool:
        """Whether the records without a result take ``buffer.memory``: call ``pump`` before ``send``."""
        return self._sender.buffered_bytes >= self._client.buffer_memory

    def send(self, records: Sequence[QueuedRecord]) -> None:
        """Encode and hand over records, of which those with an error fail. ``pump`` sends them."""
        given = self._before_sending(list(records))
        topics: dict[str, list[QueuedRecord]] = {}
        for queued in given:
            topics.setdefault(queued.record.topic, []).append(queued)
        for name, items in topics.items():
            try:
                topic = topic_metadata(self.cluster, name)
            except KafkaError as error:
                self._refuse(items, error)
                continue
            for piece in self._encoded(topic, items):
                self._send_piece(topic, piece)
        self._deliver()

    def make(self, record: ProducerRecord) -> QueuedRecord:
        """A record to send."""
        return QueuedRecord(record, int(time.time() * 1000), self.condition)

    def pending(self) -> list[QueuedRecord]:
        """The records that were handed over and have no result."""
        return [queued for records in self._pending.values() for queued in records.values()]

    def pump(self, *, wait: bool, longest_wait_s: float = 1.0) -> None:
        """Send what can be sent, and process responses; with ``wait``, not before something has happened."""
        try:
            self._sender.pump(wait=wait, longest_wait_s=longest_wait_s)
        except ProduceError as error:
            if isinstance(error.__cause__, AuthenticationFailed):
                self.fail_all(error)
            else:
                self._give_up(error)
        self._deliver()

    def flush(self) -> None:
        """Return once every record handed over has its result."""
        while self._sender.buffered_records:
            self.pump(wait=True)

    def fail_all(self, error: Exception) -> None:
        """Fail all records without a result; nothing can be sent any more."""
        self.failure = error
        for partition in list(self._pending):
            self._fail_partition(partition, error)
        self._deliver()

    def close(self) -> None:
        """Fail the records without a result, and close all connections."""
        if self.failure is None:
            self.fail_all(ClientClosed("the producer was closed before brokers acknowledged the record"))
        self._sender.release()
        self.cluster.close()
        if self._discovery is not None:
            self._discovery.close()

    # --- records to batches

    def _before_sending(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
        try:
            return self._callbacks.before_sending(records)
        except Exception:  # of the user's handler
            _log.exception("before_sending of the callback handler failed; its records are sent as they are")
            return records

    def _send_piece(self, topic: TopicMetadata, piece: list[_Encoded]) -> None:
        """Hand over records, and wait until there is space for others."""
        queued = [each.queued for each in piece]
        if self.failure is not None:
            self._fail(queued, self.failure)
            return
        try:
            topic, kept = self._checked(topic, piece)
        except KafkaError as error:
            self._refuse(queued, error)
            return
        self._hand_over(topic, kept)
        while self.is_full:
            self.pump(wait=True)

    def _encoded(self, topic: TopicMetadata, items: Iterable[QueuedRecord]) -> Iterator[list[_Encoded]]:
        """Records in bytes, in pieces of a quarter of ``buffer.memory``, because serialized records can be large."""
        piece: list[_Encoded] = []
        size_bytes, most_bytes = 0, self._client.buffer_memory // 4
        for queued in items:
            if not queued.begin():
                continue  # cancelled by the user
            try:
                encoded = self._encode(topic, queued)
            except Exception as error:  # of a serializer or a partitioner, which are functions of the user
                self._fail([queued], error)
                continue
            piece.append(encoded)
            size_bytes += len(encoded.key or b"") + len(encoded.value or b"")
            if size_bytes >= most_bytes:
                yield piece
                piece, size_bytes = [], 0
        yield piece

    def _checked(self, topic: TopicMetadata, items: list[_Encoded]) -> tuple[TopicMetadata, list[_Encoded]]:
        """The topic, and the records without those for partitions that it does not have, which fail."""
        if all(each.partition is None or each.partition in topic.partitions for each in items):
            return topic, items
        self.cluster.mark_stale(topic.name)  # partitions may have been added since
        topic = self.cluster.topic(topic.name, timeout_ms=self._client.max_block_ms)
        kept = []
        for each in items:
            if each.partition is None or each.partition in topic.partitions:
                kept.append(each)
            else:
                partition = TopicPartition(topic.name, each.partition)
                self._fail([each.queued], NoSuchPartition(partition, len(topic.partitions)))
        return topic, kept

    def _encode(self, topic: TopicMetadata, queued: QueuedRecord) -> _Encoded:
        record = queued.record
        key = serialize(self._config.key_serializer, record.key, topic.name, "key")
        value = serialize(self._config.value_serializer, record.value, topic.name, "value")
        partition = record.partition
        if partition is None and record.key is not None and self._key_partitioner is not None:
            partition = self._partition_of(topic, record.key)
        return _Encoded(queued, key, value, partition)

    def _partition_of(self, topic: TopicMetadata, key: Any) -> int:
        """The user's choice: an index into the sorted list of partitions."""
        partitions = list(topic.partitions)
        assert self._key_partitioner is not None
        index = self._key_partitioner(key, len(partitions))
        if not isinstance(index, SupportsIndex) or not 0 <= operator.index(index) < len(partitions):
            legal = f"an index from 0 to {len(partitions) - 1}"
            raise PartitionerError(f"partitioner.class returned {index!r:.100} for topic {topic.name}, not {legal}")
        return partitions[operator.index(index)]

    def _hand_over(self, topic: TopicMetadata, items: Sequence[_Encoded]) -> None:
        """Make batches of records. After an error the halves are tried, until the record with the error fails alone."""
        if not items:
            return
        try:
            rows = Rows.of(_record_batch(items), 0)
            check_sizes(topic.name, rows, self._client.max_request_size)
            ids = self._assign(topic, rows)
        except _OF_ONE_RECORD as error:
            if len(items) == 1:
                self._fail([items[0].queued], _of_record(error))
            else:
                middle = len(items) // 2
                self._hand_over(topic, items[:middle])
                self._hand_over(topic, items[middle:])
            return
        except KafkaError as error:
            self._refuse([each.queued for each in items], error)
            return
        expires_at = self._sender.now() + self._client.delivery_timeout_ms / 1000
        for runs in group_by_partition(rows.sizes, ids, 0, full_bytes=1):
            partitions = [TopicPartition(topic.name, number) for number in runs.partitions]
            ends = np.append(runs.starts[1:], len(runs.rows)).tolist()
            numbers = runs.rows.tolist()
            for partition, start, end in zip(partitions, runs.starts.tolist(), ends, strict=True):
                self._expect(partition, [items[number].queued for number in numbers[start:end]])
            batches = encode_runs(rows.measured, self._client, partitions, rows=runs.rows, starts=runs.starts)
            for partition, batch in batches:
                self._sender.add(partition, OutgoingBatch(encoded=batch, expires_at=expires_at))

    def _assign(self, topic: TopicMetadata, rows: Rows) -> I32:
        try:
            return self._assigner.assign_in(topic, rows)
        except NoSuchPartition:  # of a look-up table; partitions may have been added since
            self.cluster.mark_stale(topic.name)
            fresh = self.cluster.topic(topic.name, timeout_ms=self._client.max_block_ms)
            return self._assigner.assign_in(fresh, rows)

    def _expect(self, partition: TopicPartition, items: list[QueuedRecord]) -> None:
        """Count records, before their batches are added to the sender."""
        first = self._next.get(partition, 0)
        self._pending.setdefault(partition, {}).update(enumerate(items, first))
        self._next[partition] = first + len(items)

    # --- results

    def _acknowledged(self, written: Acknowledgement) -> None:
        pending = self._pending[written.partition]
        offset = written.base_offset
        for number in range(written.first_record, written.first_record + written.records_count):
            queued = pending.pop(number)
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
            _log.warning("%s not sent: %s", counted(len(pending), "record"), error)
            self._fail(pending.values(), error)

    def _complete(self, queued: QueuedRecord, result: RecordMetadata) -> None:
        self._results.append((queued, result))

    def _refuse(self, items: Iterable[QueuedRecord], error: KafkaError) -> None:
        """Fail records because of their topic; all records after an error of authentication, which is not repeated."""
        self._fail(items, error)
        if isinstance(error, AuthenticationFailed):
            self.fail_all(error)

    def _fail(self, items: Iterable[QueuedRecord], error: Exception) -> None:
        for queued in items:
            if not queued.done():
                self.failed += 1
                self._results.append((queued, error))

    def _deliver(self) -> None:
        """Complete futures, whose callbacks may call the producer again."""
        while self._results:
            results, self._results = self._results, []
            complete(results, self.condition)


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
