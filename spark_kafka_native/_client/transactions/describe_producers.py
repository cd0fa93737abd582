"""The producers that have written to partitions, as their leaders remember them: DescribeProducers (KIP-664)."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.leaders import ask_leaders
from spark_kafka_native._client.errors import NotAReplica
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from spark_kafka_native._protocol.topic import TopicPartition, by_topic


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """One producer of a partition; -1 stands for an absent value."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    """Of who ended its last transaction there."""
    transaction_start_offset: int
    """Where its open transaction begins."""

    @property
    def has_open_transaction(self) -> bool:
        """Whether readers of committed records stop before what it has written."""
        return self.transaction_start_offset >= 0


Producers: TypeAlias = tuple[ActiveProducer, ...]
"""The producers of one partition."""


def describe_producers(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    *,
    broker_id: int | None = None,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, Producers]:
    """The producers of each partition, as its leader knows them, or with ``broker_id`` as the replica there does.

    Raises KafkaError naming the partition; NotAReplica: ``broker_id`` has none. Brokers before 2.8 cannot be asked.
    """

    def results(response: DescribeProducersResponse) -> Iterator[tuple[TopicPartition, Producers | KafkaError]]:
        for partition, result in _results(response):
            is_gone = isinstance(result, KafkaError) and result.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            yield partition, result if broker_id is None or not is_gone else NotAReplica(partition, broker_id)

    return ask_leaders(
        cluster,
        partitions,
        lambda parts, _leaders, _connection: _request(parts),
        results,
        broker_id=broker_id,
        timeout_ms=timeout_ms,
    )


def _request(partitions: Sequence[TopicPartition]) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=tuple(
            TopicRequest(name=name, partition_indexes=tuple(part.partition for part in parts))
            for name, parts in by_topic(partitions).items()
        )
    )


def _results(response: DescribeProducersResponse) -> Iterator[tuple[TopicPartition, Producers | KafkaError]]:
    for topic in response.topics:
        for result in topic.partitions:
            partition, code = TopicPartition(topic.name, result.partition_index), ErrorCode.of(result.error_code)
            if code is not ErrorCode.NONE:
                detail, message = f"{partition}: its producers", result.error_message or ""
                yield partition, KafkaError(code, detail, message, operation="READ")
                continue
            yield (
                partition,
                tuple(
                    ActiveProducer(
                        producer_id=state.producer_id,
                        producer_epoch=state.producer_epoch,
                        last_sequence=state.last_sequence,
                        last_timestamp_ms=state.last_timestamp,
                        coordinator_epoch=state.coordinator_epoch,
                        transaction_start_offset=state.current_txn_start_offset,
                    )
                    for state in result.active_producers
                ),
            )
