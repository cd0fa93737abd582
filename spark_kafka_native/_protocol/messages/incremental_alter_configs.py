"""IncrementalAlterConfigs (44): change single settings (KIP-339).

v1  flexible

Operations: 0 set, 1 delete, 2 append to a list, 3 subtract from a list.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Bool, Int8, Int16, Int32, String


@struct
class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Response):
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


@struct
class AlterableConfig(Struct):
    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


@struct
class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[AlterableConfig, ...] = ()


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """Change settings, or with ``validate_only`` check that they could be."""

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: Bool = False
