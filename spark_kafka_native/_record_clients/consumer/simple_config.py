"""Properties of the simple consumer, and their older names."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Self

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.discovery_config import DiscoveryConfig
from spark_kafka_native._record_clients.properties import ClientProperties

OLD_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "fetch.message.max.bytes": "max.partition.fetch.bytes",
        "fetch.size": "max.partition.fetch.bytes",
        "fetch.wait.max.ms": "fetch.max.wait.ms",
        "socket.buffersize": "receive.buffer.bytes",
        "socket.receive.buffer.bytes": "receive.buffer.bytes",
        "socket.timeout.ms": "request.timeout.ms",
    }
)
"""Names of the Scala consumers of Kafka 0.7 to 0.10, with today's; ``DiscoveryConfig`` has those of brokers."""

_NO_MEMBER: Final = "SimpleConsumer is no member of a group; pass the group to commit_offsets and committed_offsets"

_OF_GROUPS: Final = (
    "auto.commit.enable",
    "autocommit.enable",
    "autocommit.interval.ms",
    "autooffset.reset",
    "consumer.id",
    "consumer.timeout.ms",
    "consumerid",
    "rebalance.backoff.ms",
    "rebalance.max.retries",
    "rebalance.retries.max",
)

_SIMPLE: Final = ClientProperties(
    client="simple consumer",
    own={},
    old_names=OLD_NAMES,
    refused={
        "client.rack": "SimpleConsumer reads from the leaders, or from the replicas on the broker broker_id",
        "group.id": _NO_MEMBER,
        "groupid": _NO_MEMBER,
        **dict.fromkeys(_OF_GROUPS, "it is for members of groups, and SimpleConsumer is none"),
    },
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SimpleConsumerConfig:
    """The properties of one simple consumer."""

    client: ClientConfig
    discovery: DiscoveryConfig

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> Self:
        """Options by Kafka name (any case) -> a checked configuration.

        Raises ConfigError naming the option; TypeError: ``options`` is no mapping.
        """
        with _SIMPLE.naming(options):
            _, others = _SIMPLE.parse(options)
            discovery, client = DiscoveryConfig.parse(others)
        return cls(client=client, discovery=discovery)
