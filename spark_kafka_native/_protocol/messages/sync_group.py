"""SyncGroup (14): hand out the leader's assignments.

v1  throttle time
v2  brokers answer before they throttle
v3  static members (KIP-345)
v4  flexible
v5  protocol type and name are checked and answered (KIP-559)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Bytes, Int16, Int32, String


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Response):
    """The member's assignment."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: String | None = field("5+", default=None, ignorable=True)
    protocol_name: String | None = field("5+", default=None, ignorable=True)
    assignment: Bytes = b""


@struct
class SyncGroupRequestAssignment(Struct):
    member_id: String = ""
    assignment: Bytes = b""


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Request[SyncGroupResponse]):
    """Ask for one's assignment; the leader brings those of all members."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field("3+", default=None)
    protocol_type: String | None = field("5+", default=None, ignorable=True)
    protocol_name: String | None = field("5+", default=None, ignorable=True)
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()
