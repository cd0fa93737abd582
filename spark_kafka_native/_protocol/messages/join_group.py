"""JoinGroup (11): become, or stay, a member of a consumer group.

v1  rebalance timeout
v2  throttle time
v3  brokers answer before they throttle
v4  a new member is given its id first, with MEMBER_ID_REQUIRED (KIP-394)
v5  static members (KIP-345)
v6  flexible
v7  protocol type and nullable protocol name in the response (KIP-559)
v8  the reason why a member joins (KIP-800)
v9  the coordinator may have the leader skip the assignment (KIP-814)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Bool, Bytes, Int16, Int32, String


@struct
class JoinGroupResponseMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = field("5+", default=None, ignorable=True)
    metadata: Bytes = b""


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Response):
    """The generation and, for the leader, all members with their metadata."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = field("7+", default=None, ignorable=True)
    protocol_name: String | None = field("0+", default="", nullable="7+")
    leader: String = ""
    skip_assignment: Bool = field("9+", default=False)
    member_id: String = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


@struct
class JoinGroupRequestProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Request[JoinGroupResponse]):
    """Join a group; the response comes when the rebalance has all members or its time is up."""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = field("1+", default=-1, ignorable=True)
    member_id: String = ""
    group_instance_id: String | None = field("5+", default=None)
    protocol_type: String = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: String | None = field("8+", default=None, ignorable=True)
