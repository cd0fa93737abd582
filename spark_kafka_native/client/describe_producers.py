"""Which producers have written to partitions of late, as their leaders remember them: DescribeProducers (KIP-664)."""

import dataclasses
from collections.abc import Sequence

from spark_kafka_native.client.cluster import Cluster
from spark_kafka_native.client.leaders import Leaders, Troubles, ask_leaders
from spark_kafka_native.net.blocking import Connection
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from spark_kafka_native.protocol.topic import TopicPartition, by_topic


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """One producer of a partition; -1 stands for what there is not."""

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


def describe_producers(
    cluster: Cluster, partitions: Sequence[TopicPartition], *, timeout_ms: float | None = None
) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
    """The producers of each partition. Raises KafkaError naming the partition; brokers before 2.8 cannot be asked."""
    return ask_leaders(cluster, partitions, _Producers(), timeout_ms=timeout_ms)


class _Producers:
    """DescribeProducers, as ``ask_leaders`` asks it."""

    def request(
        self, partitions: Sequence[TopicPartition], _leaders: Leaders, _connection: Connection
    ) -> DescribeProducersRequest:
        topics = by_topic(partitions).items()
        return DescribeProducersRequest(
            topics=tuple(
                TopicRequest(name=name, partition_indexes=tuple(part.partition for part in parts))
                for name, parts in topics
            )
        )

    def take(
        self, answer: DescribeProducersResponse, found: dict[TopicPartition, tuple[ActiveProducer, ...]]
    ) -> Troubles:
        troubles: Troubles = {}
        for topic in answer.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                code = ErrorCode.of(result.error_code)
                if code is not ErrorCode.NONE:
                    troubles[partition] = KafkaError(code, f"{partition}: {result.error_message or 'its producers'}")
                    continue
                found[partition] = tuple(
                    ActiveProducer(
                        producer_id=state.producer_id,
                        producer_epoch=state.producer_epoch,
                        last_sequence=state.last_sequence,
                        last_timestamp_ms=state.last_timestamp,
                        coordinator_epoch=state.coordinator_epoch,
                        transaction_start_offset=state.current_txn_start_offset,
                    )
                    for state in result.active_producers
                )
        return troubles
