"""The brokers and topics that clients find in ZooKeeper, and what changed between two readings. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Self, TypeAlias

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._zookeeper.broker_znode import BROKER_IDS, RegisteredBroker
from spark_kafka_native._zookeeper.errors import ZooKeeperError
from spark_kafka_native._zookeeper.json_data import InvalidZnode, decode_json

if TYPE_CHECKING:
    from spark_kafka_native._zookeeper.znode_client import ReadZnode

BROKER_TOPICS: Final = "/brokers/topics"
Assignment: TypeAlias = Mapping[int, tuple[int, ...]]
"""The brokers of each partition's replicas."""
_UNKNOWN: Final[Assignment] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A registered broker. ``epoch`` is the czxid of its znode, which is Kafka's broker epoch."""

    epoch: int
    broker: RegisteredBroker


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicZnode:
    """The znode of a topic. ``created`` is its czxid: a topic that was deleted and created again has another one."""

    created: int
    data: bytes

    @property
    def assignment(self) -> Assignment:
        """The replicas of the partitions; empty if the data has none of the formats of Kafka 0.8 to 3.9."""
        try:
            partitions = decode_json(self.data)["partitions"]
            return {int(index): tuple(map(int, brokers)) for index, brokers in partitions.items()}
        except (InvalidZnode, KeyError, ValueError, TypeError, AttributeError, OverflowError):
            return _UNKNOWN


def topic_paths(topics: Iterable[str]) -> Iterator[str]:
    """The paths of the znodes of topics."""
    return (f"{BROKER_TOPICS}/{topic}" for topic in topics)


def topic_znodes(znodes: "Mapping[str, ReadZnode]") -> dict[str, TopicZnode]:
    """By topic, from znodes by path."""
    prefix = f"{BROKER_TOPICS}/"
    return {
        path.removeprefix(prefix): TopicZnode(created=each.created, data=each.data) for path, each in znodes.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """One reading: brokers by id, the names of all topics, and the znodes of the watched topics that exist."""

    brokers: Mapping[int, Registration] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    watched: Mapping[str, TopicZnode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAdded:
    """A broker registered itself."""

    broker: RegisteredBroker


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLost:
    """A broker's registration ended. After a restart, or with another address, `BrokerAdded` follows."""

    broker: RegisteredBroker


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAdded:
    """A topic was created."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChanged:
    """The replicas of a watched topic's partitions were read for the first time, or have changed.

    ``assignment`` is empty if the znode is not valid.
    """

    topic: str
    assignment: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    """A topic was deleted. If it exists again, `TopicAdded` follows."""

    topic: str


Change: TypeAlias = BrokerAdded | BrokerLost | TopicAdded | TopicChanged | TopicDeleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What of a `Registry` may have changed and must be read."""

    ALL: ClassVar[Self]
    brokers: bool = False
    topics: bool = False
    """The names of the topics."""
    every_topic: bool = False
    """The znodes of all watched topics."""
    names: frozenset[str] = frozenset()
    """The watched topics whose znodes must be read."""

    def with_brokers(self) -> Self:
        """Also the brokers."""
        return replace(self, brokers=True)

    def with_topic(self, name: str) -> Self:
        """Also the znode of a topic."""
        return replace(self, names=self.names | {name})

    def with_path(self, path: str) -> Self:
        """Also what a watch of this path reports; everything for an empty path."""
        if not path:
            return replace(self, brokers=True, topics=True, every_topic=True, names=frozenset())
        if path == BROKER_TOPICS:
            return replace(self, topics=True)
        topic = path.removeprefix(f"{BROKER_TOPICS}/")
        return self.with_brokers() if topic == path else self.with_topic(topic)


Scope.ALL = Scope().with_path("")


def changes_between(before: Registry, after: Registry) -> list[Change]:
    """What changed, in this order: lost brokers, new brokers, topics by name."""
    return [*_broker_changes(before, after), *_topic_changes(before, after)]


def _broker_changes(before: Registry, after: Registry) -> Iterator[Change]:
    old, new = before.brokers, after.brokers
    for broker_id in sorted(old):
        if new.get(broker_id) != old[broker_id]:
            yield BrokerLost(broker=old[broker_id].broker)
    for broker_id in sorted(new):
        if old.get(broker_id) != new[broker_id]:
            yield BrokerAdded(broker=new[broker_id].broker)


def _topic_changes(before: Registry, after: Registry) -> Iterator[Change]:
    for topic in sorted(before.topics | after.topics | after.watched.keys()):
        old, new = before.watched.get(topic), after.watched.get(topic)
        was_recreated = old is not None and new is not None and old.created != new.created
        if topic in before.topics and (topic not in after.topics or was_recreated):
            yield TopicDeleted(topic=topic)
        if topic in after.topics and (topic not in before.topics or was_recreated):
            yield TopicAdded(topic=topic)
        if new is not None and (old is None or was_recreated or old.data != new.data):
            yield TopicChanged(topic=topic, assignment=new.assignment)


def addresses_of(brokers: Iterable[RegisteredBroker], security_protocol: str, connect: object) -> tuple[HostPort, ...]:
    """The brokers' addresses with a security protocol: one for each broker that has it, in the order of their ids.

    Raises ZooKeeperError naming the znode and the protocols that are registered in ZooKeeper ``connect``.
    """
    ordered = sorted(brokers, key=lambda broker: broker.broker_id)
    found = []
    for broker in ordered:
        address = next((end.address for end in broker.endpoints if end.protocol == security_protocol), None)
        if address is not None:
            found.append(address)
    if found:
        return tuple(dict.fromkeys(found))
    if not ordered:
        none = f"ZooKeeper {connect}: no broker is registered below {BROKER_IDS}"
        raise ZooKeeperError(f"{none}; start a broker there, or correct the chroot of zookeeper.connect")
    protocols = ", ".join(sorted({end.protocol for broker in ordered for end in broker.endpoints})) or "none"
    raise ZooKeeperError(
        f"ZooKeeper {connect}: no broker below {BROKER_IDS} has an endpoint for security.protocol={security_protocol}; "
        f"the protocols of their endpoints are: {protocols}"
    )
