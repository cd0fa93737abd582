"""Brokers found in ZooKeeper, and what the cached metadata of a cluster becomes when brokers and topics change there.

It is imported only with ZooKeeper, because each module makes the start of Spark's processes longer.
"""

import dataclasses
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from spark_kafka_native._client.cluster.metadata import ClusterMetadata, TopicMetadata
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.errors import NoBrokersFound
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._zookeeper.broker_znode import RegisteredBroker
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.errors import ZooKeeperError
from spark_kafka_native._zookeeper.registry import (
    Assignment,
    BrokerAdded,
    BrokerLost,
    Change,
    TopicAdded,
    TopicChanged,
    TopicDeleted,
)

EXPECTED_FOR_S: Final = 30.0
"""How long brokers may need to apply what is in ZooKeeper. Later, their metadata counts, as without ZooKeeper."""
_MAX_EXPECTED: Final = 10_000
"""Most topics whose metadata is awaited; of more, those that changed last."""


class Discovery(Protocol):
    """Finds brokers, as `BrokerDiscovery` does. Its methods raise ZooKeeperError."""

    @property
    def connect(self) -> ConnectString:
        """The ZooKeeper servers."""

    def open(self) -> object:
        """Connect, unless that is done."""

    def addresses(self, security_protocol: str) -> tuple[HostPort, ...]:
        """The brokers' addresses now."""

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call ``listener`` with each change, in another thread."""

    def watch_topic(self, name: str) -> None:
        """Report changes of a topic's partitions, too."""


class Effect(NamedTuple):
    """The metadata after a change, the topics whose metadata must be requested again, and the broker that is lost."""

    metadata: ClusterMetadata
    stale: frozenset[str] = frozenset()
    lost: RegisteredBroker | None = None


class DiscoveredBrokers:
    """A discovery, as a `Cluster` uses it. ``note`` and ``is_awaited`` are called under the lock of the cluster."""

    def __init__(self, discovery: Discovery, config: ClientConfig) -> None:
        self.discovery = discovery
        self._config = config
        self._expected = ExpectedTopics()

    def __str__(self) -> str:
        """The option with the ZooKeeper servers, and its value."""
        return f"{self._config.servers_option} ({self.discovery.connect})"

    def open(self) -> None:
        """Connect, unless that is done. Raises NoBrokersFound."""
        try:
            self.discovery.open()
        except ZooKeeperError as error:
            raise NoBrokersFound(f"{self._config.servers_option}: {error}") from error

    def addresses(self) -> tuple[HostPort, ...]:
        """The brokers' addresses now. Raises NoBrokersFound."""
        try:
            return self.discovery.addresses(self._config.security_protocol)
        except ZooKeeperError as error:
            raise NoBrokersFound(f"{self._config.servers_option}: {error}") from error

    def watch(self, topics: Iterable[str]) -> None:
        """Report changes of the topics' partitions, too."""
        with suppress(ZooKeeperError):  # the metadata of topics is requested again when it is too old
            for topic in topics:
                self.discovery.watch_topic(topic)

    def note(self, change: Change, metadata: ClusterMetadata) -> Effect:
        """What a change means for the cached metadata; a changed topic is awaited from now on."""
        self._expected.note(change, time.monotonic())
        return effect_of(change, metadata)

    def is_awaited(self, topic: TopicMetadata, now: float) -> bool:
        """Whether a response has the topic as it was before a change in ZooKeeper."""
        return self._expected.is_awaited(topic, now)


def effect_of(change: Change, metadata: ClusterMetadata) -> Effect:
    """What a change means for the cached metadata."""
    match change:
        case BrokerLost(broker=lost):
            brokers = {number: node for number, node in metadata.brokers.items() if number != lost.broker_id}
            led = (name for name, topic in metadata.topics.items() if _is_led_by(topic, lost.broker_id))
            return Effect(dataclasses.replace(metadata, brokers=brokers), frozenset(led), lost)
        case BrokerAdded(broker=added):
            concerned = (name for name, topic in metadata.topics.items() if _may_use(topic, added.broker_id, metadata))
            return Effect(metadata, frozenset(concerned))
        case TopicAdded(topic=name):
            return Effect(metadata, frozenset({name}))
        case TopicChanged(topic=name, assignment=assignment):
            known = metadata.topics.get(name)
            return Effect(metadata, frozenset() if known and _agrees(known, assignment) else frozenset({name}))
        case TopicDeleted(topic=name):
            topics = {other: topic for other, topic in metadata.topics.items() if other != name}
            return Effect(dataclasses.replace(metadata, topics=topics), frozenset({name}))


class ExpectedTopics:
    """Partitions and replicas of topics in ZooKeeper that no broker's metadata has had yet. Not thread-safe.

    Brokers learn of a change after ZooKeeper has it. So their first response may be that of before.
    """

    def __init__(self) -> None:
        self._expected: OrderedDict[str, tuple[Assignment, float]] = OrderedDict()

    def note(self, change: Change, now: float) -> None:
        """Expect what a change says, until ``now`` + `EXPECTED_FOR_S`."""
        match change:
            case TopicChanged(topic=name, assignment=assignment) if assignment:
                self._expected[name] = assignment, now + EXPECTED_FOR_S
                self._expected.move_to_end(name)
                if len(self._expected) > _MAX_EXPECTED:
                    self._expected.popitem(last=False)
            case TopicDeleted(topic=name):
                self._expected.pop(name, None)
            case _:
                pass

    def is_awaited(self, topic: TopicMetadata, now: float) -> bool:
        """Whether a response has the topic as it was before the change, and another one is to be expected."""
        assignment, until = self._expected.get(topic.name, ({}, 0.0))
        if now < until and not _agrees(topic, assignment):
            return True
        self._expected.pop(topic.name, None)
        return False


def _is_led_by(topic: TopicMetadata, broker_id: int) -> bool:
    return any(partition.leader_id == broker_id for partition in topic.partitions.values())


def _may_use(topic: TopicMetadata, broker_id: int, metadata: ClusterMetadata) -> bool:
    """Whether a new broker has a replica of the topic, or may lead a partition that has no leader."""
    return any(
        broker_id in partition.replicas or partition.leader_id not in metadata.brokers
        for partition in topic.partitions.values()
    )


def _agrees(topic: TopicMetadata, assignment: Assignment) -> bool:
    """Whether metadata has the partitions and replicas of ZooKeeper."""
    found = {number: frozenset(partition.replicas) for number, partition in topic.partitions.items()}
    return found == {number: frozenset(replicas) for number, replicas in assignment.items()}
