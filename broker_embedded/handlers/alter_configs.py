"""AlterConfigs (33) v0-v2: replace all settings of topics or brokers that were made at run time.

v1  brokers answer before they throttle
v2  flexible

What is not named goes back to its default. Each resource stands for itself; one that is named twice is not changed.
"""

import functools
from collections.abc import Mapping

from broker_embedded.config.settings import Setting
from broker_embedded.handlers.support.registry import RequestContext, handles
from broker_embedded.metadata.config_changes import repeated, replaced
from broker_embedded.metadata.config_resources import ConfigResources, resource_key
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handles(AlterConfigsRequest, "0-2")
async def alter_configs(
    request: AlterConfigsRequest, _context: RequestContext, config_resources: ConfigResources
) -> AlterConfigsResponse:
    """Replace the settings, or only check that they could be replaced."""
    twice = repeated(resource_key(each.resource_type, each.resource_name) for each in request.resources)
    return AlterConfigsResponse(
        responses=tuple([await _result(resource, twice, request, config_resources) for resource in request.resources])
    )


async def _result(
    resource: AlterConfigsResource,
    twice: set[tuple[int, str | int]],
    request: AlterConfigsRequest,
    config_resources: ConfigResources,
) -> AlterConfigsResourceResponse:
    kind, name = resource.resource_type, resource.resource_name
    code, message = ErrorCode.NONE, None
    try:
        if resource_key(kind, name) in twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        wanted = replaced((config.name, config.value) for config in resource.configs)
        change = functools.partial(_instead, wanted)
        await config_resources.alter(kind, name, change, validate_only=request.validate_only)
    except KafkaError as error:
        code, message = error.code, error.message
    return AlterConfigsResourceResponse(error_code=code, error_message=message, resource_type=kind, resource_name=name)


def _instead(wanted: Mapping[str, str], _now: Mapping[str, str], _known: Mapping[str, Setting]) -> Mapping[str, str]:
    return wanted
