"""AlterConfigs (33) v0-v2: replace all dynamic settings of topics or brokers.

v1  the response is sent before throttling
v2  flexible

Other settings are reset to their defaults. Each resource is changed independently. A repeated resource is not changed.
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import alter_each
from broker_embedded._metadata.config_changes import unsupported
from broker_embedded._metadata.config_resources import ConfigResources
from spark_kafka_native._protocol.messages.alter_configs import (
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

    async def alter(resource: AlterConfigsResource) -> None:
        wanted = unsupported((config.name, config.value) for config in resource.configs)
        kind, name = resource.resource_type, resource.resource_name
        await config_resources.alter(kind, name, lambda _now, _known: wanted, validate_only=request.validate_only)

    return AlterConfigsResponse(responses=await alter_each(request.resources, AlterConfigsResourceResponse, alter))
