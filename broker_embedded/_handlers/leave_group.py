"""LeaveGroup (13) v0-v5: remove members of a classic group before their sessions end.

v0-v2  one member, with one error code
v3     several members, static ones by their instance id (KIP-345), with an error code each
v5     the reason why (KIP-800)
"""

from typing import Final

from broker_embedded._coordinator.groups import Groups
from broker_embedded._groups import decisions
from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

_MEMBERS_SINCE: Final = 3


@handles(LeaveGroupRequest, "0-5")
async def leave_group(request: LeaveGroupRequest, context: RequestContext, groups: Groups) -> LeaveGroupResponse:
    """Remove the members."""
    wanted = request
    if context.version < _MEMBERS_SINCE:
        wanted = LeaveGroupRequest(group_id=request.group_id, members=(MemberIdentity(member_id=request.member_id),))
    try:
        response = await groups.apply(request.group_id, lambda group, now_ms: decisions.leave(group, wanted, now_ms))
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    if context.version < _MEMBERS_SINCE:
        (only,) = response.members
        return LeaveGroupResponse(error_code=only.error_code or ErrorCode.NONE)
    return response
