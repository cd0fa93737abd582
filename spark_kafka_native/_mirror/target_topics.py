"""The topics of the target cluster: their names, and their creation with the partitions and settings of the source."""

import logging
import threading
from typing import Final

from spark_kafka_native._client.admin.configs import Resource, ResourceType, describe_configs
from spark_kafka_native._client.admin.topics import NewTopic, TopicsError, create_partitions, create_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import ClusterMetadata
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, counted
from spark_kafka_native._protocol.topic import TopicPartition

_log = logging.getLogger(__name__)

_NOT_COPIED: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
"""As in MirrorMaker 2: settings for the brokers of a cluster, and LogAppendTime, which replaces timestamps."""


class TargetTopics:
    """The topics of the target for those of one source. Threads may share it."""

    def __init__(
        self, source: Cluster, target: Cluster, *, prefix: str, creates: bool, replication_factor: int
    ) -> None:
        """``prefix``: of the names at the target. ``creates``: whether topics and partitions are created.

        ``replication_factor``: of new topics; -1: that of the target's brokers.
        """
        self._source = source
        self._target = target
        self._prefix = prefix
        self._creates = creates
        self._replication_factor = replication_factor
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        """The partitions of topics of the target that are known to exist."""

    def renamed(self, partition: TopicPartition) -> TopicPartition:
        """The partition of the target for one of the source."""
        return TopicPartition(self._prefix + partition.topic, partition.partition)

    def prepare(self, partition: TopicPartition) -> TopicPartition:
        """As ``renamed``; the partition exists then. Raises KafkaError."""
        wanted = self.renamed(partition)
        with self._lock:
            if self._counts.get(wanted.topic, 0) <= wanted.partition:
                count = self._make(partition.topic, wanted.topic)
                if count <= wanted.partition:
                    raise MissingAtTarget(wanted, count)
                self._counts[wanted.topic] = count
        return wanted

    def _make(self, source: str, target: str) -> int:
        """The partitions of a topic of the target, once it has as many as that of the source."""
        at_source, at_target = (
            cluster.metadata([topic], missing_ok=True)
            for cluster, topic in ((self._source, source), (self._target, target))
        )
        if at_source.cluster_id is not None and at_source.cluster_id == at_target.cluster_id:
            self._check_copy(source)
        count, existing = _partitions(at_source, source), _partitions(at_target, target)
        if existing >= count or not self._creates:
            return existing
        if existing:
            _log.info("target topic %s gets %s, instead of %d", target, counted(count, "partition"), existing)
            create_partitions(self._target, {target: count})
        else:
            _log.info("target topic %s is created with %s", target, counted(count, "partition"))
            self._create(source, target, count)
        self._target.mark_stale(target)
        return count

    def _check_copy(self, source: str) -> None:
        """Refuse a copy that would be copied again. Raises KafkaError."""
        if not self._prefix or source.startswith(self._prefix):
            detail = (
                f"topic {source}: source and target are the same cluster, so the mirror would copy its own copies; "
                "set a prefix, and leave out the topics that have it"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, detail)

    def _create(self, source: str, target: str, count: int) -> None:
        configs = self._configs_of(source)
        topic = NewTopic(name=target, partitions=count, replication_factor=self._replication_factor, configs=configs)
        try:
            create_topics(self._target, [topic])
        except TopicsError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # by another member of the mirror
                raise

    def _configs_of(self, source: str) -> dict[str, str | None]:
        """What is set for a topic of the source, as far as it can be copied."""
        try:
            entries = describe_configs(self._source, Resource(type=ResourceType.TOPIC, name=source))
        except KafkaError as error:
            if error.retriable:
                raise
            _log.warning(
                "the settings of topic %s cannot be read, so its copy has those of the brokers: %s", source, error
            )
            return {}
        return {
            name: entry.value
            for name, entry in entries.items()
            if entry.is_set_on(ResourceType.TOPIC) and name not in _NOT_COPIED
        }


class MissingAtTarget(KafkaError):
    """A partition of the source does not exist at the target, and the mirror does not create it."""

    _retriable = False
    _shows_code = False

    def __init__(self, partition: TopicPartition, count: int) -> None:
        self.partition = partition
        self.count = count
        has = f"topic {partition.topic} has {counted(count, 'partition')}" if count else "there is no such topic"
        detail = f"{partition} does not exist: {has}; create it, or let the mirror create it"
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)


def _partitions(found: ClusterMetadata, topic: str) -> int:
    """How many partitions a topic has; 0: it does not exist."""
    described = found.topics.get(topic)
    return 0 if described is None or described.error is not ErrorCode.NONE else len(described.partitions)
