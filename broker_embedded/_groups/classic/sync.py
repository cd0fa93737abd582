"""SyncGroup in a classic group: the leader sends the assignments, the other members wait for them."""

from dataclasses import replace

from broker_embedded._groups.classic.draft import ClassicDraft
from broker_embedded._groups.classic.group import SYNC_TIMER, ClassicGroup, ClassicState, require_sender
from broker_embedded._groups.classic.rebalance import fail_assignment, rebalance
from broker_embedded._groups.group import Outcome, Pending
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(
    group: ClassicGroup | None, request: SyncGroupRequest, request_id: int, now_ms: int
) -> Outcome[SyncGroupResponse]:
    """Decide a SyncGroup. ``request_id`` is the request's id while it is pending. Raises KafkaError."""
    group, member = require_sender(group, request)
    _check_protocol(group, request)
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"group {group.group_id!r} waits for members to join")
    draft = ClassicDraft(group, now_ms)
    draft.pending_sync.discard(member.member_id)
    if not draft.pending_sync:
        draft.cancel_timer(SYNC_TIMER)
    if group.state is ClassicState.STABLE:
        return draft.outcome(_assignment(draft, member.assignment))
    # A client that repeats the request has given up the first one.
    given_up = draft.complete_sync_future(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    draft.update_member(replace(given_up, sync_request_id=request_id))
    if member.member_id == group.leader:
        return _assign(draft, request, request_id, now_ms)
    return draft.outcome(Pending(request_id=request_id))


def _check_protocol(group: ClassicGroup, request: SyncGroupRequest) -> None:
    pairs = ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name))
    for claimed, actual in pairs:
        if claimed is not None and claimed != actual:
            detail = f"group {group.group_id!r} has the protocol {actual!r}, not {claimed!r}"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail)


def _assign(draft: ClassicDraft, request: SyncGroupRequest, request_id: int, now_ms: int) -> Outcome[SyncGroupResponse]:
    """Answer all pending SyncGroups with the leader's assignments, once these are in the log."""
    unassigned = draft.to_group()
    brought = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    for member in list(draft.members.values()):
        assigned = draft.update_member(replace(member, assignment=brought.get(member.member_id, b"")))
        if assigned.sync_request_id is not None:
            draft.reschedule_session_timeout(
                draft.complete_sync_future(assigned, _assignment(draft, assigned.assignment))
            )
    draft.state = ClassicState.STABLE  # state_since_ms stays the beginning of the generation, as in the log
    draft.records.append(draft.to_group().record())
    decided: Outcome[SyncGroupResponse] = draft.outcome(Pending(request_id=request_id))
    return replace(decided, otherwise=lambda code: _not_assigned(unassigned, request_id, code, now_ms))


def _not_assigned(
    unassigned: ClassicGroup, request_id: int, code: ErrorCode, now_ms: int
) -> Outcome[SyncGroupResponse]:
    """The assignments cannot be written: every pending SyncGroup is answered ``code``, and the group rebalances."""
    draft = ClassicDraft(unassigned, now_ms)
    fail_assignment(draft, code)
    rebalance(draft)
    return draft.outcome(Pending(request_id=request_id))


def _assignment(draft: ClassicDraft, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=draft.protocol_type, protocol_name=draft.protocol_name, assignment=assignment
    )
