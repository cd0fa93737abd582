"""What happens to a classic group by the clock: silent members go, waits end."""

from typing import TYPE_CHECKING

from broker_embedded.groups.classic.draft import Draft
from broker_embedded.groups.classic.rebalance import (
    complete_join,
    extend_or_complete_join,
    prepare_rebalance,
    rebalance,
)
from broker_embedded.groups.classic.state import JOIN_TIMER, SESSION, SYNC_TIMER, ClassicState
from broker_embedded.groups.outcome import Outcome, TimerKey
from spark_kafka_native.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker_embedded.groups.classic.group import ClassicGroup


def timer_fired(group: "ClassicGroup", key: TimerKey, now_ms: int) -> Outcome[None]:
    """Go on without members that were waited for long enough."""
    draft = Draft(group, now_ms)
    if key == JOIN_TIMER and group.state is ClassicState.PREPARING_REBALANCE:
        extend_or_complete_join(draft)
    elif key == SYNC_TIMER and group.pending_sync:
        for member_id in group.pending_sync:
            draft.remove(member_id)
        prepare_rebalance(draft)
    elif key[0] == SESSION:
        _end_session(draft, key[1])
    return draft.outcome(None)


def resumed(group: "ClassicGroup") -> Outcome[None]:
    """Members of a group that was read from the log have all the time of a session to come back."""
    draft = Draft(group, group.state_since_ms or 0)
    for member in group.members.values():
        draft.renew_session(member)
    if len(group.members) > group.config.max_size:
        prepare_rebalance(draft)
    return draft.outcome(None)


def _end_session(draft: Draft, member_id: str) -> None:
    member = draft.members.get(member_id)
    if member is not None and member.must_heartbeat:
        draft.dismiss(member, ErrorCode.UNKNOWN_MEMBER_ID)
        if draft.state is not ClassicState.PREPARING_REBALANCE:
            rebalance(draft)
            return
    elif member_id in draft.pending:
        draft.remove(member_id)
    else:
        return
    if draft.state is ClassicState.PREPARING_REBALANCE and draft.all_joined:
        complete_join(draft)
