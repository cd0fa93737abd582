"""Heartbeat (12) v0-v4: a member of a classic group is alive.

v3  static members (KIP-345)
"""

from broker_embedded.coordinator.groups import Groups
from broker_embedded.groups.classic.group import ClassicGroup
from broker_embedded.groups.classic.leave import heartbeat as decide_heartbeat
from broker_embedded.groups.consumer.group import ConsumerGroup
from broker_embedded.groups.group import Group
from broker_embedded.groups.outcome import Outcome
from broker_embedded.handlers.support.registry import RequestContext, handles
from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(HeartbeatRequest, "0-4")
async def heartbeat(request: HeartbeatRequest, _context: RequestContext, groups: Groups) -> HeartbeatResponse:
    """Prolong a session; tell whether the member has to join anew."""

    def decide(group: Group | None, now_ms: int) -> Outcome[HeartbeatResponse]:
        if isinstance(group, ConsumerGroup):
            return group.heartbeat(request, now_ms)
        assert group is None or isinstance(group, ClassicGroup)  # there is no third kind
        return decide_heartbeat(group, request)

    try:
        return await groups.apply(request.group_id, decide)
    except KafkaError as error:
        return HeartbeatResponse(error_code=error.code)
