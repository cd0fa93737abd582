"""The cluster as values: brokers, topics, partitions. A change makes a new image; the old one stays as it is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self
from uuid import UUID

from spark_kafka_native.protocol.topic import INTERNAL_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    """A broker as clients reach it through one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """Who holds a partition and who leads it. ``leader_epoch`` counts the leaders it has had."""

    leader: int
    leader_epoch: int = 0
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic. Partition ``i`` is ``partitions[i]``; ``configs`` has what was set for this topic, not the defaults."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        """Whether the brokers keep state of their own in it."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> PartitionImage | None:
        """One partition, or None."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """All brokers' ids and all topics. Make one with ``of``, change it with ``with_topic`` and ``without_topic``."""

    cluster_id: str
    controller_id: int
    broker_ids: tuple[int, ...]
    topics: Mapping[str, TopicImage]
    names: Mapping[UUID, str]

    @classmethod
    def of(
        cls, *, cluster_id: str, controller_id: int, broker_ids: tuple[int, ...], topics: Iterable[TopicImage] = ()
    ) -> Self:
        """An image with these topics. Raises ValueError: two of them share a name or an id."""
        by_name: dict[str, TopicImage] = {}
        names: dict[UUID, str] = {}
        for topic in topics:
            if topic.name in by_name or topic.topic_id in names:
                raise ValueError(f"topic {topic.name} ({topic.topic_id}) is there twice")
            by_name[topic.name] = topic
            names[topic.topic_id] = topic.name
        return cls(
            cluster_id=cluster_id, controller_id=controller_id, broker_ids=broker_ids, topics=by_name, names=names
        )

    def topic(self, name: str) -> TopicImage | None:
        """The topic with this name, or None."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        """The topic with this id, or None."""
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def with_topic(self, topic: TopicImage) -> Self:
        """The image in which ``topic`` stands, new or in place of the one with its name."""
        old = self.topics.get(topic.name)
        names = dict(self.names)
        if old is not None:
            del names[old.topic_id]
        names[topic.topic_id] = topic.name
        return replace(self, topics={**self.topics, topic.name: topic}, names=names)

    def without_topic(self, name: str) -> Self:
        """The image from which the topic is gone. Raises KeyError: it was not there."""
        topics, names = dict(self.topics), dict(self.names)
        del names[topics.pop(name).topic_id]
        return replace(self, topics=topics, names=names)
