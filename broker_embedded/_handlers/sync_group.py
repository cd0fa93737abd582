"""SyncGroup (14) v0-v5: a member's assignment in a classic group; the leader sends the assignments of all members.

v3  static members (KIP-345)
v5  protocol type and name are required and checked (KIP-559)

The response is sent when the leader has sent the assignments.
"""

from typing import Final

from broker_embedded._coordinator.groups import Groups
from broker_embedded._groups import decisions
from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_SINCE: Final = 5


@handles(SyncGroupRequest, "0-5")
async def sync_group(request: SyncGroupRequest, context: RequestContext, groups: Groups) -> SyncGroupResponse:
    """Store the leader's assignments, or wait for them; the member's assignment."""
    if context.version >= _PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    request_id = groups.new_request_id()
    try:
        return await groups.apply(
            request.group_id, lambda group, now_ms: decisions.sync(group, request, request_id, now_ms)
        )
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
