"""The cluster as values: brokers, topics, partitions. A change creates a new image."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self
from uuid import UUID

from broker_embedded._config.log_config import LogConfig
from broker_embedded._config.settings import SettingError
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS
from spark_kafka_native._protocol.wire import ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    """A broker and its address of one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """The replicas and the leader of a partition. ``leader_epoch`` increases with each change of the leader."""

    leader: int
    leader_epoch: int = 0
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic. Partition ``i`` is ``partitions[i]``; ``configs`` are the settings of this topic, without defaults.

    ``registered_configs`` are the settings that it has in ZooKeeper, or with which it is registered next; None if it
    never was to be registered.
    """

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    registered_configs: Mapping[str, str] | None = None

    @property
    def is_internal(self) -> bool:
        """Whether it is a topic of the coordinators."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> PartitionImage | None:
        """One partition, or None."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """The ids of all brokers, and all topics. Change it with ``with_*`` and ``without_topic``.

    ``names`` are the topics' names by id. ``deleting`` are deleted topics whose logs may still exist, name by id.
    ``unregistering`` are the names of deleted topics whose znodes may still exist in ZooKeeper.
    ``changes`` counts the changes of topics since the start.
    """

    cluster_id: str
    controller_id: int
    broker_ids: tuple[int, ...]
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)
    unregistering: frozenset[str] = frozenset()
    changes: int = field(default=0, compare=False)

    def topic(self, name: str) -> TopicImage | None:
        """The topic with this name, or None."""
        return self.topics.get(name)

    def topic_id(self, name: str) -> UUID:
        """The id of the topic with this name, or the zero id."""
        topic = self.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        """The topic with this id, or None."""
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def with_topics(self, topics: Iterable[TopicImage], *, deleting: Mapping[UUID, str]) -> Self:
        """The image with these topics only. Raises ValueError: two of them have the same name or id."""
        by_name: dict[str, TopicImage] = {}
        names: dict[UUID, str] = {}
        for topic in topics:
            if topic.name in by_name or topic.topic_id in names:
                raise ValueError(f"topic {topic.name} ({topic.topic_id}) is repeated")
            by_name[topic.name] = topic
            names[topic.topic_id] = topic.name
        return replace(self, topics=by_name, names=names, deleting=deleting)

    def with_topic(self, topic: TopicImage) -> Self:
        """The image with ``topic``, which is new or replaces the one with its name."""
        old = self.topics.get(topic.name)
        names = dict(self.names)
        if old is not None:
            del names[old.topic_id]
        names[topic.topic_id] = topic.name
        return replace(self, topics={**self.topics, topic.name: topic}, names=names, changes=self.changes + 1)

    def without_topic(self, topic: TopicImage) -> Self:
        """The image without the topic, whose logs and znodes may still exist. Raises KeyError: it does not exist."""
        topics, names = dict(self.topics), dict(self.names)
        del topics[names.pop(topic.topic_id)]
        deleting = {**self.deleting, topic.topic_id: topic.name}
        was_registered = topic.registered_configs is not None
        unregistering = self.unregistering | {topic.name} if was_registered else self.unregistering
        image = replace(self, topics=topics, names=names, deleting=deleting, changes=self.changes + 1)
        return replace(image, unregistering=unregistering)

    def with_registered_configs(self, configs: Mapping[str, Mapping[str, str]]) -> Self:
        """The image with the settings that existing topics have in ZooKeeper. ``changes`` does not count it."""
        registered = {name: replace(self.topics[name], registered_configs=each) for name, each in configs.items()}
        return replace(self, topics={**self.topics, **registered})

    def without_registrations(self, names: frozenset[str]) -> Self:
        """The image after the znodes of deleted topics were deleted in ZooKeeper."""
        return replace(self, unregistering=self.unregistering - names)

    def with_logs_deleted(self, topic_id: UUID) -> Self:
        """The image after the logs of a deleted topic were deleted."""
        return replace(self, deleting={known: name for known, name in self.deleting.items() if known != topic_id})


EMPTY_IMAGE: Final = ClusterImage(cluster_id="", controller_id=-1, broker_ids=())


def log_config(topic: TopicImage, defaults: LogConfig) -> LogConfig:
    """The settings of a topic's logs. Raises SettingError that names the topic."""
    try:
        return LogConfig.parse_stored(topic.configs, defaults)
    except SettingError as error:
        raise SettingError(f"topic {topic.name}: {error.key}", error.problem) from error


def check_topics(image: ClusterImage, defaults: LogConfig) -> None:
    """Raise SettingError for a broker's setting that contradicts settings of a topic."""
    for topic in image.topics.values():
        try:
            LogConfig.parse_stored(topic.configs, defaults)
        except SettingError as error:
            raise SettingError(error.key, f"{error.problem} (topic {topic.name})") from error
