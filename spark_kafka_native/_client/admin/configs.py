"""Configs of topics and brokers: DescribeConfigs and IncrementalAlterConfigs (KIP-339).

A request about a broker's configs goes to that broker, one about a topic's configs to any broker.
"""

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.retry import retry
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, check_code
from spark_kafka_native._protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from spark_kafka_native._protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ResourceType(enum.IntEnum):
    """Types of resources that have configs, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigSource(enum.IntEnum):
    """Sources of a config's value, with Kafka's numbers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8

    @classmethod
    def of(cls, number: int) -> "ConfigSource":
        """The source with a number; UNKNOWN for those that are not known here."""
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


_OF_THEIR_OWN: Final = {
    ResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ResourceType.BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
    ResourceType.GROUP: ConfigSource.GROUP_CONFIG,
}
_SET: Final = 0
_DELETE: Final = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A topic or broker with configs. The broker with an empty name stands for the default of all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '<default>'}"

    @property
    def node_id(self) -> int | None:
        """The broker that gets the request; None: any."""
        return int(self.name) if self.type is ResourceType.BROKER and self.name else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting. ``value`` is None where there is none or it is secret; synonyms go from the first in force on."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[tuple[ConfigSource, str, str | None], ...] = ()

    def is_set_on(self, kind: ResourceType) -> bool:
        """Whether the value was set on the resource itself."""
        return self.source is _OF_THEIR_OWN[kind]


def describe_configs(
    cluster: Cluster, resource: Resource, names: Iterable[str] | None = None
) -> dict[str, ConfigEntry]:
    """The settings of a resource by name: ``names``, or all of them.

    Raises KafkaError naming the resource; BrokerNotAvailable: the broker is not in the cluster now.
    """
    keys = None if names is None else tuple(names)
    requested = DescribeConfigsResource(
        resource_type=resource.type, resource_name=resource.name, configuration_keys=keys
    )
    deadline = cluster.deadline()
    _check_broker(cluster, resource, deadline)
    response = cluster.send(
        resource.node_id, DescribeConfigsRequest(resources=(requested,), include_synonyms=True), deadline=deadline
    )
    if not response.results:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{resource} is missing from the DescribeConfigs response")
    (result,) = response.results
    check_code(result.error_code, str(resource), result.error_message, operation="DESCRIBE_CONFIGS")
    return _entries(result)


def _entries(result: DescribeConfigsResult) -> dict[str, ConfigEntry]:
    return {
        item.name: ConfigEntry(
            name=item.name,
            value=item.value,
            source=ConfigSource.of(item.config_source),
            read_only=item.read_only,
            sensitive=item.is_sensitive,
            synonyms=tuple((ConfigSource.of(other.source), other.name, other.value) for other in item.synonyms),
        )
        for item in result.configs
    }


def alter_configs(
    cluster: Cluster,
    resource: Resource,
    changes: Mapping[str, str | None],
    *,
    validate_only: bool = False,
    timeout_ms: float | None = None,
) -> None:
    """Change configs; None deletes one. Raises KafkaError, as ``describe_configs``; then none was changed."""
    altered = tuple(
        AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        for name, value in changes.items()
    )
    requested = AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=altered)
    request = IncrementalAlterConfigsRequest(resources=(requested,), validate_only=validate_only)
    deadline = cluster.deadline(timeout_ms)
    _check_broker(cluster, resource, deadline)

    def attempt() -> IncrementalAlterConfigsResponse:
        response = cluster.send(resource.node_id, request, deadline=deadline)
        for result in response.responses:
            # A topic that is not there does not come by waiting.
            if result.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                check_code(result.error_code, str(resource), result.error_message, operation="ALTER_CONFIGS")
        return response

    for result in retry(attempt, deadline, cluster.backoff()).responses:
        check_code(result.error_code, str(resource), result.error_message, operation="ALTER_CONFIGS")


def _check_broker(cluster: Cluster, resource: Resource, deadline: Deadline) -> None:
    """Raise BrokerNotAvailable at once instead of waiting for a broker that may not exist."""
    if resource.node_id is not None:
        cluster.node(resource.node_id, deadline)
