"""CreateAcls (30): add access rules.

v1  prefixed resource patterns (KIP-290); brokers answer before they throttle
v2  flexible
v3  user resources (KIP-373)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int8, Int16, Int32, String


@struct
class AclCreationResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: tuple[AclCreationResult, ...] = ()


@struct
class AclCreation(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = field("1+", default=3)
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsRequest(Request[CreateAclsResponse]):
    creations: tuple[AclCreation, ...] = ()
