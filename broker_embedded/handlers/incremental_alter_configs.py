"""IncrementalAlterConfigs (44) v0-v1: change single settings of topics, brokers, loggers and groups (KIP-339).

v1  flexible

Each resource stands for itself, and all its changes are made or none; one that is named twice is not changed.
"""

import functools
from collections.abc import Mapping

from broker_embedded.config.settings import Setting
from broker_embedded.handlers.support.registry import RequestContext, handles
from broker_embedded.metadata.config_changes import ConfigChange, ResourceType, changed, incremental, repeated
from broker_embedded.metadata.config_resources import ConfigResources, resource_key
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(IncrementalAlterConfigsRequest, "0-1")
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, _context: RequestContext, config_resources: ConfigResources
) -> IncrementalAlterConfigsResponse:
    """Change the settings, or only check that they could be changed."""
    twice = repeated(resource_key(each.resource_type, each.resource_name) for each in request.resources)
    return IncrementalAlterConfigsResponse(
        responses=tuple([await _result(resource, twice, request, config_resources) for resource in request.resources])
    )


async def _result(
    resource: AlterConfigsResource,
    twice: set[tuple[int, str | int]],
    request: IncrementalAlterConfigsRequest,
    config_resources: ConfigResources,
) -> AlterConfigsResourceResponse:
    kind, name = resource.resource_type, resource.resource_name
    code, message = ErrorCode.NONE, None
    try:
        if resource_key(kind, name) in twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        changes = incremental((config.name, config.config_operation, config.value) for config in resource.configs)
        if kind == ResourceType.BROKER_LOGGER:
            config_resources.alter_loggers(name, changes, validate_only=request.validate_only)
        else:
            change = functools.partial(_changed, changes)
            await config_resources.alter(kind, name, change, validate_only=request.validate_only)
    except KafkaError as error:
        code, message = error.code, error.message
    return AlterConfigsResourceResponse(error_code=code, error_message=message, resource_type=kind, resource_name=name)


def _changed(
    changes: tuple[ConfigChange, ...], now: Mapping[str, str], known: Mapping[str, Setting]
) -> Mapping[str, str]:
    return changed(now, changes, known)
