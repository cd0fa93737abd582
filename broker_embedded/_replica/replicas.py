"""The replicas of this broker: keeps the local logs consistent with the topics in the metadata."""

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.manager import LogManager
from broker_embedded._metadata.files.topics import TOPICS
from broker_embedded._metadata.image import ClusterImage, TopicImage, log_config
from broker_embedded._metadata.reconcile import reconcile, with_epochs
from broker_embedded._metadata.store import MetadataStore
from broker_embedded._platform.worker_threads import OnDisk
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.ids import new_id
from spark_kafka_native._protocol.topic import TopicPartition

logger = logging.getLogger(__name__)


class Replicas:
    """Creates the logs of new partitions, reconfigures logs, and deletes those of deleted topics."""

    def __init__(
        self, store: MetadataStore, logs: LogManager, on_disk: OnDisk, defaults: Callable[[], LogConfig]
    ) -> None:
        """``defaults`` returns the broker's present settings of logs."""
        self._store = store
        self._logs = logs
        self._on_disk = on_disk
        self._defaults = defaults
        store.watch(TOPICS, self._apply, prepare=self._prepare)

    async def reconfigure_all(self) -> None:
        """Apply the broker's present settings to all logs. The caller watches configs, so that no topic changes."""
        await self._reconfigure(*self._store.current.image.topics.values())

    async def _prepare(self, before: ClusterImage, after: ClusterImage) -> None:
        """Create the logs of new partitions, and reconfigure the logs of topics whose settings have changed."""
        for topic in _changed(before, after):
            old = before.topic_by_id(topic.topic_id)
            first = len(old.partitions) if old else 0
            new = [TopicPartition(topic.name, index) for index in range(first, len(topic.partitions))]
            if new:
                config = log_config(topic, self._defaults())
                await self._on_disk(functools.partial(self._logs.create_all, new, topic.topic_id, config))
            if old and old.configs != topic.configs:
                await self._reconfigure(topic)

    async def _apply(self, before: ClusterImage, after: ClusterImage) -> None:
        """Delete the logs of deleted topics. An error is logged, and the next start deletes them."""
        for topic_id in after.deleting.keys() - before.deleting.keys():
            topic = before.topic_by_id(topic_id)
            assert topic is not None
            try:
                await self._on_disk(functools.partial(self._logs.delete_all, _partitions(topic)))
            except KafkaError as error:
                logger.error("topic %s is deleted, its files stay until the next start: %s", topic.name, error)
                continue
            # The new names mark the directories as deleted, so that the list in the file is not needed any more.
            self._store.set_current(TOPICS, self._store.current.image.with_logs_deleted(topic_id))

    async def _reconfigure(self, *topics: TopicImage) -> None:
        """Apply the settings of topics to their logs. Takes the logs' locks, which may wait for the disk."""
        wanted = [(topic, log_config(topic, self._defaults())) for topic in topics]

        def reconfigure() -> None:
            for topic, config in wanted:
                for partition in _partitions(topic):
                    log = self._logs.get(partition)
                    if log is not None and log.config != config:
                        log.reconfigure(config)

        await self._on_disk(reconfigure)


def reconcile_logs(
    store: MetadataStore, logs: LogManager, defaults: LogConfig, internal: Mapping[str, Mapping[str, str]]
) -> None:
    """Make the topics and the logs of a data directory consistent at the start, durably. Blocks.

    ``internal`` are the settings of the internal topics that this broker uses, by name: the log of an adopted one must
    not be subject to retention. Crash in any step: the next start repeats it.

    Raises InconsistentTopicError, SettingError, OSError, KafkaError.
    """
    image = store.current.image
    result = reconcile(
        image,
        {partition: log.topic_id for partition, log in logs.logs.items()},
        node_id=image.controller_id,
        new_id=new_id,
    )
    for partition in result.leftovers:
        logger.info("%s belongs to a deleted topic: deleting its log", partition)
    for name in result.adopted:
        logger.warning(
            "topic %s is adopted from its directories, because topics.json has no or fewer partitions of it", name
        )
    for missing in result.missing.values():
        logger.warning("created the missing directories of %s", ", ".join(map(str, missing)))
    adopted = {name for name in result.adopted if image.topic(name) is None}
    epochs = {partition: log.epochs.highest for partition, log in logs.logs.items()}
    topics = [
        _as_internal(topic, internal) if topic.name in adopted else topic
        for topic in with_epochs(result.topics, epochs)
    ]
    logs.delete_all(result.leftovers)
    store.commit_at_start(TOPICS, lambda now: now.with_topics(topics, deleting={}))
    for topic in topics:
        config = log_config(topic, defaults)
        if topic.name in adopted:
            for partition in _partitions(topic):
                if (log := logs.get(partition)) is not None:
                    log.reconfigure(config)
        if topic.name in result.missing:
            logs.create_all(result.missing[topic.name], topic.topic_id, config)


def _changed(before: ClusterImage, after: ClusterImage) -> list[TopicImage]:
    """The topics that are new or have changed."""
    return [topic for name, topic in after.topics.items() if before.topics.get(name) is not topic]


def _partitions(topic: TopicImage) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for index in range(len(topic.partitions))]


def _as_internal(topic: TopicImage, internal: Mapping[str, Mapping[str, str]]) -> TopicImage:
    """An adopted topic, with the settings of a new one if it is internal."""
    if topic.name in internal:
        return dataclasses.replace(topic, configs=internal[topic.name])
    return dataclasses.replace(topic, configs={"cleanup.policy": "compact"}) if topic.is_internal else topic
