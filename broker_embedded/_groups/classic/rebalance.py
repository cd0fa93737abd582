"""Rebalances of a classic group, from one generation to the next."""

from collections import Counter
from dataclasses import replace
from typing import Final

from broker_embedded._groups.classic.draft import ClassicDraft
from broker_embedded._groups.classic.group import JOIN_TIMER, SYNC_TIMER, ClassicState, InitialDelay
from broker_embedded._groups.classic.member import as_join_response, subscribed_topics
from spark_kafka_native._protocol.consumer_protocol import CONSUMER_PROTOCOL
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.join_group import JoinGroupResponse
from spark_kafka_native._protocol.messages.sync_group import SyncGroupResponse

_NO_MEMBER: Final = ""


def rebalance(draft: ClassicDraft) -> None:
    """Begin a rebalance, or continue the present one."""
    if draft.state is ClassicState.PREPARING_REBALANCE:
        complete_join_if_all_joined(draft)
    else:
        prepare_rebalance(draft)


def prepare_rebalance(draft: ClassicDraft) -> None:
    """Wait for all members to rejoin. The first rebalance of an empty group has the initial delay."""
    if draft.state is ClassicState.COMPLETING_REBALANCE:
        fail_assignment(draft, ErrorCode.REBALANCE_IN_PROGRESS)
    draft.pending_sync.clear()
    draft.cancel_timer(SYNC_TIMER)
    was_empty = draft.state is ClassicState.EMPTY
    draft.transition_to(ClassicState.PREPARING_REBALANCE)
    if was_empty:
        delay_ms = draft.config.initial_rebalance_delay_ms
        draft.initial = InitialDelay(delay_ms=delay_ms, remaining_ms=max(draft.rebalance_timeout_ms - delay_ms, 0))
        draft.schedule_timer(JOIN_TIMER, delay_ms)
    elif draft.has_all_members_joined:
        complete_join(draft)
    else:
        draft.schedule_timer(JOIN_TIMER, draft.rebalance_timeout_ms)


def complete_join_if_all_joined(draft: ClassicDraft) -> None:
    """Complete the join if all members have joined, except during the initial delay."""
    if draft.state is ClassicState.PREPARING_REBALANCE and draft.initial is None and draft.has_all_members_joined:
        complete_join(draft)


def extend_or_complete_join(draft: ClassicDraft) -> None:
    """Complete the join, or extend the initial delay if members have joined and time is left."""
    initial = draft.initial
    if initial is None or not initial.member_added or not initial.remaining_ms:
        complete_join(draft)
        return
    delay_ms = min(draft.config.initial_rebalance_delay_ms, initial.remaining_ms)
    remaining_ms = max(initial.remaining_ms - initial.delay_ms, 0)
    draft.initial = InitialDelay(delay_ms=delay_ms, remaining_ms=remaining_ms)
    draft.schedule_timer(JOIN_TIMER, delay_ms)


def complete_join(draft: ClassicDraft) -> None:
    """Begin the next generation. Dynamic members that have not joined are removed, static members stay."""
    draft.cancel_timer(JOIN_TIMER)
    for member in list(draft.members.values()):
        if not member.awaits_join and not member.is_static:
            draft.remove(member.member_id)
    if draft.members and not _elect_leader(draft):
        # Only static members: wait until one joins or all time out.
        draft.schedule_timer(JOIN_TIMER, draft.rebalance_timeout_ms)
        return
    draft.generation += 1
    draft.initial = None
    draft.pending_sync.clear()
    if draft.members:
        _begin_generation(draft)
    else:
        draft.protocol_name = None
        draft.subscribed = subscribed(draft)
        draft.transition_to(ClassicState.EMPTY)
        draft.records.append(draft.to_group().record())


def fail_assignment(draft: ClassicDraft, code: ErrorCode) -> None:
    """Fail the assignment of this generation: pending SyncGroups are answered ``code``."""
    for member in list(draft.members.values()):
        waited = member.sync_request_id is not None
        answered = draft.complete_sync_future(member, SyncGroupResponse(error_code=code))
        changed = draft.update_member(replace(answered, assignment=b""))
        if waited:
            draft.reschedule_session_timeout(changed)


def _elect_leader(draft: ClassicDraft) -> bool:
    """Whether a joined member is the leader; another member is elected if necessary."""
    leader = draft.members.get(draft.leader or _NO_MEMBER)
    if leader is not None and not leader.awaits_join:
        joined = (member.member_id for member in draft.members.values() if member.awaits_join)
        draft.leader = next(joined, draft.leader)
        leader = draft.members[draft.leader or _NO_MEMBER]
    return leader is not None and leader.awaits_join


def _begin_generation(draft: ClassicDraft) -> None:
    draft.protocol_name = select_protocol(draft)
    draft.subscribed = subscribed(draft)
    draft.transition_to(ClassicState.COMPLETING_REBALANCE)
    everybody = as_join_response(draft.members, draft.protocol_name)
    response = JoinGroupResponse(
        generation_id=draft.generation,
        protocol_type=draft.protocol_type,
        protocol_name=draft.protocol_name,
        leader=draft.leader or _NO_MEMBER,
    )
    for member in list(draft.members.values()):
        leader_members = everybody if member.member_id == draft.leader else ()
        joined = draft.complete_join_future(
            member, replace(response, member_id=member.member_id, members=leader_members)
        )
        draft.reschedule_session_timeout(draft.update_member(replace(joined, is_new=False)))
        draft.pending_sync.add(member.member_id)
    draft.schedule_timer(SYNC_TIMER, draft.rebalance_timeout_ms)


def select_protocol(draft: ClassicDraft) -> str:
    """The protocol with the most votes among those that all members support."""
    members = list(draft.members.values())
    candidates = {
        protocol.name for protocol in members[0].protocols if all(member.supports(protocol.name) for member in members)
    }
    votes = Counter(member.vote(candidates) for member in members)
    return max(votes, key=votes.__getitem__)


def subscribed(draft: ClassicDraft) -> frozenset[str] | None:
    """The topics in the members' metadata for the chosen protocol; None if unknown."""
    if draft.protocol_type != CONSUMER_PROTOCOL:
        return None
    protocol = draft.protocol_name or ""
    return subscribed_topics(member.metadata(protocol) for member in draft.members.values())
