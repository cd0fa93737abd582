"""Pending offsets: committed in transactions that are open (KIP-98, KIP-447)."""

from collections.abc import Collection
from typing import NamedTuple

from broker_embedded._groups.records import OffsetCommitValue
from spark_kafka_native._protocol.topic import TopicPartition


class Position(NamedTuple):
    """A committed offset, and the log offset of its record: the later record takes precedence."""

    value: OffsetCommitValue
    log_offset: int


class PendingTransaction(NamedTuple):
    """An open transaction in a partition of ``__consumer_offsets``, identified by its producer."""

    partition: int
    producer_id: int


class PendingOffsets:
    """The pending offsets, by group and partition, and by transaction."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, dict[PendingTransaction, Position]]] = {}
        self._places: dict[PendingTransaction, set[tuple[str, TopicPartition]]] = {}
        """The groups and partitions of each transaction's pending offsets, including discarded ones."""

    def add(
        self, transaction: PendingTransaction, group_id: str, partition: TopicPartition, position: Position
    ) -> None:
        """Add a pending offset, which replaces an earlier one of the transaction."""
        self._groups.setdefault(group_id, {}).setdefault(partition, {})[transaction] = position
        self._places.setdefault(transaction, set()).add((group_id, partition))

    def discard(self, group_id: str, partition: TopicPartition) -> None:
        """Drop the pending offsets of a partition, of all transactions."""
        partitions = self._groups.get(group_id, {})
        if partitions.pop(partition, None) is not None and not partitions:
            del self._groups[group_id]

    def end(self, transaction: PendingTransaction, marker_offset: int) -> list[tuple[str, TopicPartition, Position]]:
        """Remove and return the pending offsets before a marker.

        Later ones belong to the producer's next transaction.
        """
        ended = []
        for group_id, partition in sorted(self._places.pop(transaction, ())):
            position = self._groups.get(group_id, {}).get(partition, {}).pop(transaction, None)
            if position is None:
                continue
            if not self._groups[group_id][partition]:
                self.discard(group_id, partition)
            if position.log_offset < marker_offset:
                ended.append((group_id, partition, position))
            else:
                self.add(transaction, group_id, partition, position)
        return ended

    def clear(self) -> None:
        """Forget everything."""
        self._groups.clear()
        self._places.clear()

    @property
    def groups(self) -> Collection[str]:
        """The groups with pending offsets."""
        return self._groups.keys()

    def partitions(self, group_id: str) -> Collection[TopicPartition]:
        """The partitions with pending offsets of a group."""
        return self._groups.get(group_id, {}).keys()

    def of(self, group_id: str, partition: TopicPartition) -> Collection[Position]:
        """The pending offsets of a group for a partition, one for each transaction."""
        return self._groups.get(group_id, {}).get(partition, {}).values()
