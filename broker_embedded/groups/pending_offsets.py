"""Positions that groups have committed in transactions, for as long as these go on (KIP-98, KIP-447)."""

from collections.abc import Collection
from typing import NamedTuple

from broker_embedded.groups.records import OffsetCommitValue
from spark_kafka_native.protocol.topic import TopicPartition


class Position(NamedTuple):
    """A position, and the offset of its record in the log: of two that count, the one that was written later does."""

    value: OffsetCommitValue
    log_offset: int


class OpenTransaction(NamedTuple):
    """A transaction as a partition of ``__consumer_offsets`` knows it: that of a producer."""

    partition: int
    producer_id: int


class PendingOffsets:
    """What transactions that go on have committed, by group and partition, and by transaction."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, dict[OpenTransaction, Position]]] = {}
        self._places: dict[OpenTransaction, set[tuple[str, TopicPartition]]] = {}
        """Where a transaction has positions, or had, until somebody discarded them."""

    def add(self, transaction: OpenTransaction, group_id: str, partition: TopicPartition, position: Position) -> None:
        """A transaction commits a position, in place of the one that it had committed there before."""
        self._groups.setdefault(group_id, {}).setdefault(partition, {})[transaction] = position
        self._places.setdefault(transaction, set()).add((group_id, partition))

    def discard(self, group_id: str, partition: TopicPartition) -> None:
        """Forget what any transaction has committed there."""
        partitions = self._groups.get(group_id, {})
        if partitions.pop(partition, None) is not None and not partitions:
            del self._groups[group_id]

    def end(self, transaction: OpenTransaction, marker_offset: int) -> list[tuple[str, TopicPartition, Position]]:
        """Take out what a transaction has written before its marker; what is behind that is of the producer's next."""
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
        """The groups that have any."""
        return self._groups.keys()

    def partitions(self, group_id: str) -> Collection[TopicPartition]:
        """The partitions for which a group has any."""
        return self._groups.get(group_id, {}).keys()

    def of(self, group_id: str, partition: TopicPartition) -> Collection[Position]:
        """Those of a group for a partition, one for each transaction that has any."""
        return self._groups.get(group_id, {}).get(partition, {}).values()
