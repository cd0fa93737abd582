"""Executes the effects of the exactly-once protocol with the client.

Retriable errors of an effect are retried for ``default.api.timeout.ms``.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa

from spark_kafka_native._client.admin.topics import NewTopic, TopicsError, create_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.coordinators import at_coordinators
from spark_kafka_native._client.cluster.known_coordinators import CoordinatorType
from spark_kafka_native._client.cluster.shared import shared_cluster
from spark_kafka_native._client.config import READ_COMMITTED, READ_UNCOMMITTED
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, list_offsets
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.partitioning.partitioners import TopicPartitioners
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._client.transactions.describe_transactions import (
    TransactionState,
    describe_transactions,
    list_transactions,
)
from spark_kafka_native._client.transactions.ending import Ending, EndTxnOutcome, end_transactions
from spark_kafka_native._client.transactions.errors import ProducerFailed
from spark_kafka_native._client.transactions.handle import UNKNOWN_OFFSET, TransactionalIdentity, WrittenPartition
from spark_kafka_native._client.transactions.requests import init_producer, transaction_version
from spark_kafka_native._client.transactions.scope import TransactionScope
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, RestatedError
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.exactly_once import effects
from spark_kafka_native._spark.exactly_once.errors import ExactlyOnceError

T = TypeVar("T")
Send = Callable[[Producer], None]
"""Sends the rows of a task with a producer."""

_REPLICAS: Final = 3
_IN_SYNC: Final = 2
"""Replication factor and min.insync.replicas of the topic of decisions, as of __transaction_state."""
_REQUEST_BYTES: Final = 1 << 20
"""Least ``max.request.size`` for a decision, whose records may have many handles."""
_GONE: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def carry_out(
    cluster: Cluster,
    steps: effects.Steps[T],
    *,
    send: Send | None = None,
    partitioner: str | TopicPartitioners | None = None,
) -> T:
    """Run ``steps`` and return their result; commands in errors name the cluster's servers.

    ``send`` and ``partitioner`` are for steps that write rows. All errors of ``send`` are thrown into the steps.
    """
    runner = _Runner(cluster, send, partitioner)
    try:
        effect = next(steps)
        while True:
            try:
                result = runner.result(effect)
            except Exception as error:  # the steps handle all errors
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as stop:
        returned: T = stop.value
        return returned
    except ExactlyOnceError as error:
        raise error.at(",".join(map(str, cluster.config.bootstrap_servers))) from error.__cause__
    finally:
        runner.close()


class _Runner:
    """The state of one run: the transaction version, and producers with their sequence numbers."""

    def __init__(self, cluster: Cluster, send: Send | None, partitioner: str | TopicPartitioners | None) -> None:
        self._cluster = cluster
        self._send = send
        self._partitioner = partitioner
        self._version: int | None = None
        self._appending: dict[ProducerIdAndEpoch, tuple[Producer, TransactionScope]] = {}

    def close(self) -> None:
        """Discard the producers."""
        for producer, _ in self._appending.values():
            producer.discard()

    def result(self, effect: effects.Effect) -> effects.Result:
        """Execute one effect. Raises KafkaError."""
        match effect:
            case effects.InitProducer():
                return self._init(effect)
            case effects.WriteRows():
                return self._write(effect)
            case effects.Append():
                return self._append(effect)
            case effects.EndTransactions():
                return self._end(effect)
            case effects.ReadDecisions():
                return self._read(effect)
            case effects.ListOpen():
                return self._list(effect)
            case effects.Describe():
                return self._describe(effect)
            case effects.AbortOpen():
                return self._abort_open(effect)
            case effects.Now():
                return int(time.time() * 1000)

    # --- producers

    def _init(self, effect: effects.InitProducer) -> ProducerIdAndEpoch:
        claimed = None
        if effect.claimed is not None:
            claimed = self._identity(effect.transactional_id, effect.claimed, version=0)
        try:
            found = init_producer(
                self._cluster,
                effect.transactional_id,
                timeout_ms=effect.timeout_ms,
                claimed=claimed,
                max_block_ms=self._cluster.config.default_api_timeout_ms,
                once=effect.once,
            )
        except ProducerFailed as error:
            raise RestatedError(error.code, str(error)) from error  # retriable if its code is
        self._version = found.transaction_version
        return ProducerIdAndEpoch(found.producer_id, found.producer_epoch)

    def _identity(
        self, transactional_id: str, producer: ProducerIdAndEpoch, version: int | None = None
    ) -> TransactionalIdentity:
        return TransactionalIdentity(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            timeout_ms=0,
            transaction_version=self._transaction_version() if version is None else version,
        )

    def _transaction_version(self) -> int:
        if self._version is None:
            self._version = transaction_version(self._cluster, self._cluster.deadline())
        return self._version

    # --- writing

    def _write(self, effect: effects.WriteRows) -> tuple[effects.WrittenRange, ...]:
        assert self._send is not None, "these steps need send"
        scope = TransactionScope(self._cluster, self._identity(effect.transactional_id, effect.producer))
        producer = Producer(self._cluster, partitioner=self._partitioner, scope=scope)
        try:
            self._send(producer)
            producer.flush()
        finally:
            producer.discard()
        return self._written(scope.handle().partitions)

    def _written(self, found: Sequence[WrittenPartition]) -> tuple[effects.WrittenRange, ...]:
        """The offsets of records; those of the whole partition if an acknowledgement had none."""
        unknown = [each.partition for each in found if each.from_offset == UNKNOWN_OFFSET]
        first = self._offsets(unknown, EARLIEST)
        until = self._offsets(unknown, LATEST)
        return tuple(
            effects.WrittenRange(each.partition, first[each.partition], until[each.partition])
            if each.partition in first
            else effects.WrittenRange(each.partition, each.from_offset, each.until_offset)
            for each in found
        )

    def _append(self, effect: effects.Append) -> None:
        producer, scope = self._appender(effect)
        scope.restart()
        columns: dict[str, Any] = {
            "key": pa.array([entry.key for entry in effect.records], pa.binary()),
            "value": pa.array([entry.value for entry in effect.records], pa.binary()),
            "partition": pa.array([0] * len(effect.records), pa.int32()),
        }
        producer.send(effect.topic, pa.RecordBatch.from_pydict(columns))
        producer.flush()

    def _appender(self, effect: effects.Append) -> tuple[Producer, TransactionScope]:
        found = self._appending.get(effect.producer)
        if found is None:
            cluster = self._cluster
            if cluster.config.max_request_size < _REQUEST_BYTES:
                cluster = shared_cluster(dataclasses.replace(cluster.config, max_request_size=_REQUEST_BYTES))
            scope = TransactionScope(cluster, self._identity(effect.transactional_id, effect.producer))
            found = self._appending[effect.producer] = Producer(cluster, scope=scope), scope
        return found

    def _end(self, effect: effects.EndTransactions) -> tuple[effects.Ended, ...]:
        try:
            handles = [self._identity(end.transactional_id, end.producer) for end in effect.ends]
            timeout_ms = self._cluster.config.default_api_timeout_ms
            endings = end_transactions(self._cluster, handles, commit=effect.commit, timeout_ms=timeout_ms)
        except KafkaError as error:
            return (error,) * len(effect.ends)
        return tuple(_ended(end, ending) for end, ending in zip(effect.ends, endings, strict=True))

    # --- the topic of decisions

    def _read(self, effect: effects.ReadDecisions) -> effects.DecisionLog:
        self._create_topic(effect.topic)
        partition = TopicPartition(effect.topic, 0)
        begin = self._offsets([partition], EARLIEST)[partition]
        end = self._offsets([partition], LATEST)[partition]
        start = begin if effect.at_most is None else max(begin, end - effect.at_most)
        records: list[effects.DecisionRecord] = []
        wanted = PartitionRange(partition=partition, from_offset=start, until_offset=end)
        with row_fetcher(self._cluster, [wanted], columns=("key", "value"), isolation=READ_COMMITTED) as fetcher:
            for _, batch in fetcher:
                pairs: Any = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
                records += [effects.DecisionRecord(key or b"", value or b"") for key, value in pairs]
        return effects.DecisionLog(tuple(records), whole=start == begin)

    def _create_topic(self, topic: str) -> None:
        """Create the topic if it does not exist. Raises KafkaError: it has several partitions."""
        metadata = self._cluster.metadata([topic], missing_ok=True)
        found = metadata.topics.get(topic)
        if found is not None and found.error is ErrorCode.NONE:
            if len(found.partitions) != 1:
                raise KafkaError(
                    ErrorCode.INVALID_PARTITIONS, f"topic {topic} has {len(found.partitions)} partitions instead of one"
                )
            return
        if found is None or found.error is _GONE:
            try:
                create_topics(self._cluster, [_decisions_topic(topic, len(metadata.brokers))])
            except TopicsError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        # Wait until it is known, so that no broker creates it automatically without these settings.
        self._cluster.retrying(lambda deadline: self._cluster.metadata([topic], timeout_ms=deadline.remaining_ms))

    def _offsets(self, partitions: Sequence[TopicPartition], position: int) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        found = list_offsets(self._cluster, dict.fromkeys(partitions, position), isolation=READ_UNCOMMITTED)
        return {partition: listed.offset for partition, listed in found.items()}

    # --- transactions

    def _list(self, effect: effects.ListOpen) -> tuple[str, ...]:
        found = list_transactions(self._cluster, states=[TransactionState.ONGOING], prefix=effect.prefix)
        return tuple(listing.transactional_id for listing in found)

    def _describe(self, effect: effects.Describe) -> tuple[effects.Described | None, ...]:
        found = describe_transactions(self._cluster, effect.transactional_ids)
        return tuple(
            None
            if (each := found.get(name)) is None
            else effects.Described(
                each.state.value,
                ProducerIdAndEpoch(each.producer_id, each.producer_epoch),
                each.started_ms,
                each.timeout_ms,
            )
            for name in effect.transactional_ids
        )

    def _abort_open(self, effect: effects.AbortOpen) -> tuple[KafkaError | None, ...]:
        def fence(connection: Connection, keys: Sequence[str], timeout_ms: float) -> dict[str, bool | KafkaError]:
            deadline = Deadline.after_ms(timeout_ms)
            responses: dict[str, bool | KafkaError] = {}
            for key in keys:
                request = InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=effect.timeout_ms)
                try:
                    code = ErrorCode.of(connection.call(request, timeout_ms=deadline.remaining_ms).error_code)
                except KafkaError as error:
                    return dict.fromkeys(keys, error) | responses
                begun = code in {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS}
                responses[key] = True if begun else _not_aborted(code, key)
            return responses

        deadline = self._cluster.deadline()
        found = at_coordinators(self._cluster, CoordinatorType.TRANSACTION, effect.transactional_ids, fence, deadline)
        results = [found[name] for name in effect.transactional_ids]
        return tuple(result if isinstance(result, KafkaError) else None for result in results)


def _decisions_topic(name: str, brokers: int) -> NewTopic:
    configs = {"cleanup.policy": "compact"}
    if brokers >= _REPLICAS:
        configs["min.insync.replicas"] = str(_IN_SYNC)
    return NewTopic(name=name, partitions=1, replication_factor=min(_REPLICAS, brokers), configs=configs)


def _not_aborted(code: ErrorCode, transactional_id: str) -> KafkaError:
    return KafkaError(code, f"abort of transactional id {transactional_id}", operation="WRITE")


def _ended(end: effects.End, ending: Ending) -> effects.Ended:
    if ending.outcome is not EndTxnOutcome.DONE:
        return RestatedError(ending.code, ending.reason)
    if ending.identity is None:
        return end.producer
    return ProducerIdAndEpoch(ending.identity.producer_id, ending.identity.producer_epoch)
