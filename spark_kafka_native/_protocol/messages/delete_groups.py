"""DeleteGroups (42): remove groups without members, and their offsets.

v1  brokers answer before they throttle
v2  flexible
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, String


@struct
class DeletableGroupResult(Struct):
    group_id: String = ""
    error_code: Int16 = 0


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    groups_names: tuple[String, ...] = ()
