"""What happens to consumer groups by the clock."""

from typing import TYPE_CHECKING

from broker_embedded.groups.classic.state import JOIN_TIMER, SYNC_TIMER, session_timer
from broker_embedded.groups.consumer import leave as consumer_leave
from broker_embedded.groups.consumer.draft import rebalance_timer
from broker_embedded.groups.consumer.member import STATIC_LEAVE_EPOCH, MemberState
from broker_embedded.groups.outcome import Outcome, SetTimer, TimerKey

if TYPE_CHECKING:
    from broker_embedded.groups.consumer.group import ConsumerGroup


def resumed(group: "ConsumerGroup") -> Outcome[None]:
    """Patience with every member of a group that was read from the log starts anew."""
    config = group.context.config(group.group_id)
    sessions = [
        SetTimer(key=session_timer(member_id), after_ms=config.session_timeout_ms) for member_id in group.members
    ]
    rebalances = [
        SetTimer(key=rebalance_timer(member.member_id), after_ms=member.rebalance_timeout_ms)
        for member in group.members.values()
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None
    ]
    return Outcome(answer=None, timers=(*sessions, *rebalances))


def timer_fired(group: "ConsumerGroup", key: TimerKey, now_ms: int) -> Outcome[None]:
    """The group continues without a member whose timer has ended."""
    if key in {JOIN_TIMER, SYNC_TIMER}:  # of the classic group that it was a moment ago
        return Outcome(answer=None)
    kind, member_id = key
    member = group.members.get(member_id)
    if member is None:
        return Outcome(answer=None)
    holds_on = member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch != STATIC_LEAVE_EPOCH
    if kind == "rebalance" and not holds_on:
        return Outcome(answer=None)
    return consumer_leave.without_members(group, [member], now_ms, None)
