"""AlterConfigs (33): replace all settings of topics or brokers.

v1  brokers answer before they throttle
v2  flexible

Settings that the request does not name go back to their defaults; IncrementalAlterConfigs changes single ones.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Bool, Int8, Int16, Int32, String


@struct
class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Response):
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


@struct
class AlterableConfig(Struct):
    name: String = ""
    value: String | None = ""


@struct
class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[AlterableConfig, ...] = ()


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(Request[AlterConfigsResponse]):
    """Replace settings, or with ``validate_only`` check that they could be."""

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: Bool = False
