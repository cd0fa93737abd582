"""The view of topics that groups can subscribe to, and its hash.

The hash is Apache Kafka's: XXH3 of 64 bits without a seed, of values in little-endian order. A string is its UTF-16
code units, followed by their number.
"""

import functools
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from xxhash import xxh3_64_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribableTopic:
    """A topic: its id, its name, and its number of partitions."""

    topic_id: UUID
    name: str
    partitions: int


@dataclass(frozen=True, slots=True, eq=False)
class TopicsView:
    """All topics at one time. Views are compared by identity.

    ``version`` increases with every view, also after a restart, because it is written with resolved regular
    expressions. ``created_version`` is that of the last view with a new topic.
    """

    by_name: Mapping[str, SubscribableTopic]
    by_id: Mapping[UUID, SubscribableTopic]
    version: int = 0
    created_version: int = 0

    @classmethod
    def of(
        cls, topics: Iterable[SubscribableTopic], *, version: int = 0, before: "TopicsView | None" = None
    ) -> "TopicsView":
        """The view of ``topics`` after ``before``, whose version is lower; or the first one."""
        by_name = {topic.name: topic for topic in topics}
        by_id = {topic.topic_id: topic for topic in by_name.values()}
        if before is None:
            return cls(by_name, by_id, version, version)
        version = max(version, before.version + 1)
        created_version = before.created_version if by_id.keys() <= before.by_id.keys() else version
        return cls(by_name, by_id, version, created_version)

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        """The ids of the topics that exist."""
        return frozenset(self.by_name[name].topic_id for name in names if name in self.by_name)

    def metadata_hash(self, names: Iterable[str]) -> int:
        """The hash of the metadata of subscribed topics; 0 if none of them exists.

        It is the same as Apache Kafka's (KIP-1101), so that a group does not rebalance when its log is moved between
        the brokers.
        """
        topics = [self.by_name[name] for name in sorted(names, key=_java_order) if name in self.by_name]
        if not topics:
            return 0
        return _signed_hash(struct.pack(f"<{len(topics)}q", *map(_topic_hash, topics)))


EMPTY_VIEW = TopicsView({}, {})


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be")


@functools.lru_cache(maxsize=50_000)
def _topic_hash(topic: SubscribableTopic) -> int:
    """The hash of version, id, name, number of partitions, and each partition with its racks; there are none here."""
    version_and_id = struct.pack("<BQQ", 0, *divmod(topic.topic_id.int, 1 << 64))
    name = topic.name.encode("utf-16-le")
    numbers = (len(name) // 2, topic.partitions, *range(topic.partitions))
    return _signed_hash(version_and_id + name + struct.pack(f"<{len(numbers)}i", *numbers))


def _signed_hash(data: bytes) -> int:
    return int.from_bytes(xxh3_64_digest(data), signed=True)
