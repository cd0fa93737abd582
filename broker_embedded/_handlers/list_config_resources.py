"""ListConfigResources (74) v0-v1: the resources with settings (KIP-714, KIP-1142).

v0  client metrics subscriptions only; this broker has none
v1  all types, or the requested ones
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.config_changes import ResourceType
from broker_embedded._metadata.config_resources import ConfigResources
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


@handles(ListConfigResourcesRequest, "0-1")
def list_config_resources(
    request: ListConfigResourcesRequest, context: RequestContext, config_resources: ConfigResources
) -> ListConfigResourcesResponse:
    """Type and name of each resource."""
    wanted = set(request.resource_types) if context.version else {ResourceType.CLIENT_METRICS}
    if not wanted <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, name in config_resources.all()
            if not wanted or kind in wanted
        )
    )
