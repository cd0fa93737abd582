"""Heartbeat (12): keep a member of a group alive.

v1  throttle time
v2  brokers answer before they throttle
v3  static members (KIP-345)
v4  flexible
"""

from spark_kafka_native._protocol.schema import Request, Response, field, message
from spark_kafka_native._protocol.wire import Int16, Int32, String


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Response):
    """NONE, or what the member must do about its group."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Request[HeartbeatResponse]):
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field("3+", default=None)
