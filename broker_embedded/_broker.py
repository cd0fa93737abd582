"""One broker: its data directory, metadata, coordinators and periodic tasks, without sockets."""

import asyncio
import dataclasses
import functools
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.settings import SettingError
from broker_embedded._coordinator.group_context import ConsumerTopics, replay_context
from broker_embedded._coordinator.groups import Groups
from broker_embedded._coordinator.log import CoordinatorLog, CoordinatorTopic, offsets_topic, transactions_topic
from broker_embedded._coordinator.markers import TransactionMarkers
from broker_embedded._coordinator.pattern_matcher import PatternMatcher
from broker_embedded._coordinator.topic_lifecycle import TopicLifecycle
from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._coordinator.zookeeper_offsets import OffsetsInZooKeeper
from broker_embedded._log.checkpoints import CorruptCheckpoint
from broker_embedded._log.cleaner.threads import CleanerThreads
from broker_embedded._log.data_directory import DataDirectory
from broker_embedded._log.manager import LogManager
from broker_embedded._metadata.client_quotas import ClientQuotas
from broker_embedded._metadata.config_resources import ConfigResources
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from broker_embedded._metadata.features import transaction_version
from broker_embedded._metadata.files.metadata_file import MetadataFileError
from broker_embedded._metadata.files.topics import TOPICS
from broker_embedded._metadata.image import ClusterImage, log_config
from broker_embedded._metadata.producer_ids import ProducerIdManager
from broker_embedded._metadata.reconcile import InconsistentTopicError
from broker_embedded._metadata.scram_users import ScramUsers
from broker_embedded._metadata.store import MetadataStore
from broker_embedded._metadata.topics import Topics
from broker_embedded._metrics.prometheus import text_of
from broker_embedded._metrics.snapshot import (
    BrokerMetrics,
    ConnectionMetrics,
    FetchSessionMetrics,
    PartitionMetrics,
    api_metrics,
    topic_metrics,
)
from broker_embedded._metrics.traffic import Traffic
from broker_embedded._platform.periodic import PeriodicTask
from broker_embedded._platform.platform import FileSystem, Platform
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from broker_embedded._platform.timers import Timers, VirtualTimers, timers_for
from broker_embedded._platform.worker_threads import WorkerThreads
from broker_embedded._replica.delayed import DelayedOperations
from broker_embedded._replica.fetch_sessions import FetchSessions, new_session_id
from broker_embedded._replica.partitions import Partitions, partition_metrics
from broker_embedded._replica.replicas import Replicas, reconcile_logs
from spark_kafka_native._protocol.errors import KafkaError

logger = logging.getLogger(__name__)


class DataDirectoryError(Exception):
    """The data directory cannot be used: another broker uses it, it is damaged or belongs to another broker."""


def lock_existing(data_dir: str, platform: Platform) -> DataDirectory:
    """A data directory for ``Broker.open``, locked if it exists. Otherwise no other broker uses it: it is not created.

    Raises DataDirectoryError: it is in use, or cannot be a data directory.
    """
    directory = DataDirectory(os.path.abspath(data_dir), platform.file_system)
    try:
        if platform.file_system.exists(directory.path):
            directory.lock()
    except OSError as error:
        raise DataDirectoryError(directory.text_of(error)) from error
    return directory


def own_cluster_id(config: BrokerConfig, directory: DataDirectory) -> str | None:
    """The id in ``cluster.id`` or in the data directory, None if there is none.

    Raises DataDirectoryError: the two contradict each other, or ``meta.properties`` cannot be read.
    """
    try:
        return directory.cluster_id(config.cluster_id or None)
    except (OSError, CorruptCheckpoint) as error:
        raise DataDirectoryError(directory.text_of(error)) from error


class Broker:
    """The components of a broker. Belongs to one event loop once it is open."""

    def __init__(self, started_with: BrokerConfig, logs: LogManager, platform: Platform) -> None:
        """Use ``open``. The data directory of ``logs`` is locked."""
        self.logs = logs
        self._file_system = platform.file_system
        self.timers = timers_for(platform.clock)
        self.threads = WorkerThreads(self.timers)
        self.delayed = DelayedOperations(self.timers)
        self.shielded_tasks = ShieldedTasks()
        self.traffic = Traffic()
        store = MetadataStore(logs.data_dir, platform.file_system, self.threads.on_disk, self.shielded_tasks)
        self._store = store
        self.configs = DynamicConfigs(store, started_with, self._use_config)
        config = self.config
        self._load_topics(config)
        self.partitions = Partitions(config.node_id, logs, self.traffic, bounds_min_isr=config.release.bounds_min_isr)
        self.partitions.use(self.image)
        store.watch(TOPICS, self._use_topics)
        self._replicas = Replicas(store, logs, self.threads.on_disk, lambda: self.config.log)
        self.topics = Topics(store, lambda: self.config)
        self.config_resources = ConfigResources(self.topics, self.configs, logs.data_dir)
        self.compaction = CleanerThreads(config, logs, platform, self.timers)
        self.producer_ids = ProducerIdManager(store, self.shielded_tasks)
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, new_session_id)
        self.quotas = ClientQuotas(store, config, self.threads.on_disk)
        self.scram_users = ScramUsers(store, config.first_users())
        self.patterns = PatternMatcher(self.timers)
        self.groups = Groups(
            log=self._coordinator_log(offsets_topic(config)),
            timers=self.timers,
            shielded_tasks=self.shielded_tasks,
            context=replay_context(
                config,
                lambda group_id: self.config.consumer_config(self.configs.stored.groups.get(group_id, {})),
                ConsumerTopics(lambda: self.image, self.timers.now_ms).view,
            ),
            patterns=self.patterns,
            max_metadata_chars=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        )
        self.zookeeper_offsets = OffsetsInZooKeeper()
        self.markers = TransactionMarkers(
            partitions=self.partitions,
            groups=self.groups,
            delayed=self.delayed,
            timers=self.timers,
            on_disk=self.threads.on_disk,
        )
        self.transactions = Transactions(
            log=self._coordinator_log(transactions_topic(config)),
            markers=self.markers,
            timers=self.timers,
            shielded_tasks=self.shielded_tasks,
            new_producer_id=self.producer_ids.next,
            config=lambda: self.config,
            level=lambda: transaction_version(self.configs.features),
        )
        self.topic_lifecycle = TopicLifecycle(
            topics=self.topics,
            groups=self.groups,
            transactions=self.transactions,
            delayed=self.delayed,
            shielded_tasks=self.shielded_tasks,
        )

    @classmethod
    def open(
        cls,
        config: BrokerConfig,
        data_dir: str | DataDirectory,
        platform: Platform,
        *,
        cluster_id: str | None = None,
    ) -> "Broker":
        """Lock a data directory, created if necessary, recover its logs and read its topics. Blocks.

        ``data_dir`` may be locked already; an error unlocks it. ``cluster_id`` is that of ZooKeeper, if the broker is
        registered there. Raises DataDirectoryError.
        """
        logs = LogManager(
            data_dir,
            config.log,
            platform,
            node_id=config.node_id,
            cluster_id=cluster_id or config.cluster_id or None,
            meta_version=0 if cluster_id else 1,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
        )
        try:
            logs.lock()
            broker = cls(config, logs, platform)
        except (OSError, SettingError, KafkaError, MetadataFileError, InconsistentTopicError) as error:
            logs.close()
            raise DataDirectoryError(_text_of(error)) from error
        broker.groups.load()
        broker.transactions.load()
        return broker

    async def close(self) -> None:
        """Complete the work on the disk, and close the data directory cleanly. Errors are logged."""
        self.threads.cancel_records("the broker stops")  # appends that do not write yet: their clients get no response
        self.compaction.stop()
        self.delayed.release()
        self.groups.release()
        self.transactions.release()
        self.patterns.stop()
        await self.shielded_tasks.wait()
        await self.threads.on_disk(self.compaction.join)
        try:
            await self.threads.on_disk(self.logs.close)
        except KafkaError as error:
            logger.error("%s", _text_of(error))
        self.threads.stop()

    async def abandon(self) -> None:
        """Stop as a crash of the process would, without writing anything. Requires a clock that can be advanced."""
        assert isinstance(self.timers, VirtualTimers)
        self.timers.stop()
        self.threads.cancel_records("the broker is killed")
        self.compaction.stop()
        self.delayed.release()
        self.patterns.stop()
        self.shielded_tasks.cancel()
        loop = asyncio.get_running_loop()
        for wait_for_threads in (
            functools.partial(self.threads.stop, cancel=True),
            self.compaction.join,
        ):
            await loop.run_in_executor(None, wait_for_threads)
        self.logs.abandon()

    @property
    def config(self) -> BrokerConfig:
        """The present configuration."""
        return self.configs.config

    @property
    def image(self) -> ClusterImage:
        """The present topics and brokers."""
        return self._store.current.image

    def components(self) -> Mapping[type, object]:
        """The components of handlers, by the type of their parameters."""
        return {
            ClientQuotas: self.quotas,
            ConfigResources: self.config_resources,
            DelayedOperations: self.delayed,
            DynamicConfigs: self.configs,
            FetchSessions: self.fetch_sessions,
            FileSystem: self._file_system,
            ShieldedTasks: self.shielded_tasks,
            Groups: self.groups,
            LogManager: self.logs,
            Partitions: self.partitions,
            PatternMatcher: self.patterns,
            ProducerIdManager: self.producer_ids,
            ScramUsers: self.scram_users,
            Timers: self.timers,
            TopicLifecycle: self.topic_lifecycle,
            Topics: self.topics,
            TransactionMarkers: self.markers,
            Transactions: self.transactions,
            WorkerThreads: self.threads,
            OffsetsInZooKeeper: self.zookeeper_offsets,
        }

    def _coordinator_log(self, topic: CoordinatorTopic) -> CoordinatorLog:
        return CoordinatorLog(
            topic,
            timers=self.timers,
            topics=self.topics,
            partitions=self.partitions,
            delayed=self.delayed,
            on_disk=self.threads.on_disk,
        )

    def _load_topics(self, config: BrokerConfig) -> None:
        """Open the logs of the stored topics, and reconcile topics and logs."""
        store, logs = self._store, self.logs
        image = dataclasses.replace(
            store.current.image,
            cluster_id=logs.meta.cluster_id,
            controller_id=config.node_id,
            broker_ids=(config.node_id,),
        )
        store.set_current(TOPICS, image)
        logs.defaults = config.log
        logs.use_producer_id_expiration(config.producer_id_expiration_ms)
        logs.load_all({topic.name: log_config(topic, config.log) for topic in image.topics.values()})
        internal = {topic.name: topic.configs for topic in (offsets_topic(config), transactions_topic(config))}
        reconcile_logs(store, logs, config.log, internal)

    def on_topics_changed(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` after each change of topics."""

        async def watch(_: ClusterImage, __: ClusterImage) -> None:
            changed()

        self._store.watch(TOPICS, watch)

    async def _use_topics(self, _: ClusterImage, after: ClusterImage) -> None:
        self.partitions.use(after)

    async def _use_config(self, config: BrokerConfig) -> None:
        self.logs.use_producer_id_expiration(config.producer_id_expiration_ms)
        self.compaction.use_config(config)
        await self._replicas.reconfigure_all()

    # --- metrics -----------------------------------------------------------------------------------------------------

    def metrics(self) -> BrokerMetrics:
        """The metrics: counters since the start, and present values."""
        partitions: dict[str, dict[int, PartitionMetrics]] = {name: {} for name in self.image.topics}
        for partition, log in self.logs.logs.items():
            if partition.topic in partitions:
                partitions[partition.topic][partition.partition] = partition_metrics(log)
        groups = Counter((group.group_type, group.state_name) for group in self.groups.all.values())
        transactions = Counter(known.state.label for known in self.transactions.all.values())
        return BrokerMetrics(
            apis=api_metrics(self.traffic),
            topics=topic_metrics(self.traffic, partitions),
            connections=ConnectionMetrics(
                open=self.traffic.connections,
                opened=self.traffic.connections_opened,
                refused=dict(self.traffic.connections_refused),
            ),
            fetch_sessions=FetchSessionMetrics(
                sessions=len(self.fetch_sessions),
                partitions=self.fetch_sessions.partitions,
                evictions=self.fetch_sessions.evictions,
            ),
            groups=dict(sorted(groups.items())),
            transactions=dict(sorted(transactions.items())),
            waiting=self.delayed.count,
            offline_logs=self.logs.offline_count,
        )

    async def metrics_text(self) -> str:
        """The metrics in Prometheus' text format."""
        metrics = self.metrics()
        return await self.threads.on_disk(lambda: text_of(metrics))

    def periodic_tasks(self) -> list[PeriodicTask]:
        """All periodic tasks."""
        return [
            *self.logs.periodic_tasks(self.config, self.threads.on_disk),
            *self.compaction.periodic_tasks(lambda: self.config.log_cleaner_backoff_ms),
            *self.groups.periodic_tasks(self.config),
            *self.transactions.periodic_tasks(self.config),
        ]


def _text_of(error: Exception) -> str:
    """An error without the code that clients would get."""
    return error.detail if isinstance(error, KafkaError) and error.detail else str(error)
