"""Heartbeat, LeaveGroup and timers of a classic group."""

from typing import Final

from broker_embedded._groups.classic.draft import ClassicDraft
from broker_embedded._groups.classic.group import (
    JOIN_TIMER,
    SESSION,
    SYNC_TIMER,
    ClassicGroup,
    ClassicState,
    require_sender,
    session_timer,
)
from broker_embedded._groups.classic.member import require_member, static_member
from broker_embedded._groups.classic.rebalance import (
    complete_join,
    complete_join_if_all_joined,
    extend_or_complete_join,
    prepare_rebalance,
    rebalance,
)
from broker_embedded._groups.group import Outcome, SetTimer, TimerKey
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from spark_kafka_native._protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_UNKNOWN: Final = ""


def heartbeat(group: ClassicGroup | None, request: HeartbeatRequest) -> Outcome[HeartbeatResponse]:
    """Renew a member's session. Raises KafkaError."""
    group, member = require_sender(group, request)
    must_rejoin = group.state is ClassicState.PREPARING_REBALANCE
    return Outcome(
        response=HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if must_rejoin else ErrorCode.NONE),
        timers=(SetTimer(key=session_timer(member.member_id), after_ms=member.session_timeout_ms),),
    )


def leave(group: ClassicGroup | None, request: LeaveGroupRequest, now_ms: int) -> Outcome[LeaveGroupResponse]:
    """Remove ``request.members``, with a result for each. Raises KafkaError: the request names no group."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
    if group is None:
        responses = tuple(_left(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in request.members)
        return Outcome(response=LeaveGroupResponse(members=responses))
    draft = ClassicDraft(group, now_ms)
    responses = tuple(_left(member, _leave(draft, member)) for member in request.members)
    if any(response.error_code == ErrorCode.NONE for response in responses):
        match draft.state:
            case ClassicState.STABLE | ClassicState.COMPLETING_REBALANCE:
                rebalance(draft)
            case ClassicState.PREPARING_REBALANCE:
                complete_join_if_all_joined(draft)
            case ClassicState.EMPTY:
                pass
    return draft.outcome(LeaveGroupResponse(members=responses))


def _leave(draft: ClassicDraft, identity: MemberIdentity) -> ErrorCode:
    """Remove a member. An administrator may name a static member by its instance id only."""
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
    draft.fail_and_remove(member)
    return ErrorCode.NONE


def _left(identity: MemberIdentity, code: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)


# --- timers -----------------------------------------------------------------------------------------------------------


def timer_fired(group: ClassicGroup, key: TimerKey, now_ms: int) -> Outcome[None]:
    """Continue without the members that the timer waited for."""
    draft = ClassicDraft(group, now_ms)
    if key == JOIN_TIMER and group.state is ClassicState.PREPARING_REBALANCE:
        extend_or_complete_join(draft)
    elif key == SYNC_TIMER and group.pending_sync:
        for member_id in group.pending_sync:
            draft.remove(member_id)
        prepare_rebalance(draft)
    elif key[0] == SESSION:
        _end_session(draft, key[1])
    return draft.outcome(None)


def resumed(group: ClassicGroup) -> Outcome[None]:
    """Start a new session for every member of a group that was read from the log."""
    draft = ClassicDraft(group, group.state_since_ms or 0)
    for member in group.members.values():
        draft.reschedule_session_timeout(member)
    if len(group.members) > group.config.max_size:
        prepare_rebalance(draft)
    return draft.outcome(None)


def _end_session(draft: ClassicDraft, member_id: str) -> None:
    member = draft.members.get(member_id)
    if member is not None and member.must_heartbeat:
        draft.fail_and_remove(member)
        if draft.state is not ClassicState.PREPARING_REBALANCE:
            rebalance(draft)
            return
    elif member_id in draft.pending:
        draft.remove(member_id)
    else:
        return
    if draft.state is ClassicState.PREPARING_REBALANCE and draft.has_all_members_joined:
        complete_join(draft)
