"""Transactions of our client for tests: rows by their values, and what readers of committed records see of them."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import READ_COMMITTED
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, list_offsets
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from spark_kafka_native._client.transactions.handle import TransactionalIdentity, TransactionHandle
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.messages.end_txn import EndTxnRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.scripted.fetched_logs import OneRange
from tests.support.waiting import eventually

_LAST_WITHOUT_NEW_EPOCH = 4


def valued(values: Iterable[str], partition: int | None = 0) -> pa.RecordBatch:
    """Rows with these values, all for one partition, or for where the partitioner puts them."""
    found = [value.encode() for value in values]
    columns: dict[str, Any] = {"value": pa.array(found, pa.binary())}
    if partition is not None:
        columns["partition"] = pa.array([partition] * len(found), pa.int32())
    return pa.RecordBatch.from_pydict(columns)


class Transactions:
    """What a test does with the transactions of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def prepared(
        self, transactional_id: str, topic: str, *values: str, timeout_ms: int = 60_000, partition: int = 0
    ) -> TransactionHandle:
        """A transaction with these values that is written and left open."""
        with TransactionalProducer(self.cluster, transactional_id, timeout_ms=timeout_ms) as producer:
            producer.begin()
            producer.send(topic, valued(values, partition))
            return producer.prepare()

    def committed(self, topic: str) -> list[str]:
        """The values that readers of committed records see now, by partition and offset."""
        found: list[str] = []
        for number in self.cluster.metadata([topic]).topics[topic].partitions:
            partition = TopicPartition(topic, number)
            first = list_offsets(self.cluster, {partition: EARLIEST})[partition].offset
            stable = list_offsets(self.cluster, {partition: LATEST}, isolation=READ_COMMITTED)[partition].offset
            with OneRange(self.cluster, partition, first, stable, isolation=READ_COMMITTED) as fetcher:
                for batch in fetcher:
                    found += [value.decode() for value in batch.column("value").to_pylist() if value is not None]
        return found

    def soon_committed(self, topic: str, values: Sequence[str]) -> None:
        """Wait until exactly these values are seen, in any order: markers may be written after the response."""
        eventually(lambda: sorted(self.committed(topic)), sorted(values))

    def end_without_response(self, handle: TransactionalIdentity, *, commit: bool, node_id: int) -> None:
        """Ask for the end of a transaction, and break the connection before the response comes."""
        deadline = Deadline.after_ms(30_000)
        connection = self.cluster.borrow(self.cluster.node(node_id, deadline), deadline)
        request = EndTxnRequest(
            transactional_id=handle.transactional_id,
            producer_id=handle.producer_id,
            producer_epoch=handle.producer_epoch,
            committed=commit,
        )
        last = None if handle.has_epoch_per_transaction else _LAST_WITHOUT_NEW_EPOCH
        connection.send(request, deadline=deadline, max_version=last)
        connection.close()
