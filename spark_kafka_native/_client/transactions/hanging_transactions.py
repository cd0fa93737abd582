"""Hanging transactions: find those that no coordinator will end, and abort them in one partition (KIP-664).

A hanging transaction keeps the last stable offset of its partition where it is, so that consumers with
``isolation.level=read_committed`` read no further. The coordinator has forgotten the transaction, or does not know that
the partition belongs to it. Finding needs brokers since 3.0; aborting works with every broker that has transactions.
"""

import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.leaders import Leaders, ask_leaders
from spark_kafka_native._client.transactions.describe_producers import ActiveProducer, describe_producers
from spark_kafka_native._client.transactions.describe_transactions import describe_transactions, list_transactions
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from spark_kafka_native._protocol.topic import TopicPartition

_PARTITIONS_PER_REQUEST: Final = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is open in a partition; ``producer`` has its first offset."""

    partition: TopicPartition
    producer: ActiveProducer


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionSpec:
    """The open transaction of a partition to abort. ``coordinator_epoch``: that of the last marker, 0 if none is known.

    ``str()`` is that of the Java class of this name.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int

    @classmethod
    def of(cls, transaction: OpenTransaction) -> "AbortTransactionSpec":
        """What aborts a transaction as DescribeProducers shows it."""
        producer = transaction.producer
        return cls(
            partition=transaction.partition,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=max(0, producer.coordinator_epoch),
        )

    def __str__(self) -> str:
        return (
            f"AbortTransactionSpec(topicPartition={self.partition}, producerId={self.producer_id}, "
            f"producerEpoch={self.producer_epoch}, coordinatorEpoch={self.coordinator_epoch})"
        )


def find_hanging_transactions(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    *,
    longest_timeout_ms: int,
    broker_id: int | None = None,
) -> list[OpenTransaction]:
    """The open transactions of ``partitions`` that no coordinator will end, by producer id and partition.

    Only producers that have written nothing for ``longest_timeout_ms`` count, because others may continue: pass the
    largest ``transaction.timeout.ms`` of the cluster. A transaction hangs if no coordinator has its producer id, or if
    the partition is not in the transaction that the coordinator knows. ``broker_id``: ask that broker's replicas, not
    the leaders. Raises KafkaError naming the partition, transactional id or broker.
    """
    silent = _silent_transactions(cluster, partitions, longest_timeout_ms, broker_id)
    if not silent:
        return []
    wanted = {transaction.producer.producer_id for transaction in silent}
    listed = list_transactions(cluster, producer_ids=wanted)
    ids = {listing.producer_id: listing.transactional_id for listing in listed if listing.producer_id in wanted}
    known = describe_transactions(cluster, ids.values())
    expected = {producer_id: known[name].partitions for producer_id, name in ids.items() if name in known}
    hanging = [
        transaction
        for transaction in silent
        if transaction.partition not in expected.get(transaction.producer.producer_id, ())
    ]
    return sorted(hanging, key=lambda transaction: (transaction.producer.producer_id, transaction.partition))


def _silent_transactions(
    cluster: Cluster, partitions: Sequence[TopicPartition], longest_timeout_ms: int, broker_id: int | None
) -> list[OpenTransaction]:
    found = []
    for start in range(0, len(partitions), _PARTITIONS_PER_REQUEST):
        some = partitions[start : start + _PARTITIONS_PER_REQUEST]
        producers = describe_producers(cluster, some, broker_id=broker_id)
        latest_ms = int(time.time() * 1000) - longest_timeout_ms
        found += [
            OpenTransaction(partition=partition, producer=producer)
            for partition, each in producers.items()
            for producer in each
            if producer.has_open_transaction and producer.last_timestamp_ms < latest_ms
        ]
    return found


def abort_transaction(cluster: Cluster, spec: AbortTransactionSpec) -> None:
    """Write an abort marker into one partition, whatever the transaction's coordinator knows of it.

    Raises KafkaError naming the partition. INVALID_PRODUCER_EPOCH: the producer has written with a later epoch.
    TRANSACTION_COORDINATOR_FENCED: a marker of a later coordinator epoch is there.
    """
    topic = WritableTxnMarkerTopic(name=spec.partition.topic, partition_indexes=(spec.partition.partition,))
    marker = WritableTxnMarker(
        producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
        coordinator_epoch=spec.coordinator_epoch,
        transaction_result=False,
        topics=(topic,),
    )

    def request(
        _partitions: Sequence[TopicPartition], _leaders: Leaders, _connection: Connection
    ) -> WriteTxnMarkersRequest:
        return WriteTxnMarkersRequest(markers=(marker,))

    def results(response: WriteTxnMarkersResponse) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
        for topic in (topic for marker in response.markers for topic in marker.topics):
            for result in topic.partitions:
                partition, code = TopicPartition(topic.name, result.partition_index), ErrorCode.of(result.error_code)
                if code is ErrorCode.NONE:
                    yield partition, None
                else:
                    detail = f"{partition}: producer {spec.producer_id}, epoch {spec.producer_epoch}"
                    yield partition, KafkaError(code, detail, operation="ALTER")

    ask_leaders(cluster, [spec.partition], request, results)
