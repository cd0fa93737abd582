"""The open transaction of a producer: which partitions and groups are part of it, and what was written where.

A sender calls ``add_partitions`` before it writes to a partition, and ``record_written`` after each acknowledgement.
"""

import dataclasses
import time
from collections.abc import Iterable

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.transactions.describe_producers import describe_producers
from spark_kafka_native._client.transactions.handle import (
    UNKNOWN_OFFSET,
    TransactionalIdentity,
    TransactionHandle,
    WrittenPartition,
)
from spark_kafka_native._client.transactions.requests import add_partitions, raise_for
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import increment_sequence


class TransactionScope:
    """One producer id and epoch, and the transaction that is open in their name."""

    def __init__(self, cluster: Cluster, identity: TransactionalIdentity, *, resumed: bool = False) -> None:
        """``resumed``: another process may have written with this producer id and epoch before."""
        self.identity = identity
        self._cluster = cluster
        self._resumed = resumed
        self._sequences: dict[TopicPartition, int] = {}
        self._partitions: dict[TopicPartition, WrittenPartition] = {}
        self._groups: dict[str, None] = {}
        self._started_ms = -1

    @property
    def is_empty(self) -> bool:
        """Whether nothing was made part of the transaction, nor tried to."""
        return self._started_ms < 0

    def restart(self) -> None:
        """Begin another transaction with the same producer id and epoch."""
        self._partitions.clear()
        self._groups.clear()
        self._started_ms = -1

    def add_partitions(self, partitions: Iterable[TopicPartition], deadline: Deadline) -> None:
        """Make partitions part of the transaction, all that are not yet in one request.

        With an epoch per transaction the first batch does that by itself. Raises TransactionFailed, ProducerFailed.
        """
        new = [partition for partition in partitions if partition not in self._partitions]
        if not new:
            return
        if self._resumed:
            self._learn_sequences([partition for partition in new if partition not in self._sequences], deadline)
        self._start()
        if not self.identity.has_epoch_per_transaction:
            add_partitions(self._cluster, self.identity, new, deadline)
        for partition in new:
            self._partitions[partition] = WrittenPartition(partition=partition)

    def add_group(self, group_id: str) -> None:
        """Note that a group's offsets are about to be made part of the transaction."""
        self._start()
        self._groups[group_id] = None

    def has_group(self, group_id: str) -> bool:
        """Whether a group's offsets are part of the transaction."""
        return group_id in self._groups

    def first_sequence(self, partition: TopicPartition) -> int:
        """The sequence number of the first record that the producer is to write to a partition."""
        return self._sequences.get(partition, 0)

    def record_written(self, partition: TopicPartition, base_offset: int, records_count: int) -> None:
        """Note that a batch was acknowledged; -1: at an unknown offset."""
        if base_offset == UNKNOWN_OFFSET:
            return
        known = self._partitions[partition]
        first = base_offset if known.from_offset == UNKNOWN_OFFSET else min(known.from_offset, base_offset)
        until = max(known.until_offset, base_offset + records_count)
        self._partitions[partition] = dataclasses.replace(known, from_offset=first, until_offset=until)

    def handle(self) -> TransactionHandle:
        """What ends the transaction, from any process."""
        return TransactionHandle(
            **self.identity.to_json(),
            partitions=tuple(self._partitions.values()),
            groups=tuple(self._groups),
            started_ms=self._started_ms,
        )

    def _start(self) -> None:
        if self._started_ms < 0:
            self._started_ms = int(time.time() * 1000)

    def _learn_sequences(self, partitions: list[TopicPartition], deadline: Deadline) -> None:
        """Continue after the last sequence number, because a broker takes a known one for a repeated batch."""
        try:
            found = describe_producers(self._cluster, partitions, timeout_ms=deadline.remaining_ms)
        except KafkaError as error:
            raise_for(self.identity.transactional_id, error)
        ours = (self.identity.producer_id, self.identity.producer_epoch)
        for partition, producers in found.items():
            self._sequences[partition] = 0
            for producer in producers:
                if (producer.producer_id, producer.producer_epoch) == ours and producer.last_sequence >= 0:
                    self._sequences[partition] = increment_sequence(producer.last_sequence, 1)
