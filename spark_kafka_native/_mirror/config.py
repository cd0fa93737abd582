"""The configuration of a mirror: properties of consumers and of a producer, and what is copied."""

import dataclasses
from collections.abc import Mapping
from typing import Final, Self

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.groups.topic_filters import TopicFilter
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._record_clients.consumer.group_config import CLASSIC, ConsumerConfig

_DEFAULTS: Final = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
"""Of the consumers of a mirror: it copies whole topics, without what was aborted."""
_OWN: Final = frozenset({"enable.auto.commit", "auto.commit.enable", "autocommit.enable"})
"""Without effect: the mirror commits the offsets of records that the target has."""
_ALL: Final = -1
"""Of ``acks``."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """One source cluster, and the group in whose name it is read."""

    consumer: ConsumerConfig
    prefix: str
    """Of the names of its topics at the target."""

    @classmethod
    def parse(cls, properties: Mapping[str, object], *, prefix: str = "", exactly_once: bool = False) -> Self:
        """Properties of a consumer -> a checked configuration. Raises ConfigError naming the property."""
        kept = {name: value for name, value in properties.items() if name.strip().lower() not in _OWN}
        names = {name.strip().lower() for name in kept}
        consumer = ConsumerConfig.parse({**{n: v for n, v in _DEFAULTS.items() if n not in names}, **kept})
        if exactly_once and consumer.group_protocol != CLASSIC:
            text = f"must be {CLASSIC} for exactly-once delivery, because the group is at the target"
            raise ConfigError("group.protocol", text)
        return cls(consumer=consumer, prefix=prefix)

    @property
    def group_id(self) -> str:
        """The group."""
        return self.consumer.group_id


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConfig:
    """What a mirror copies, and how."""

    sources: tuple[SourceConfig, ...]
    target: ClientConfig
    topics: TopicFilter
    streams: int = 1
    """Threads of each source."""
    exactly_once: bool = False
    creates_topics: bool = True
    aborts_on_send_failure: bool = True
    """Whether the mirror ends if the target cannot be written to, instead of trying again without end."""
    replication_factor: int = -1
    """Of topics that are created; -1: the default of the target's brokers."""

    def __post_init__(self) -> None:
        """Raise ConfigError: records could be lost; two sources cannot be distinguished."""
        if self.target.acks != _ALL:
            raise ConfigError("acks", "must be all, because records could be lost otherwise")
        groups = [source.group_id for source in self.sources]
        if self.exactly_once and len(set(groups)) < len(groups):
            raise ConfigError("group.id", "must be another one for each source, because the groups are at the target")
