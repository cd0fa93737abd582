"""Heartbeat and LeaveGroup in a classic group."""

from typing import Final

from broker_embedded.groups.classic.draft import Draft
from broker_embedded.groups.classic.group import ClassicGroup
from broker_embedded.groups.classic.member import require_member, static_member
from broker_embedded.groups.classic.rebalance import complete_join_if_all_joined, rebalance
from broker_embedded.groups.classic.state import ClassicState, session_timer
from broker_embedded.groups.outcome import Outcome, SetTimer
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from spark_kafka_native.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_UNKNOWN: Final = ""


def heartbeat(group: ClassicGroup | None, request: HeartbeatRequest) -> Outcome[HeartbeatResponse]:
    """Prolong a member's session. Raises KafkaError."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {request.group_id!r}")
    member = group.require_member(request.member_id, request.group_instance_id)
    group.require_generation(request.generation_id)
    joins_anew = group.state is ClassicState.PREPARING_REBALANCE
    return Outcome(
        answer=HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if joins_anew else ErrorCode.NONE),
        timers=(SetTimer(key=session_timer(member.member_id), after_ms=member.session_timeout_ms),),
    )


def leave(group: ClassicGroup | None, request: LeaveGroupRequest, now_ms: int) -> Outcome[LeaveGroupResponse]:
    """Let ``request.members`` go, each with an answer of its own. Raises KafkaError: the request means nothing."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
    if group is None:
        answers = tuple(_left(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in request.members)
        return Outcome(answer=LeaveGroupResponse(members=answers))
    draft = Draft(group, now_ms)
    answers = tuple(_left(member, _leave(draft, member)) for member in request.members)
    if any(answer.error_code == ErrorCode.NONE for answer in answers):
        match draft.state:
            case ClassicState.STABLE | ClassicState.COMPLETING_REBALANCE:
                rebalance(draft)
            case ClassicState.PREPARING_REBALANCE:
                complete_join_if_all_joined(draft)
            case ClassicState.EMPTY:
                pass
    return draft.outcome(LeaveGroupResponse(members=answers))


def _leave(draft: Draft, identity: MemberIdentity) -> ErrorCode:
    """Let one go. An administrator may name a static member by its instance id alone."""
    if identity.member_id in draft.pending:
        draft.remove(identity.member_id)
        return ErrorCode.NONE
    instance_id = identity.group_instance_id
    if identity.member_id == _UNKNOWN:
        member = None if instance_id is None else static_member(draft.members, instance_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    else:
        try:
            member = require_member(draft.members, identity.member_id, instance_id)
        except KafkaError as error:
            return error.code
    draft.dismiss(member, ErrorCode.UNKNOWN_MEMBER_ID)
    return ErrorCode.NONE


def _left(identity: MemberIdentity, code: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
