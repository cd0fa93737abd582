"""The view of topics that groups can subscribe to, and its hash."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from broker_embedded.groups.consumer.hash import XXH3


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
        return XXH3().put_longs(map(_topic_hash, topics)).signed_digest()


EMPTY_VIEW = TopicsView({}, {})


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be")


@functools.lru_cache(maxsize=50_000)
def _topic_hash(topic: SubscribableTopic) -> int:
    """The hash of version, id, name, number of partitions, and each partition with its racks; there are none here."""
    state = XXH3().put_byte(0)
    state.put_long(topic.topic_id.int >> 64).put_long(topic.topic_id.int & 0xFFFFFFFFFFFFFFFF)
    state.put_string(topic.name).put_int(topic.partitions)
    for partition in range(topic.partitions):
        state.put_int(partition)
    return state.signed_digest()
