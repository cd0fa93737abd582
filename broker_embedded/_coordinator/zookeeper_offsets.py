"""Where OffsetCommit v0 and OffsetFetch v0 find the offsets of groups in ZooKeeper."""

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from spark_kafka_native._protocol.topic import TopicPartition


class OffsetStore(Protocol):
    """Offsets of groups in ZooKeeper. Requests end within a time limit, also if ZooKeeper does not respond."""

    async def store(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> Set[TopicPartition]:
        """Store offsets. The partitions that were stored; of others that is not known, and the error is logged."""

    async def read(self, group_id: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """The offset of each partition, None if it has none. Absent if it cannot be read; the error is logged."""


@dataclass(slots=True)
class OffsetsInZooKeeper:
    """A component of the broker. ``offsets`` is None without ``zookeeper.connect``."""

    offsets: OffsetStore | None = None
