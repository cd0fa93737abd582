"""Topics on the disk and in the image: made, widened and deleted so that a crash at any step is put right at the start.

What topics there are stands in ``topics.json``, one small file that is replaced as a whole (written beside it, synced,
renamed), because that is the one change of a file system that either has happened or has not. Apache Kafka appends
records to a metadata log instead, which pays when many brokers follow the changes; here nobody does, and a file that a
person can read is worth more. Replacing it takes time in proportion to the topics, a millisecond for some hundreds.

Making a topic (adding partitions is the same):

1. It is checked against the image. Crash here: nothing has happened.
2. ``topics.json`` is replaced by one that has it. Crash here: the topic is there; the start makes its directories.
3. The directories of its partitions are made. Crash here: the start makes those that are missing.
4. The image is replaced, clients see the topic, the request is answered.

Should step 3 fail, the topic is taken out of the file again and what was made of its directories is removed.

Changing a topic's configuration:

1. It is checked. Crash here: nothing has happened.
2. ``topics.json`` is replaced by one that has it. Crash here: the start opens the logs with it.
3. The open logs go by it, the request is answered.

Deleting a topic:

1. ``topics.json`` is replaced by one that names it under ``deleting``. Crash here: the topic is gone; the start removes
   its directories.
2. The image is replaced, clients see it no more, the logs take no more calls.
3. The directories are renamed to ``...-delete``. Crash here: the start removes them under either name.
4. The request is answered. The files go ``file.delete.delay.ms`` later, or after a crash at the start.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from broker_embedded.config.config import BrokerConfig
from broker_embedded.config.log_config import LogConfig
from broker_embedded.config.settings import ConfigError, refuse_unknown
from broker_embedded.log.checkpoints import new_id
from broker_embedded.log.manager import LogManager
from broker_embedded.metadata import topics_file
from broker_embedded.metadata.controller import TopicDefaults, plan_partitions, plan_topic
from broker_embedded.metadata.image import ClusterImage, TopicImage
from broker_embedded.platform.finishing import Finishing
from broker_embedded.platform.platform import FileSystem
from broker_embedded.platform.stored_files import OnDisk, replace_file
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.create_partitions import CreatePartitionsTopic
from spark_kafka_native.protocol.messages.create_topics import CreatableTopic
from spark_kafka_native.protocol.topic import TopicPartition

logger = logging.getLogger(__name__)

FILE_NAME: Final = "topics.json"


class Topics:
    """The topics of this broker. Changes take turns; each one that has begun is brought to its end."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        logs: LogManager,
        path: str,
        file_system: FileSystem,
        image: ClusterImage,
        deleting: dict[UUID, str],
        on_disk: OnDisk,
        finishing: Finishing,
        publish: Callable[[ClusterImage], None],
    ) -> None:
        """``publish`` is called with each new image, before the request that made it is answered.

        Whoever changes what there is of topics, or what they go by, has ``turn``.
        """
        self._config = config
        self._logs = logs
        self._path = path
        self._file_system = file_system
        self._image = image
        self._deleting = deleting
        self._on_disk = on_disk
        self._finishing = finishing
        self._publish = publish
        self._changes = 0
        self.turn = asyncio.Lock()

    @property
    def changes(self) -> int:
        """How many changes there were since the start."""
        return self._changes

    @property
    def image(self) -> ClusterImage:
        """The topics as clients see them."""
        return self._image

    # --- what would be -----------------------------------------------------------------------------------------------

    def plan(self, wanted: CreatableTopic) -> TopicImage:
        """The topic that would be made. Raises KafkaError, INVALID_CONFIG for a bad setting too."""
        defaults = TopicDefaults(
            num_partitions=self._config.num_partitions, replication_factor=self._config.default_replication_factor
        )
        topic = plan_topic(self._image, wanted, new_id(), defaults)
        try:
            LogConfig.parse(topic.configs, self._config.log)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return topic

    def plan_partitions(self, wanted: CreatePartitionsTopic) -> TopicImage:
        """The topic as it would be with more partitions. Raises KafkaError."""
        return plan_partitions(self._image, wanted)

    def log_config(self, topic: TopicImage) -> LogConfig:
        """The settings of a topic's logs: its own, over the broker's. Raises ConfigError."""
        return LogConfig.parse_stored(topic.configs, self._config.log)

    # --- changes -----------------------------------------------------------------------------------------------------

    async def create(self, wanted: CreatableTopic) -> TopicImage:
        """Make a topic. Raises KafkaError: it cannot be, or the disk fails; there is no such topic then."""
        return await self._finishing.finish(self._create(wanted))

    async def require(self, wanted: CreatableTopic) -> TopicImage:
        """Make a topic unless it is there by now. Raises KafkaError: it cannot be made."""
        try:
            return await self.create(wanted)
        except KafkaError as error:
            found = self._image.topic(wanted.name)
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and found is not None:
                return found
            raise

    async def add_partitions(self, wanted: CreatePartitionsTopic) -> TopicImage:
        """Make a topic wider. Raises KafkaError; it is as wide as before then."""
        return await self._finishing.finish(self._add_partitions(wanted))

    async def configure(
        self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]], *, validate_only: bool = False
    ) -> None:
        """Bring a topic's own settings to what ``change`` makes of the present ones, or only check that it could be.

        Raises KafkaError, and nothing has changed: that of ``change``; INVALID_CONFIG; UNKNOWN_TOPIC_OR_PARTITION;
        KAFKA_STORAGE_ERROR.
        """
        await self._finishing.finish(self._configure(name, change, validate_only))

    def check_config(self, config: BrokerConfig) -> None:
        """Raise ConfigError unless every topic's settings go together with this configuration of the broker."""
        for topic in self._image.topics.values():
            try:
                LogConfig.parse_stored(topic.configs, config.log)
            except ConfigError as error:
                raise ConfigError(error.key, f"{error.problem} (topic {topic.name})") from error

    async def use_config(self, config: BrokerConfig) -> None:
        """From now on the broker has this configuration; open logs go by its new defaults.

        It was checked, and ``turn`` is the caller's since then.
        """
        self._config = config
        await self._reconfigure(*((topic, self.log_config(topic)) for topic in self._image.topics.values()))

    async def begin_leader_epoch(self, partition: TopicPartition) -> int:
        """Begin another leader epoch, as if the partition's leadership had moved; the new epoch.

        Raises KafkaError: there is no such partition, or the disk fails; the epoch is as before then.
        """
        return await self._finishing.finish(self._begin_leader_epoch(partition))

    async def delete(self, topic: TopicImage) -> None:
        """Delete a topic. Raises KafkaError: somebody else was faster, or the disk fails; it is there still then."""
        await self._finishing.finish(self._delete(topic))

    async def _create(self, wanted: CreatableTopic) -> TopicImage:
        async with self.turn:
            topic = self.plan(wanted)
            await self._widen(topic, 0)
            logger.info("made topic %s with %d partitions", topic.name, len(topic.partitions))
            return topic

    async def _add_partitions(self, wanted: CreatePartitionsTopic) -> TopicImage:
        async with self.turn:
            topic = self.plan_partitions(wanted)
            old = self._image.topics[topic.name]
            await self._widen(topic, len(old.partitions))
            logger.info("topic %s has %d partitions now", topic.name, len(topic.partitions))
            return topic

    async def _widen(self, topic: TopicImage, first: int) -> None:
        """Steps 2 to 4 of making a topic, of which partitions ``first`` and on are new."""
        image = self._image.with_topic(topic)
        config = self.log_config(topic)
        new = [TopicPartition(topic.name, index) for index in range(first, len(topic.partitions))]
        await self._store(image.topics.values())
        try:
            await self._on_disk(lambda: self._logs.create_all(new, topic.topic_id, config))
        except KafkaError:
            await self._store(self._image.topics.values())
            raise
        self._use(image)

    async def _configure(
        self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]], validate_only: bool
    ) -> None:
        async with self.turn:
            old = self._image.topic(name)
            present = old.configs if old else {}
            configs = change(present)
            try:
                new = (key for key, value in configs.items() if present.get(key) != value)
                refuse_unknown(new, self._config.log.known())
                config = LogConfig.parse_stored(configs, self._config.log)
            except ConfigError as error:
                raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
            if old is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            if validate_only or configs == old.configs:
                return
            topic = dataclasses.replace(old, configs=dict(configs))
            image = self._image.with_topic(topic)
            await self._store(image.topics.values())
            await self._reconfigure((topic, config))
            self._use(image)
            logger.info("topic %s has the settings %s now", name, dict(configs))

    async def _reconfigure(self, *wanted: tuple[TopicImage, LogConfig]) -> None:
        """Let the open logs of topics go by a configuration. Takes their locks, which may wait for the disk."""

        def reconfigure() -> None:
            for topic, config in wanted:
                for index in range(len(topic.partitions)):
                    log = self._logs.get(TopicPartition(topic.name, index))
                    if log is not None and log.config != config:
                        log.reconfigure(config)

        await self._on_disk(reconfigure)

    async def _begin_leader_epoch(self, wanted: TopicPartition) -> int:
        async with self.turn:
            topic = self._image.topic(wanted.topic)
            old = topic.partition(wanted.partition) if topic else None
            if topic is None or old is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {wanted}")
            new = dataclasses.replace(old, leader_epoch=old.leader_epoch + 1)
            partitions = tuple(new if index == wanted.partition else one for index, one in enumerate(topic.partitions))
            image = self._image.with_topic(dataclasses.replace(topic, partitions=partitions))
            await self._store(image.topics.values())
            self._use(image)
            return new.leader_epoch

    async def _delete(self, topic: TopicImage) -> None:
        async with self.turn:
            if self._image.topic_by_id(topic.topic_id) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} is gone already")
            image = self._image.without_topic(topic.name)
            self._deleting[topic.topic_id] = topic.name
            try:
                await self._store(image.topics.values())
            except KafkaError:
                del self._deleting[topic.topic_id]
                raise
            self._use(image)
            gone = [TopicPartition(topic.name, index) for index in range(len(topic.partitions))]
            try:
                await self._on_disk(lambda: self._logs.delete_all(gone))
            except KafkaError as error:
                logger.error("topic %s is deleted, its files stay until the next start: %s", topic.name, error)
            else:
                # Their names say it all from here on, so the file need not: the next change leaves the entry out.
                del self._deleting[topic.topic_id]
            logger.info("deleted topic %s", topic.name)

    async def _store(self, topics: Iterable[TopicImage]) -> None:
        """Replace the file. Raises KafkaError: the old one stands, or if the last step failed, the new one."""
        raw = topics_file.encode(topics, self._deleting)
        await replace_file(self._on_disk, self._file_system, self._path, raw)

    def _use(self, image: ClusterImage) -> None:
        self._changes += 1
        self._image = image
        self._publish(image)
