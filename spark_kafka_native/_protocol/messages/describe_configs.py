"""DescribeConfigs (32): settings of topics, brokers and groups.

v1  sources and synonyms
v2  brokers answer before they throttle
v3  types and documentation (KIP-569)
v4  flexible

Resource types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group. Null ``configuration_keys`` asks for
all settings.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Bool, Int8, Int16, Int32, String


@struct
class DescribeConfigsSynonym(Struct):
    name: String = field("1+", default="")
    value: String | None = field("1+", default="")
    source: Int8 = field("1+", default=0)


@struct
class DescribeConfigsResourceResult(Struct):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    is_default: Bool = field("0", default=False)
    config_source: Int8 = field("1+", default=-1, ignorable=True)
    is_sensitive: Bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = field("1+", default=(), ignorable=True)
    config_type: Int8 = field("3+", default=0, ignorable=True)
    documentation: String | None = field("3+", default="", ignorable=True)


@struct
class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()


@struct
class DescribeConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: tuple[String, ...] | None = ()


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: Bool = field("1+", default=False)
    include_documentation: Bool = field("3+", default=False)
