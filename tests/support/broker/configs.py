"""Settings read and changed as admin clients do it, in few words."""

from typing import Any

from spark_kafka_native._protocol.messages import alter_configs as replacing
from spark_kafka_native._protocol.messages import incremental_alter_configs as changing
from spark_kafka_native._protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.support.broker.driver import BrokerDriver

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def described(broker: BrokerDriver, kind: int, name: str, *keys: str, version: int = 4) -> DescribeConfigsResult:
    """A resource's settings, those of ``keys`` or all, with synonyms and documentation where the version has them."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    request = DescribeConfigsRequest(
        resources=(resource,), include_synonyms=version >= 1, include_documentation=version >= 3
    )
    (result,) = broker.ask(request, version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def configs_of(broker: BrokerDriver, kind: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
    """A resource's settings by key."""
    result = described(broker, kind, name)
    assert result.error_code == 0, result
    return {config.name: config for config in result.configs}


def value_of(broker: BrokerDriver, kind: int, name: str, key: str) -> str | None:
    """One setting of a resource."""
    return configs_of(broker, kind, name)[key].value


def synonyms_of(broker: BrokerDriver, kind: int, name: str, key: str) -> list[tuple[str, str | None, int]]:
    """What a setting stands before: name, value and source of each."""
    return [(item.name, item.value, item.source) for item in configs_of(broker, kind, name)[key].synonyms]


def change_request(
    kind: int, name: str, *operations: tuple[str, int, str | None], times: int = 1, **others: Any
) -> changing.IncrementalAlterConfigsRequest:
    """To change settings of one resource, which the request names so many times."""
    configs = tuple(
        changing.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in operations
    )
    resource = changing.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return changing.IncrementalAlterConfigsRequest(resources=(resource,) * times, **others)


def replace_request(
    kind: int, name: str, *pairs: tuple[str, str | None], **others: Any
) -> replacing.AlterConfigsRequest:
    """To replace all settings of one resource."""
    configs = tuple(replacing.AlterableConfig(name=key, value=value) for key, value in pairs)
    resource = replacing.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return replacing.AlterConfigsRequest(resources=(resource,), **others)


def change(
    broker: BrokerDriver, kind: int, name: str, *operations: tuple[str, int, str | None], **others: Any
) -> changing.AlterConfigsResourceResponse:
    """Change settings of one resource: key, operation and value of each."""
    version = others.pop("version", 1)
    (result,) = broker.ask(change_request(kind, name, *operations, **others), version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def put(broker: BrokerDriver, kind: int, name: str, **pairs: str) -> None:
    """Set settings of one resource; ``retention_ms="1"`` is ``retention.ms=1``."""
    result = change(broker, kind, name, *((key.replace("_", "."), SET, value) for key, value in pairs.items()))
    assert result.error_code == 0, result


def replace(
    broker: BrokerDriver, kind: int, name: str, *pairs: tuple[str, str | None], **others: Any
) -> replacing.AlterConfigsResourceResponse:
    """Replace all settings of one resource: key and value of each."""
    version = others.pop("version", 2)
    (result,) = broker.ask(replace_request(kind, name, *pairs, **others), version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def own(broker: BrokerDriver, topic: str = "t") -> dict[str, str]:
    """The settings that were made for a topic."""
    return dict(broker.broker.image.topics[topic].configs)
