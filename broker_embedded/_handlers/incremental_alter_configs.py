"""IncrementalAlterConfigs (44) v0-v1: change single settings of topics, brokers, loggers and groups (KIP-339).

v1  flexible

The changes of each resource are atomic and independent of other resources. A repeated resource is not changed.
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import alter_each
from broker_embedded._metadata.config_changes import ResourceType, changed, incremental
from broker_embedded._metadata.config_resources import ConfigResources
from spark_kafka_native._protocol.messages.incremental_alter_configs import (
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

    async def alter(resource: AlterConfigsResource) -> None:
        kind, name, validate_only = resource.resource_type, resource.resource_name, request.validate_only
        changes = incremental((config.name, config.config_operation, config.value) for config in resource.configs)
        if kind == ResourceType.BROKER_LOGGER:
            config_resources.alter_loggers(name, changes, validate_only=validate_only)
        else:
            await config_resources.alter(
                kind, name, lambda now, known: changed(now, changes, known), validate_only=validate_only
            )

    return IncrementalAlterConfigsResponse(
        responses=await alter_each(request.resources, AlterConfigsResourceResponse, alter)
    )
