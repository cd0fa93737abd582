"""Members that leave a consumer group: by a request, temporarily, or by a timeout."""

from collections.abc import Sequence
from dataclasses import replace

from broker_embedded._groups.classic.group import JOIN_TIMER, SYNC_TIMER, session_timer
from broker_embedded._groups.consumer.draft import ConsumerDraft, rebalance_timer
from broker_embedded._groups.consumer.entries import current_entry, member_tombstones, regex_tombstone
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember, MemberState
from broker_embedded._groups.consumer.migration import downgrade, downgrade_is_due
from broker_embedded._groups.group import Outcome, ResponseT, SetTimer, TimerKey
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leave(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> Outcome[ConsumerGroupHeartbeatResponse]:
    """A heartbeat with the epoch -1 or -2. Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.instance_id is None:
        return without_members(group, [group.require_member(request.member_id)], now_ms, response)
    member = group.require_static(request.instance_id, request.member_id)
    if request.member_epoch != STATIC_LEAVE_EPOCH:
        return without_members(group, [member], now_ms, response)
    draft = ConsumerDraft(group, now_ms)
    # Its partitions are kept for the next member with its instance id, as if that member had them since epoch 0.
    left = replace(
        member, member_epoch=STATIC_LEAVE_EPOCH, assigned=dict.fromkeys(member.assigned, 0), pending_revocation={}
    )
    draft.append(current_entry(group.group_id, left))
    draft.cancel_timer(rebalance_timer(member.member_id))
    return draft.outcome(response)


def without_members(
    group: ConsumerGroup, leaving: Sequence[ConsumerMember], now_ms: int, response: ResponseT
) -> Outcome[ResponseT]:
    """Remove members. If only members that use the classic protocol are left, the group becomes a classic group."""
    if not leaving:
        return Outcome(response=response)
    draft = ConsumerDraft(group, now_ms)
    ids = {member.member_id for member in leaving}
    if downgrade_is_due(group, ids):
        return downgrade(draft, response, leaving=ids, rebalance=True)
    for member in leaving:
        draft.append(*member_tombstones(group.group_id, member.member_id))
        draft.cancel_timers(member.member_id)
    gone = {member.regex for member in leaving if member.regex is not None} - draft.group.subscribed_regexes.keys()
    draft.append(*(regex_tombstone(group.group_id, regex) for regex in sorted(gone)))
    draft.bump_group_epoch(if_topics_changed=False)
    return draft.outcome(response)


# --- timers -----------------------------------------------------------------------------------------------------------


def resumed(group: ConsumerGroup) -> Outcome[None]:
    """Start a new session for every member of a group that was read from the log."""
    config = group.context.config(group.group_id)
    sessions = [
        SetTimer(key=session_timer(member_id), after_ms=config.session_timeout_ms) for member_id in group.members
    ]
    rebalances = [
        SetTimer(key=rebalance_timer(member.member_id), after_ms=member.rebalance_timeout_ms)
        for member in group.members.values()
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None
    ]
    return Outcome(response=None, timers=(*sessions, *rebalances))


def timer_fired(group: ConsumerGroup, key: TimerKey, now_ms: int) -> Outcome[None]:
    """Remove a member whose timer has fired."""
    if key in {JOIN_TIMER, SYNC_TIMER}:  # set by the classic group before its upgrade
        return Outcome(response=None)
    kind, member_id = key
    member = group.members.get(member_id)
    if member is None:
        return Outcome(response=None)
    holds_on = member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch != STATIC_LEAVE_EPOCH
    if kind == "rebalance" and not holds_on:
        return Outcome(response=None)
    return without_members(group, [member], now_ms, None)
