"""DescribeAcls (29): access rules that match a filter.

v1  prefixed resource patterns (KIP-290); brokers answer before they throttle
v2  flexible
v3  user resources (KIP-373)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int8, Int16, Int32, String


@struct
class AclDescription(Struct):
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DescribeAclsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = field("1+", default=3)
    acls: tuple[AclDescription, ...] = ()


@message(api_key=29, versions="0-3", flexible="2+")
class DescribeAclsResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: tuple[DescribeAclsResource, ...] = ()


@message(api_key=29, versions="0-3", flexible="2+")
class DescribeAclsRequest(Request[DescribeAclsResponse]):
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = field("1+", default=3)
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
