import dataclasses
from dataclasses import replace

import pytest

from broker_embedded._groups.classic.draft import ClassicDraft
from broker_embedded._groups.classic.group import ClassicConfig, ClassicGroup, ClassicState, InitialDelay, session_timer
from broker_embedded._groups.classic.member import ClassicMember
from broker_embedded._groups.group import CancelTimer, SetTimer
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequestProtocol

RANGE = (JoinGroupRequestProtocol(name="range"),)


def member(member_id: str, **others: object) -> ClassicMember:
    fields = {"session_timeout_ms": 10, "rebalance_timeout_ms": 20, "protocols": RANGE} | others
    return ClassicMember(member_id=member_id, **fields)  # type: ignore[arg-type]  # by name


FULL = ClassicGroup(
    group_id="g",
    config=ClassicConfig(),
    state=ClassicState.PREPARING_REBALANCE,
    state_since_ms=5,
    generation=3,
    protocol_type="consumer",
    protocol_name="range",
    leader="m",
    members={"m": member("m", join_request_id=1), "n": member("n")},
    pending=frozenset({"p"}),
    pending_sync=frozenset({"n"}),
    subscribed=frozenset({"t"}),
    initial=InitialDelay(delay_ms=1, remaining_ms=2),
)


@pytest.fixture
def draft() -> ClassicDraft:
    return ClassicDraft(FULL, 9)


def test_a_draft_of_a_group_is_the_group() -> None:
    unlike_default = [field.name for field in dataclasses.fields(FULL) if getattr(FULL, field.name) != field.default]
    assert len(unlike_default) == len(dataclasses.fields(FULL)), "the test must see every field"
    assert ClassicDraft(FULL, 9).to_group() == FULL


def test_the_group_stays_as_it_was_and_so_do_frozen_ones(draft: ClassicDraft) -> None:
    frozen = draft.to_group()
    draft.remove("m")
    draft.pending.clear()
    draft.pending_sync.clear()
    assert frozen == FULL
    assert "m" in FULL.members


def test_the_leader_goes_and_another_takes_over(draft: ClassicDraft) -> None:
    draft.remove("m")
    assert draft.leader == "n"
    draft.remove("n")
    assert draft.leader is None
    assert draft.outcome(None).timers == tuple(CancelTimer(key=session_timer(name)) for name in "mn")


def test_a_dismissed_member_is_answered(draft: ClassicDraft) -> None:
    draft.fail_and_remove(draft.members["m"])
    (reply,) = draft.outcome(None).replies
    assert (reply.request_id, reply.response.error_code) == (1, ErrorCode.UNKNOWN_MEMBER_ID)


def test_the_last_change_of_a_timer_counts(draft: ClassicDraft) -> None:
    draft.reschedule_session_timeout(draft.members["n"])
    draft.cancel_timer(session_timer("n"))
    draft.reschedule_session_timeout(draft.members["n"])
    assert draft.outcome(None).timers == (SetTimer(key=session_timer("n"), after_ms=10),)


def test_a_join_phase_ends_once_all_members_have_joined(draft: ClassicDraft) -> None:
    assert (draft.num_awaiting_join_response, draft.has_all_members_joined) == (1, False)
    draft.update_member(replace(draft.members["n"], join_request_id=2))
    assert (draft.num_awaiting_join_response, draft.has_all_members_joined) == (2, False)
    draft.remove("p")
    assert draft.has_all_members_joined


def test_the_longest_rebalance_timeout_counts(draft: ClassicDraft) -> None:
    draft.add(member("o", rebalance_timeout_ms=30), "consumer")
    assert draft.rebalance_timeout_ms == 30
    for name in "mno":
        draft.remove(name)
    assert draft.rebalance_timeout_ms == 0


def test_another_state_begins_now(draft: ClassicDraft) -> None:
    draft.transition_to(ClassicState.STABLE)
    assert draft.to_group().state_since_ms == 9
