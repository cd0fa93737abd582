"""ListConfigResources (74): resources that have settings (KIP-714, KIP-1142).

v0  client metrics only; flexible from the first
v1  all types
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int8, Int16, Int32, String


@struct
class ConfigResource(Struct):
    resource_name: String = ""
    resource_type: Int8 = field("1+", default=16, ignorable=True)


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Response):
    """Name and type of each resource."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: tuple[ConfigResource, ...] = ()


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Request[ListConfigResourcesResponse]):
    """Without types the response has all."""

    resource_types: tuple[Int8, ...] = field("1+", default=())
