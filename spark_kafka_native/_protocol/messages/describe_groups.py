"""DescribeGroups (15): state and members of classic groups.

v1  throttle time
v2  brokers answer before they throttle
v3  authorized operations (KIP-430)
v4  static members (KIP-345)
v5  flexible
v6  error messages, and GROUP_ID_NOT_FOUND instead of a group in state Dead (KIP-1043)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Bool, Bytes, Int16, Int32, String


@struct
class DescribedGroupMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = field("4+", default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@struct
class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = field("6+", default=None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Int32 = field("3+", default=-2147483648)


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Response):
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    groups: tuple[DescribedGroup, ...] = ()


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    groups: tuple[String, ...] = ()
    include_authorized_operations: Bool = field("3+", default=False)
