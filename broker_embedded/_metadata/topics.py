"""Changes of topics: creation, more partitions, configs, deletion, leader epochs.

`_metadata.store` has the steps of a change. `_replica.replicas` creates, reconfigures and deletes the logs:

- The directories of new partitions are created before clients see them. Crash after the file is replaced: the next
  start creates missing ones. If they cannot be created, the topic is unchanged.
- A deleted topic is in the file under ``deleting`` until its directories are renamed to ``...-delete``. Crash before:
  the next start removes them under either name. The files are removed ``file.delete.delay.ms`` later, or by the next
  start. If it was registered in ZooKeeper, its name is under ``unregistering`` until its znodes are deleted.
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.log_config import LogConfig
from broker_embedded._config.settings import SettingError, refuse_unknown
from broker_embedded._metadata.controller import TopicDefaults, plan_partitions, plan_topic
from broker_embedded._metadata.files.topics import TOPICS
from broker_embedded._metadata.image import ClusterImage, TopicImage, log_config
from broker_embedded._metadata.store import MetadataStore
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, counted
from spark_kafka_native._protocol.ids import new_id
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsTopic
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic
from spark_kafka_native._protocol.topic import TopicPartition

logger = logging.getLogger(__name__)

ConfigChange: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str]]
"""A topic's own settings after a change, from those before. May raise KafkaError."""


class Topics:
    """The topics of this broker. Belongs to the event loop."""

    def __init__(self, store: MetadataStore, config: Callable[[], BrokerConfig]) -> None:
        """``config`` returns the broker's present configuration."""
        self._store = store
        self._config = config

    @property
    def image(self) -> ClusterImage:
        """The present topics."""
        return self._store.current.image

    def plan(self, wanted: CreatableTopic) -> TopicImage:
        """The topic that would be created. Raises KafkaError, also INVALID_CONFIG for an invalid setting."""
        config = self._config()
        defaults = TopicDefaults(
            num_partitions=config.partition_counts().get(wanted.name, config.num_partitions),
            replication_factor=config.default_replication_factor,
        )
        topic = plan_topic(self.image, wanted, new_id(), defaults)
        try:
            LogConfig.parse(topic.configs, config.log)
        except SettingError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return topic

    def plan_partitions(self, wanted: CreatePartitionsTopic) -> TopicImage:
        """The topic with more partitions. Raises KafkaError."""
        return plan_partitions(self.image, wanted)

    def log_config(self, topic: TopicImage) -> LogConfig:
        """The settings of a topic's logs: its own, which override the broker's. Raises SettingError."""
        return log_config(topic, self._config().log)

    async def create(self, wanted: CreatableTopic) -> TopicImage:
        """Create a topic. Raises KafkaError: it was not created.

        With ``zookeeper.connect`` it is remembered as registered, because another change of the file would take as long
        as the creation.
        """

        def plan(_: ClusterImage) -> TopicImage:
            topic = self.plan(wanted)
            is_registered = self._config().zookeeper() is not None
            return dataclasses.replace(topic, registered_configs=topic.configs) if is_registered else topic

        topic = await self._commit(plan)
        logger.info("created topic %s with %s", topic.name, counted(len(topic.partitions), "partition"))
        return topic

    async def require(self, wanted: CreatableTopic) -> TopicImage:
        """Create a topic unless it exists. Raises KafkaError: it was not created."""
        try:
            return await self.create(wanted)
        except KafkaError as error:
            found = self.image.topic(wanted.name)
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and found is not None:
                return found
            raise

    async def add_partitions(self, wanted: CreatePartitionsTopic) -> TopicImage:
        """Add partitions to a topic. Raises KafkaError: none was added."""
        topic = await self._commit(lambda _: self.plan_partitions(wanted))
        logger.info("topic %s has %s now", topic.name, counted(len(topic.partitions), "partition"))
        return topic

    async def configure(self, name: str, change: ConfigChange, *, validate_only: bool = False) -> None:
        """Replace a topic's own settings by ``change`` of the present ones, or only check it.

        Raises KafkaError, and nothing has changed: that of ``change``; INVALID_CONFIG; UNKNOWN_TOPIC_OR_PARTITION;
        KAFKA_STORAGE_ERROR.
        """
        if validate_only:
            self._configured(self.image, name, change)
            return
        before = self.image.topic(name)
        topic = await self._commit(lambda image: self._configured(image, name, change))
        if topic is not before:
            logger.info("topic %s has the settings %s now", name, dict(topic.configs))

    async def begin_leader_epoch(self, partition: TopicPartition) -> int:
        """Begin a new leader epoch, as if the leader had changed; the new epoch.

        Raises KafkaError: unknown partition, or an error of the disk; the epoch is unchanged.
        """
        topic = await self._commit(lambda image: _with_next_epoch(image, partition))
        return topic.partitions[partition.partition].leader_epoch

    async def delete(self, topic: TopicImage) -> None:
        """Delete a topic. Raises KafkaError: it was deleted before, or the disk fails and it still exists."""

        def without(image: ClusterImage) -> ClusterImage:
            if image.topic_by_id(topic.topic_id) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} is deleted already")
            return image.without_topic(topic)

        await self._store.commit(TOPICS, without)
        logger.info("deleted topic %s", topic.name)

    async def register(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Remember the settings that topics have in ZooKeeper, if they exist. Raises KafkaError: an error of the disk.

        Topics are remembered before they are registered, and changed settings after they are written.
        """

        def with_configs(image: ClusterImage) -> ClusterImage:
            return image.with_registered_configs({name: configs[name] for name in image.topics.keys() & configs.keys()})

        await self._store.commit(TOPICS, with_configs)

    async def unregistered(self, names: frozenset[str]) -> None:
        """Forget deleted topics whose znodes in ZooKeeper were deleted. Raises KafkaError: an error of the disk."""
        await self._store.commit(TOPICS, lambda image: image.without_registrations(names))

    async def _commit(self, plan: Callable[[ClusterImage], TopicImage]) -> TopicImage:
        """Put the topic of ``plan`` into the image; that topic."""
        planned: list[TopicImage] = []

        def with_topic(image: ClusterImage) -> ClusterImage:
            topic = plan(image)
            planned.append(topic)
            return image if image.topic(topic.name) is topic else image.with_topic(topic)

        await self._store.commit(TOPICS, with_topic)
        return planned[0]

    def _configured(self, image: ClusterImage, name: str, change: ConfigChange) -> TopicImage:
        """The topic after a change of its settings, the same object if nothing changes. Raises KafkaError."""
        topic = image.topic(name)
        present = topic.configs if topic else {}
        configs = change(present)
        defaults = self._config().log
        try:
            refuse_unknown((key for key, value in configs.items() if present.get(key) != value), defaults.known())
            LogConfig.parse_stored(configs, defaults)
        except SettingError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return topic if configs == topic.configs else dataclasses.replace(topic, configs=dict(configs))


def _with_next_epoch(image: ClusterImage, wanted: TopicPartition) -> TopicImage:
    topic = image.topic(wanted.topic)
    old = topic.partition(wanted.partition) if topic else None
    if topic is None or old is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {wanted}")
    new = dataclasses.replace(old, leader_epoch=old.leader_epoch + 1)
    partitions = tuple(new if index == wanted.partition else one for index, one in enumerate(topic.partitions))
    return dataclasses.replace(topic, partitions=partitions)
