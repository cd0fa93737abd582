"""Heartbeat (12) v0-v4: keep a member of a classic group alive.

v3  static members (KIP-345)
"""

from broker_embedded._coordinator.groups import Groups
from broker_embedded._groups import decisions
from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(HeartbeatRequest, "0-4")
async def heartbeat(request: HeartbeatRequest, _context: RequestContext, groups: Groups) -> HeartbeatResponse:
    """Renew the member's session. REBALANCE_IN_PROGRESS: it must rejoin."""
    try:
        return await groups.apply(request.group_id, lambda group, now_ms: decisions.heartbeat(group, request, now_ms))
    except KafkaError as error:
        return HeartbeatResponse(error_code=error.code)
