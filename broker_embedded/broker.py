"""One broker: its data directory, its topics, its groups, and whoever waits for them. No socket yet."""

import asyncio
import dataclasses
import functools
import logging
import os
from typing import TypeVar

from broker_embedded.config.config import BrokerConfig
from broker_embedded.config.log_config import LogConfig
from broker_embedded.config.releases import Feature
from broker_embedded.config.settings import ConfigError
from broker_embedded.coordinator.group_settings import replay_context
from broker_embedded.coordinator.group_topics import ConsumerTopics
from broker_embedded.coordinator.groups import Groups
from broker_embedded.coordinator.log import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    CoordinatorLog,
    CoordinatorTopic,
    offsets_topic,
    transactions_topic,
)
from broker_embedded.coordinator.markers import TransactionMarkers
from broker_embedded.coordinator.pattern_matcher import PatternMatcher
from broker_embedded.coordinator.transactions import Transactions
from broker_embedded.log.checkpoints import new_id
from broker_embedded.log.cleaner.threads import Compaction
from broker_embedded.log.manager import LogManager
from broker_embedded.metadata import topics_file
from broker_embedded.metadata.client_quotas import ClientQuotas, ClientQuotasError
from broker_embedded.metadata.configs_file import ConfigsFileError
from broker_embedded.metadata.dynamic_configs import FILE_NAME as CONFIGS_FILE_NAME
from broker_embedded.metadata.dynamic_configs import ConfigsAtStart, DynamicConfigs
from broker_embedded.metadata.features import features_of, transaction_version
from broker_embedded.metadata.image import ClusterImage, TopicImage
from broker_embedded.metadata.producer_ids import ProducerIds, ProducerIdsError
from broker_embedded.metadata.reconcile import InconsistentTopicError, Reconciled, reconcile, with_epochs
from broker_embedded.metadata.scram_users import ScramUsers, ScramUsersError
from broker_embedded.metadata.topics import FILE_NAME, Topics
from broker_embedded.metadata.topics_file import TopicsFile, TopicsFileError
from broker_embedded.metrics.prometheus import text_of
from broker_embedded.metrics.snapshot import (
    BrokerMetrics,
    FetchSessionMetrics,
    PartitionMetrics,
    api_metrics,
    connection_metrics,
    group_counts,
    partition_metrics,
    topic_metrics,
    transaction_counts,
)
from broker_embedded.metrics.traffic import Traffic
from broker_embedded.platform.finishing import Finishing
from broker_embedded.platform.platform import Platform, read_file, write_file
from broker_embedded.platform.timers import VirtualTimers, timers_for
from broker_embedded.platform.worker_threads import WorkerThreads
from broker_embedded.replica.delayed import DelayedOperations
from broker_embedded.replica.fetch_sessions import FetchSessions, new_session_id
from broker_embedded.replica.partitions import Partitions
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.create_topics import CreatableTopic
from spark_kafka_native.protocol.topic import INTERNAL_TOPICS, TopicPartition

logger = logging.getLogger(__name__)

_UNREADABLE = (InconsistentTopicError, ProducerIdsError, ClientQuotasError, ScramUsersError)
ResultT = TypeVar("ResultT")


class DataDirectoryError(Exception):
    """The data directory cannot be used: in use by another broker, damaged, of another broker; ``str()`` says it."""


class Broker:
    """Everything that requests are about. Belongs to one event loop, which alone touches it once it is open."""

    def __init__(self, configs: ConfigsAtStart, logs: LogManager, platform: Platform, stored: TopicsFile) -> None:
        """Use ``open``."""
        config = configs.config
        self.config = config
        self.logs = logs
        self._platform = platform
        self._elapsed_ms = platform.clock.elapsed_ms
        self.timers = timers_for(platform.clock)
        self.threads = WorkerThreads(self.timers)
        self.on_disk = self.threads.on_disk
        self.delayed = DelayedOperations(self.timers)
        self.finishing = Finishing()
        self.traffic = Traffic()
        self.partitions = Partitions(config.node_id, logs, self.traffic, bounds_min_isr=config.release.bounds_min_isr)
        image = ClusterImage.of(
            cluster_id=logs.meta.cluster_id,
            controller_id=config.node_id,
            broker_ids=(config.node_id,),
            topics=stored.topics,
        )
        self.topics = Topics(
            config=config,
            logs=logs,
            path=os.path.join(logs.data_dir, FILE_NAME),
            file_system=platform.file_system,
            image=image,
            deleting=dict(stored.deleting),
            on_disk=self.on_disk,
            finishing=self.finishing,
            publish=self.partitions.use,
        )
        self.partitions.use(image)
        self.configs = DynamicConfigs(
            configs,
            path=os.path.join(logs.data_dir, CONFIGS_FILE_NAME),
            file_system=platform.file_system,
            on_disk=self.on_disk,
            finishing=self.finishing,
            turn=self.topics.turn,
            check=self.topics.check_config,
            use=self._use_config,
        )
        self.compaction = Compaction(config, logs, platform, self.timers)
        self._producer_ids = ProducerIds(logs.data_dir, platform.file_system, self.on_disk)
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, new_session_id)
        self.quotas = ClientQuotas(
            config=config,
            data_dir=logs.data_dir,
            file_system=platform.file_system,
            on_disk=self.on_disk,
            finishing=self.finishing,
        )
        self.scram_users = ScramUsers(
            config.first_users(),
            data_dir=logs.data_dir,
            file_system=platform.file_system,
            on_disk=self.on_disk,
            finishing=self.finishing,
        )
        self.patterns = PatternMatcher(self.timers)
        self.groups = Groups(
            log=self._coordinator_log(offsets_topic(config)),
            timers=self.timers,
            finishing=self.finishing,
            context=replay_context(
                config,
                lambda group_id: self.config.consumer_config(self.configs.stored.groups.get(group_id, {})),
                ConsumerTopics(lambda: self.image, self.timers.now_ms).view,
            ),
            patterns=self.patterns,
            max_metadata_chars=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        )
        self.markers = TransactionMarkers(
            partitions=self.partitions,
            groups=self.groups,
            delayed=self.delayed,
            timers=self.timers,
            on_disk=self.on_disk,
        )
        self.transactions = Transactions(
            log=self._coordinator_log(transactions_topic(config)),
            markers=self.markers,
            timers=self.timers,
            finishing=self.finishing,
            new_producer_id=self._producer_ids.next,
            config=lambda: self.config,
            level=lambda: transaction_version(self.features),
        )

    @classmethod
    def open(cls, config: BrokerConfig, data_dir: str, platform: Platform) -> "Broker":
        """Lock a data directory, made if need be, recover its logs and read its topics. Blocks.

        Raises DataDirectoryError.
        """
        path = os.path.join(os.path.abspath(data_dir), FILE_NAME)
        try:
            configs = ConfigsAtStart.read(
                config, os.path.join(os.path.abspath(data_dir), CONFIGS_FILE_NAME), platform.file_system
            )
        except (OSError, ConfigsFileError) as error:
            raise DataDirectoryError(_said(error)) from error
        config = configs.config
        logs = LogManager(
            data_dir,
            config.log,
            platform,
            node_id=config.node_id,
            cluster_id=config.cluster_id or None,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
        )
        try:
            stored = _read(path, platform)
            logs.load_all({topic.name: _log_config(topic, config) for topic in stored.topics})
        except (OSError, TopicsFileError, ConfigError, KafkaError) as error:
            raise DataDirectoryError(_said(error)) from error
        try:
            stored = _put_right(path, stored, logs, config, platform)
            broker = cls(configs, logs, platform, stored)
        except (OSError, ConfigError, KafkaError, *_UNREADABLE) as error:
            logs.close()
            raise DataDirectoryError(_said(error)) from error
        broker.groups.load()
        broker.transactions.load()
        return broker

    async def close(self) -> None:
        """Finish what has begun on the disk, and leave the data directory in order. Failures are logged."""
        self.threads.cancel_records("the broker stops")  # appends that do not write yet: their clients have no response
        self.compaction.stop()
        self.delayed.release()
        self.groups.release()
        self.transactions.release()
        self.patterns.stop()
        await self.finishing.settle()
        await self.on_disk(self.compaction.join)
        try:
            await self.on_disk(self.logs.close)
        except KafkaError as error:
            logger.error("%s", _said(error))
        self.threads.stop()

    async def abandon(self) -> None:
        """End as a crash of the process would: nothing is finished or written. Needs a clock that can be moved."""
        assert isinstance(self.timers, VirtualTimers)
        self.timers.stop()
        self.threads.cancel_records("the broker is killed")
        self.compaction.stop()
        self.delayed.release()
        self.patterns.stop()
        self.finishing.abandon()
        loop = asyncio.get_running_loop()
        for wait_for_threads in (
            functools.partial(self.threads.stop, cancel=True),
            self.compaction.join,
        ):
            await loop.run_in_executor(None, wait_for_threads)
        self.logs.abandon()

    @property
    def image(self) -> ClusterImage:
        """The cluster as clients see it."""
        return self.topics.image

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features of the cluster, with the levels that are in force."""
        return features_of(self.config, self.configs.stored)

    def now_ms(self) -> int:
        """The time, as in record timestamps."""
        return self._platform.clock.now_ms()

    def volume(self) -> tuple[int, int]:
        """Bytes of the volume that the data directory is on, and how many are left. Blocks. Raises OSError."""
        return self._platform.file_system.volume(self.logs.data_dir)

    # --- topics ------------------------------------------------------------------------------------------------------

    async def auto_create(self, name: str) -> TopicImage:
        """The topic, made with the broker's defaults if it is not there. Raises KafkaError: it cannot be made."""
        if name == OFFSETS_TOPIC:
            await self.groups.make_ready()
            return self.image.topics[name]
        if name == TRANSACTIONS_TOPIC:
            await self.transactions.make_ready()
            return self.image.topics[name]
        if name in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker has no use for {name}")
        return await self.topics.require(CreatableTopic(name=name, num_partitions=-1, replication_factor=-1))

    async def delete_topic(self, topic: TopicImage) -> None:
        """Delete a topic and all offsets in it; whoever waits for its records goes on. Raises KafkaError."""
        await self.finishing.finish(self._delete_topic(topic))

    async def new_producer_id(self) -> int:
        """A producer id that no producer had before. Raises KafkaError: none can be had now."""
        return await self.finishing.finish(self._producer_ids.next())

    async def _delete_topic(self, topic: TopicImage) -> None:
        await self.topics.delete(topic)
        for index in range(len(topic.partitions)):
            self.delayed.changed(TopicPartition(topic.name, index))
        await self.transactions.forget_topic(topic.name)
        await self.groups.forget_topic(topic.name)

    def _coordinator_log(self, topic: CoordinatorTopic) -> CoordinatorLog:
        return CoordinatorLog(
            topic,
            timers=self.timers,
            topics=self.topics,
            partitions=self.partitions,
            delayed=self.delayed,
            on_disk=self.on_disk,
        )

    async def _use_config(self, config: BrokerConfig) -> None:
        """Go by settings that were made at run time."""
        self.config = config
        self.logs.use_producer_id_expiration(config.producer_id_expiration_ms)
        self.compaction.use_config(config)
        await self.topics.use_config(config)

    # --- metrics -----------------------------------------------------------------------------------------------------

    def metrics(self) -> BrokerMetrics:
        """Everything that was counted since the start, and what there is now."""
        partitions: dict[str, dict[int, PartitionMetrics]] = {name: {} for name in self.image.topics}
        for partition, log in self.logs.logs.items():
            if partition.topic in partitions:
                partitions[partition.topic][partition.partition] = partition_metrics(log)
        return BrokerMetrics(
            apis=api_metrics(self.traffic),
            topics=topic_metrics(self.traffic, partitions),
            connections=connection_metrics(self.traffic),
            fetch_sessions=FetchSessionMetrics(
                sessions=len(self.fetch_sessions),
                partitions=self.fetch_sessions.partitions,
                evictions=self.fetch_sessions.evictions,
            ),
            groups=group_counts((group.group_type, group.state_name) for group in self.groups.all.values()),
            transactions=transaction_counts(known.state.label for known in self.transactions.all.values()),
            waiting=self.delayed.count,
            offline_logs=self.logs.offline_count,
        )

    async def metrics_text(self) -> str:
        """The same for Prometheus."""
        metrics = self.metrics()
        return await self.on_disk(lambda: text_of(metrics))

    # --- by the clock ------------------------------------------------------------------------------------------------

    async def apply_retention(self) -> None:
        """Let go of segments that retention has no use for."""
        await self.on_disk(lambda: self.logs.tick(self.now_ms(), self._elapsed_ms()))

    async def remove_deleted_files(self) -> None:
        """Remove the files of segments and topics whose file.delete.delay.ms has passed."""

        def remove() -> None:
            elapsed_ms = self._elapsed_ms()
            for log in self.logs.logs.values():
                log.remove_retired(elapsed_ms)
            self.logs.remove_deleted(elapsed_ms)

        await self.on_disk(remove)

    async def flush_due_logs(self) -> None:
        """Flush logs whose flush.ms has passed."""
        await self.on_disk(lambda: self.logs.flush_due(self._elapsed_ms()))

    async def checkpoint_recovery_points(self) -> None:
        """Flush complete segments, and write down how far each log is safely on the disk."""

        def flush_and_checkpoint() -> None:
            self.logs.flush_due(self._elapsed_ms())
            self.logs.checkpoint_recovery_points()

        await self.on_disk(flush_and_checkpoint)

    async def checkpoint_log_start_offsets(self) -> None:
        """Write down where each log starts."""
        await self.on_disk(self.logs.checkpoint_log_start_offsets)

    async def checkpoint_high_watermarks(self) -> None:
        """Write down how far each log can be read."""
        await self.on_disk(self.logs.checkpoint_high_watermarks)

    async def expire_producer_ids(self) -> None:
        """Forget idempotent producers that were silent for producer.id.expiration.ms."""

        def expire() -> None:
            for log in self.logs.logs.values():
                log.expire_producers(self.now_ms())

        await self.on_disk(expire)

    async def expire_offsets(self) -> None:
        """Forget offsets that nobody has renewed for offsets.retention.minutes."""
        await self.groups.expire()

    async def abort_timed_out_transactions(self) -> None:
        """Abort transactions that have gone on for longer than their producers said."""
        await self.transactions.abort_timed_out()

    async def expire_transactional_ids(self) -> None:
        """Forget transactional ids that were idle for transactional.id.expiration.ms."""
        await self.transactions.expire_ids()


def _read(path: str, platform: Platform) -> TopicsFile:
    if not platform.file_system.exists(path):
        return TopicsFile(deleting={})
    try:
        return topics_file.decode(read_file(platform.file_system, path))
    except TopicsFileError as error:
        raise TopicsFileError(f"{path}: {error}") from error


def _put_right(path: str, stored: TopicsFile, logs: LogManager, config: BrokerConfig, platform: Platform) -> TopicsFile:
    """Bring directories and topics.json together, and both to the disk. Crash at any time: the next start does it."""
    found = {partition: log.topic_id for partition, log in logs.logs.items()}
    result = reconcile(stored, found, node_id=config.node_id, new_id=new_id)
    _report(result)
    epochs = {partition: log.highest_leader_epoch for partition, log in logs.logs.items()}
    taken_up = set(result.adopted) - {topic.name for topic in stored.topics}
    topics = {
        topic.name: _as_internal(topic, config) if topic.name in taken_up else topic
        for topic in with_epochs(result.topics, epochs)
    }
    logs.delete_all(result.leftovers)
    if stored.deleting or tuple(topics.values()) != stored.topics:
        write_file(platform.file_system, path, topics_file.encode(topics.values(), {}))
    for partition, log in logs.logs.items():
        if partition.topic in taken_up:
            log.reconfigure(_log_config(topics[partition.topic], config))
    for name, missing in result.missing.items():
        logs.create_all(missing, topics[name].topic_id, _log_config(topics[name], config))
    return TopicsFile(topics=tuple(topics.values()), deleting={})


def _as_internal(topic: TopicImage, config: BrokerConfig) -> TopicImage:
    """A topic that was taken up, with what brokers make it with if it is one of their own: retention must spare it."""
    for own in (offsets_topic(config), transactions_topic(config)):
        if topic.name == own.name:
            return dataclasses.replace(topic, configs=own.configs)
    return dataclasses.replace(topic, configs={"cleanup.policy": "compact"}) if topic.is_internal else topic


def _report(result: Reconciled) -> None:
    for partition in result.leftovers:
        logger.info("%s is of a deleted topic and goes now", partition)
    for name in result.adopted:
        logger.warning("topic %s is taken up as its directories stand: topics.json knew less of it", name)
    for missing in result.missing.values():
        logger.warning("made the directories of %s, which were not there", ", ".join(map(str, missing)))


def _log_config(topic: TopicImage, config: BrokerConfig) -> LogConfig:
    try:
        return LogConfig.parse_stored(topic.configs, config.log)
    except ConfigError as error:
        raise ConfigError(f"topic {topic.name}: {error.key}", error.problem) from error


def _said(error: Exception) -> str:
    """An error without the code that clients would get."""
    return error.detail if isinstance(error, KafkaError) and error.detail else str(error)
