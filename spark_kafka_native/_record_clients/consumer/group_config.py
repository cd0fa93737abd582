"""Properties of the consumer of a group, and their older names."""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.config_def import (
    Property,
    ValueType,
    boolean,
    choice,
    define,
    integer,
    properties_of,
    text,
)
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST
from spark_kafka_native._client.discovery_config import DiscoveryConfig
from spark_kafka_native._client.groups.assignors import ASSIGNORS, COOPERATIVE_STICKY, RANGE, ROUND_ROBIN, STICKY
from spark_kafka_native._client.groups.membership import MembershipConfig, ZooKeeperMembershipConfig
from spark_kafka_native._client.groups.zookeeper.thread_assignors import THREAD_ASSIGNORS
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._record_clients.consumer.simple_config import OLD_NAMES as OLD_CONSUMER_NAMES
from spark_kafka_native._record_clients.deserializers import Deserializer, default_decoder, deserializer
from spark_kafka_native._record_clients.properties import ClientProperties

_JAVA: Final = "org.apache.kafka.clients.consumer."
_ASSIGNOR_CLASSES: Final = {
    f"{_JAVA}RangeAssignor": RANGE,
    f"{_JAVA}RoundRobinAssignor": ROUND_ROBIN,
    f"{_JAVA}StickyAssignor": STICKY,
    f"{_JAVA}CooperativeStickyAssignor": COOPERATIVE_STICKY,
}
NO_RESET: Final = None
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
ZOOKEEPER: Final = "zookeeper"
"""Of ``group.protocol``, and of ``offsets.storage``."""
KAFKA: Final = "kafka"
_NAME_IN_ZOOKEEPER: Final = re.compile(r"[a-zA-Z0-9._-]+")
"""As Kafka's Scala consumers require."""


def _assignors() -> ValueType:
    known = ", ".join(ASSIGNORS)

    def parse(value: object) -> tuple[str, ...]:
        if not isinstance(value, str):
            raise TypeError(f"must be str, names separated by commas, not {type(value).__name__}")
        given = [part.strip() for part in value.split(",") if part.strip()]
        names = tuple(dict.fromkeys(_ASSIGNOR_CLASSES.get(name, name.lower()) for name in given))
        unknown = [name for name, found in zip(given, names, strict=False) if found not in ASSIGNORS]
        if unknown or not names:
            raise ValueError(f"{value!r} is not a list of {known}")
        return names

    return ValueType(f"a list of {known}, or of Kafka's classes", parse)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """The properties of one consumer of a group."""

    client: ClientConfig
    discovery: DiscoveryConfig
    group_id: str = define(text(may_be_empty=False), dataclasses.MISSING, "Name of the group; required.")
    group_protocol: str = define(
        choice((CLASSIC, CONSUMER, ZOOKEEPER)),
        CLASSIC,
        "classic: members assign partitions; consumer: the coordinator does (KIP-848; Kafka 4.0 or later); zookeeper: "
        "members claim partitions in ZooKeeper, the default with zookeeper.connect.",
    )
    group_remote_assignor: str | None = define(
        text(may_be_empty=False), None, "Assignor of the coordinator with group.protocol=consumer, as uniform or range."
    )
    group_instance_id: str | None = define(
        text(may_be_empty=False),
        None,
        "Name of a static member, which keeps its partitions while it restarts (KIP-345).",
    )
    partition_assignment_strategy: tuple[str, ...] = define(
        _assignors(),
        (RANGE, COOPERATIVE_STICKY),
        "Assignors in order of preference; the group uses the first one that all members have.",
    )
    consumer_id: str | None = define(
        text(may_be_empty=False), None, "End of the member's name in ZooKeeper. Default: host, time and random digits."
    )
    offsets_storage: str = define(
        choice((KAFKA, ZOOKEEPER)),
        KAFKA,
        "Where offsets are committed; zookeeper is the default of groups in ZooKeeper, and for them alone.",
    )
    dual_commit_enabled: bool = define(
        boolean(), True, "With offsets.storage=kafka groups in ZooKeeper commit offsets in ZooKeeper, too."
    )
    rebalance_max_retries: int = define(
        integer(at_least=1), 4, "Attempts of the first rebalance in ZooKeeper, before RebalanceFailed."
    )
    rebalance_backoff_ms: int = define(
        integer(at_least=1),
        2_000,
        "Pause between two attempts of a rebalance in ZooKeeper. A rebalance waits as long for the record in process.",
    )
    zookeeper_sync_time_ms: int | None = define(
        integer(at_least=1), None, "Default of rebalance.backoff.ms, as in Kafka 0.8."
    )
    session_timeout_ms: int = define(
        integer(at_least=1), 45_000, "Time without a heartbeat after which the group removes the member."
    )
    heartbeat_interval_ms: int = define(integer(at_least=1), 3_000, "Time between heartbeats.")
    max_poll_interval_ms: int = define(
        integer(at_least=1),
        300_000,
        "Longest time for the processing of a record. A rebalance waits as long for the record in process.",
    )
    enable_auto_commit: bool = define(boolean(), True, "Commit the offsets of processed records from time to time.")
    auto_commit_interval_ms: int = define(integer(), 5_000, "Time between such commits.")
    auto_offset_reset: int | None = define(
        choice({"latest": LATEST, "earliest": EARLIEST, "none": NO_RESET}),
        LATEST,
        "Where to begin in partitions without a committed offset, or whose offset has no records; none: an error.",
    )
    exclude_internal_topics: bool = define(boolean(), True, "Filters of topics leave out the topics of brokers.")
    consumer_timeout_ms: int = define(
        integer(at_least=-1), -1, "Longest wait of a stream for a record, before ConsumerTimeout; -1: no limit."
    )
    key_deserializer: Deserializer = define(deserializer(), default_decoder, "Makes the objects of keys.")
    value_deserializer: Deserializer = define(deserializer(), default_decoder, "Makes the objects of values.")

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> Self:
        """Options by Kafka name (any case) -> a checked configuration.

        Raises ConfigError naming the option; TypeError: ``options`` is no mapping.
        """
        with _NAMES.naming(options):
            values, others = _NAMES.parse(options)
            if "group_id" not in values:
                raise ConfigError("group.id", "is required")
            discovery, client = DiscoveryConfig.parse(others)
            config = cls(client=client, discovery=discovery, **_with_defaults(values, discovery))
        if config.heartbeat_interval_ms >= config.session_timeout_ms:
            raise ConfigError(
                "heartbeat.interval.ms",
                f"{config.heartbeat_interval_ms} must be less than session.timeout.ms ({config.session_timeout_ms})",
            )
        return config

    @property
    def zookeeper_membership(self) -> ZooKeeperMembershipConfig:
        """The settings of the member of a group in ZooKeeper."""
        assert self.discovery.zookeeper_connect is not None, "checked by parse"
        session_timeout_ms = self.discovery.zookeeper_session_timeout_ms
        return ZooKeeperMembershipConfig(
            connect=self.discovery.zookeeper_connect,
            group_id=self.group_id,
            consumer_id=self.consumer_id,
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=self.discovery.zookeeper_connection_timeout_ms or session_timeout_ms,
            assignor=self.partition_assignment_strategy[0],
            rebalance_max_retries=self.rebalance_max_retries,
            rebalance_backoff_ms=self.rebalance_backoff_ms,
            exclude_internal_topics=self.exclude_internal_topics,
        )

    @property
    def membership(self) -> MembershipConfig:
        """The settings of the member."""
        return MembershipConfig(
            group_id=self.group_id,
            instance_id=self.group_instance_id,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            rebalance_timeout_ms=self.max_poll_interval_ms,
            request_timeout_ms=self.client.request_timeout_ms,
            assignors=self.partition_assignment_strategy,
            remote_assignor=self.group_remote_assignor,
            rack=self.client.client_rack or None,
        )


def _with_defaults(values: Mapping[str, Any], discovery: DiscoveryConfig) -> dict[str, Any]:
    """The values with the defaults that depend on others. Raises ConfigError: properties exclude each other."""
    in_zookeeper = discovery.zookeeper_connect is not None
    protocol = values.get("group_protocol", ZOOKEEPER if in_zookeeper else CLASSIC)
    if protocol != ZOOKEEPER:
        _refuse(values, _OF_ZOOKEEPER, f"is for group.protocol={ZOOKEEPER}")
        others = _OF_THE_CONSUMER_PROTOCOL if protocol == CLASSIC else _OF_CLASSIC_GROUPS
        _refuse(values, others, f"is not for group.protocol={protocol}")
        return dict(values)
    _refuse(values, _OF_COORDINATORS, f"is not for group.protocol={ZOOKEEPER}")
    if not in_zookeeper:
        raise ConfigError("group.protocol", f"{ZOOKEEPER} requires zookeeper.connect")
    for name in ("group.id", "consumer.id"):
        given = values.get(name.replace(".", "_"))
        if given is not None and not _NAME_IN_ZOOKEEPER.fullmatch(given):
            raise ConfigError(name, f"{given!r:.100} has other characters than letters, digits and . _ -")
    if values["group_id"] in {".", ".."}:
        raise ConfigError("group.id", f"a znode cannot have the name {values['group_id']!r}")
    assignors = values.get("partition_assignment_strategy", (RANGE,))
    if len(assignors) != 1 or assignors[0] not in THREAD_ASSIGNORS:
        names = " or ".join(THREAD_ASSIGNORS)
        raise ConfigError("partition.assignment.strategy", f"must be {names} with group.protocol={ZOOKEEPER}")
    storage = values.get("offsets_storage", ZOOKEEPER)
    if storage == ZOOKEEPER and values.get("dual_commit_enabled"):  # the last step of a migration back has both
        _NAMES.warn_of("dual.commit.enabled", f"offsets.storage={ZOOKEEPER}")
    own = {"group_protocol": protocol, "partition_assignment_strategy": assignors, "offsets_storage": storage}
    if (sync_time_ms := values.get("zookeeper_sync_time_ms")) is not None:
        own["rebalance_backoff_ms"] = values.get("rebalance_backoff_ms", sync_time_ms)
    return {**values, **own}


def _refuse(values: Mapping[str, Any], names: Iterable[str], reason: str) -> None:
    for name in names:
        if name.replace(".", "_") in values:
            raise ConfigError(name, reason)


_OF_ZOOKEEPER: Final = (
    "consumer.id",
    "dual.commit.enabled",
    "offsets.storage",
    "rebalance.backoff.ms",
    "rebalance.max.retries",
    "zookeeper.sync.time.ms",
)
_OF_CLASSIC_GROUPS: Final = ("heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms")
"""The coordinator decides about these in groups of the consumer protocol. Kafka's consumer refuses them, too."""
_OF_THE_CONSUMER_PROTOCOL: Final = ("group.remote.assignor",)
_OF_COORDINATORS: Final = (
    "group.instance.id",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "session.timeout.ms",
)

PROPERTIES: Final[Mapping[str, Property]] = MappingProxyType(dict(properties_of(ConsumerConfig)))
"""The properties above by name."""

OLD_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **OLD_CONSUMER_NAMES,
        "auto.commit.enable": "enable.auto.commit",
        "autocommit.enable": "enable.auto.commit",
        "autocommit.interval.ms": "auto.commit.interval.ms",
        "autooffset.reset": "auto.offset.reset",
        "consumerid": "consumer.id",
        "groupid": "group.id",
        "rebalance.retries.max": "rebalance.max.retries",
        "zk.synctime.ms": "zookeeper.sync.time.ms",
    }
)
"""Names of the Scala consumers of Kafka 0.7 to 0.10, with today's."""

OLD_NOTES: Final[Mapping[str, str]] = MappingProxyType(
    {"autooffset.reset": "; smallest and largest are earliest and latest, in both names"}
)
"""What else an old name means, for the documentation."""

_ONE_THREAD: Final = "the thread of each stream fetches its partitions"
WITHOUT_EFFECT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "backoff.increment.ms": "reconnect.backoff.ms and retry.backoff.ms apply",
        "fetcher.backoff.ms": "a broker waits for records for fetch.max.wait.ms",
        "max.poll.records": "a stream returns one record at a time",
        "num.consumer.fetchers": _ONE_THREAD,
        "offsets.channel.backoff.ms": "retry.backoff.ms applies",
        "offsets.channel.socket.timeout.ms": "request.timeout.ms applies",
        "offsets.commit.max.retries": "commits are repeated until default.api.timeout.ms",
        "queued.max.message.chunks": _ONE_THREAD,
        "queuedchunks.max": _ONE_THREAD,
        "refresh.leader.backoff.ms": "retry.backoff.ms applies",
    }
)
"""Properties of Kafka's consumers that are ignored, and why."""

_NAMES: Final = ClientProperties(
    without_effect=WITHOUT_EFFECT,
    client="consumer",
    required=frozenset({"group.id"}),
    own=PROPERTIES,
    old_names=OLD_NAMES,
    old_values={
        **{(name, "smallest"): "earliest" for name in ("auto.offset.reset", "autooffset.reset")},
        **{(name, "largest"): "latest" for name in ("auto.offset.reset", "autooffset.reset")},
    },
)
