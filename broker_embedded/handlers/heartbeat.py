"""Heartbeat (12) v0-v4: a member of a classic group is alive.

v3  static members (KIP-345)
"""

from broker_embedded.coordinator.groups import Groups
from broker_embedded.groups import decisions
from broker_embedded.handlers.support.registry import RequestContext, handles
from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(HeartbeatRequest, "0-4")
async def heartbeat(request: HeartbeatRequest, _context: RequestContext, groups: Groups) -> HeartbeatResponse:
    """Prolong a session; tell whether the member has to join anew."""
    try:
        return await groups.apply(request.group_id, lambda group, now_ms: decisions.heartbeat(group, request, now_ms))
    except KafkaError as error:
        return HeartbeatResponse(error_code=error.code)
