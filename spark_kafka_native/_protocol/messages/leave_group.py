"""LeaveGroup (13): end memberships.

v1  throttle time
v2  brokers answer before they throttle
v3  several members, static ones by their instance id (KIP-345)
v4  flexible
v5  the reason why (KIP-800)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, String


@struct
class MemberResponse(Struct):
    member_id: String = field("3+", default="")
    group_instance_id: String | None = field("3+", default="")
    error_code: Int16 = field("3+", default=0)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Response):
    """One error code, and from v3 on one per member."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    members: tuple[MemberResponse, ...] = field("3+", default=())


@struct
class MemberIdentity(Struct):
    member_id: String = field("3+", default="")
    group_instance_id: String | None = field("3+", default=None)
    reason: String | None = field("5+", default=None, ignorable=True)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Request[LeaveGroupResponse]):
    """Leave a group: ``member_id`` up to v2, ``members`` from v3 on."""

    group_id: String = ""
    member_id: String = field("0-2", default="")
    members: tuple[MemberIdentity, ...] = field("3+", default=())
