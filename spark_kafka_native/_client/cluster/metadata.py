"""Brokers, topics, partitions and leaders of a cluster, as plain values that may be pickled.

A topic may have ten thousand partitions, so each is a named tuple, which takes a third of a dataclass's time to make.
"""

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Self
from uuid import UUID

from spark_kafka_native._client.errors import NoSuchPartition
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import UnknownHost
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID

_log = logging.getLogger(__name__)

NO_LEADER = -1
NO_EPOCH = -1


class Node(NamedTuple):
    """One broker and where it listens."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> HostPort:
        """Where to connect."""
        return HostPort(self.host, self.port)

    def unreachable(self, reason: str) -> str:
        """The reason why no connection could be made to this address, which a broker's response had."""
        setting = f"{reason}; broker {self.node_id} has it in advertised.listeners"
        if isinstance(reason, UnknownHost):
            return f"{setting}, where clients need names that they can resolve"
        return type(reason)(setting)


class PartitionMetadata(NamedTuple):
    """One partition: its leader's node id (-1: none now) and epoch (-1: the broker is older than KIP-320)."""

    partition: int
    leader_id: int
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic. ``topic_id`` is all zeroes where brokers have none; ``partitions`` is by number, ascending."""

    name: str
    topic_id: UUID = ZERO_UUID
    internal: bool = False
    partitions: Mapping[int, PartitionMetadata] = dataclasses.field(default_factory=dict)
    error: ErrorCode = ErrorCode.NONE


class PartitionLeader(NamedTuple):
    """Where to read and write one partition; a worker that has it needs no Metadata request."""

    node: Node
    leader_epoch: int = NO_EPOCH
    topic_id: UUID = ZERO_UUID


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """Brokers by node id and topics by name, as one broker knew them."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Node] = dataclasses.field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, response: MetadataResponse) -> Self:
        """The values in a Metadata response."""
        brokers = [
            Node(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in response.brokers
        ]
        return cls(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers={node.node_id: node for node in brokers},
            topics={topic.name: _topic(topic.name, topic) for topic in response.topics if topic.name is not None},
        )

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionLeader]:
        """The leaders of ``partitions``, without those that are unknown, or whose leader or its address is."""
        found: dict[TopicPartition, PartitionLeader] = {}
        made: dict[tuple[str, int, int], PartitionLeader] = {}  # one for all that have the same leader and epoch
        for partition in partitions:
            topic = self.topics.get(partition.topic)
            known = None if topic is None else topic.partitions.get(partition.partition)
            if topic is None or known is None or known.leader_id not in self.brokers:
                continue
            key = partition.topic, known.leader_id, known.leader_epoch
            leader = made.get(key)
            if leader is None:
                node = self.brokers[known.leader_id]
                leader = made[key] = PartitionLeader(node, known.leader_epoch, topic.topic_id)
            found[partition] = leader
        return found

    def error_of(self, topic: str, *, create: bool = False) -> KafkaError | None:
        """The error of a topic in a response, also if it is not there. ``create``: the response may have created it."""
        found = self.topics.get(topic)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error
        operation = "DESCRIBE (or CREATE, if it does not exist)" if create else "DESCRIBE"
        return None if code is ErrorCode.NONE else KafkaError(code, f"topic {topic}", operation=operation)

    def no_leader(self, partition: TopicPartition) -> KafkaError:
        """The error of a partition that has no leader, or does not exist."""
        topic = self.topics.get(partition.topic)
        if topic is not None and topic.partitions and partition.partition not in topic.partitions:
            return NoSuchPartition(partition, len(topic.partitions))
        return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")

    def merged_with(self, newer: "ClusterMetadata") -> "ClusterMetadata":
        """These topics with ``newer`` ones over them, and the newer brokers.

        A partition whose leader epoch would go back keeps what is known: the response came from a broker that lags
        (KIP-320). A topic that was deleted and made again has another id, and takes over as it is.
        """
        topics = dict(self.topics)
        for name, topic in newer.topics.items():
            topics[name] = _without_regress(topics.get(name), topic)
        return dataclasses.replace(newer, topics=topics)


MetadataListener = Callable[[ClusterMetadata], object]


class MetadataListeners:
    """The listeners of one cluster, called in the thread that has received a response. They must not block."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._listeners: list[MetadataListener] = []
        self._reported = ClusterMetadata()
        self._is_reporting = False

    def add(self, listener: MetadataListener) -> None:
        """Call ``listener`` with all brokers and topics in memory after each change. Its errors are logged."""
        self._listeners.append(listener)

    def report(self, current: Callable[[], ClusterMetadata]) -> None:
        """Call the listeners if the metadata has changed. It is read here, so that no thread reports an older one."""
        if not self._listeners:
            return
        with self._lock:
            if self._is_reporting:
                return  # a listener has caused a request: the loop below sees the change
            self._is_reporting = True
            try:
                while (metadata := current()) != self._reported:
                    self._reported = metadata
                    self._call(metadata)
            finally:
                self._is_reporting = False

    def _call(self, metadata: ClusterMetadata) -> None:
        for listener in self._listeners:
            try:
                listener(metadata)
            except Exception:  # of the user's function
                _log.exception("a metadata listener failed")

    def reset_after_fork(self) -> None:
        """Another thread may have held the lock."""
        self._lock = threading.RLock()
        self._is_reporting = False


def _topic(name: str, topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = [
        PartitionMetadata(  # without keywords, which take time for 100,000 partitions
            part.partition_index,
            part.leader_id,
            part.leader_epoch,
            part.replica_nodes,
            part.isr_nodes,
            part.offline_replicas,
            ErrorCode.of(part.error_code),
        )
        for part in topic.partitions
    ]
    return TopicMetadata(
        name=name,
        topic_id=topic.topic_id,
        internal=topic.is_internal,
        partitions={part.partition: part for part in sorted(partitions)},
        error=ErrorCode.of(topic.error_code),
    )


def _without_regress(known: TopicMetadata | None, newer: TopicMetadata) -> TopicMetadata:
    if known is None or known is newer or newer.topic_id == ZERO_UUID or known.topic_id != newer.topic_id:
        return newer
    partitions = {
        number: _later(known.partitions.get(number), partition) for number, partition in newer.partitions.items()
    }
    return dataclasses.replace(newer, partitions=partitions)


def _later(known: PartitionMetadata | None, newer: PartitionMetadata) -> PartitionMetadata:
    return known if known is not None and known.leader_epoch > newer.leader_epoch else newer
