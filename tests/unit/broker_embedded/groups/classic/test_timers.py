"""What happens by the clock: sessions end, waits end."""

import pytest

from broker_embedded.groups import decisions
from broker_embedded.groups.classic.group import ClassicState
from spark_kafka_native.protocol.errors import ErrorCode
from tests.support.group_driver import GroupDriver


@pytest.fixture
def group() -> GroupDriver:
    """A stable group of a, who leads, and b; sessions are 10 s."""
    driver = GroupDriver()
    driver.stabilize("a", "b")
    return driver


def test_silent_member_is_fenced_and_the_rest_rebalance(group: GroupDriver) -> None:
    group.advance(ms=6_000)
    group.heartbeat("b")
    group.advance(ms=6_000)
    assert group.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat("b") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_session_is_as_long_as_the_member_asked_for() -> None:
    group = GroupDriver()
    group.stabilize("a", session_timeout_ms=20_000)
    group.advance(ms=19_999)
    assert group.named() == {"a"}
    group.advance(ms=1)
    assert group.state is ClassicState.EMPTY


def test_a_group_in_which_all_fall_silent_is_empty_in_the_end(group: GroupDriver) -> None:
    group.advance(ms=100_000)
    assert group.state is ClassicState.EMPTY
    assert not group.timers


def test_commits_are_as_good_as_heartbeats(group: GroupDriver) -> None:
    for _ in range(5):
        group.advance(ms=9_000)
        assert {group.commit(name) for name in "ab"} == {ErrorCode.NONE}
    assert group.named() == {"a", "b"}


def test_whoever_waits_for_the_others_is_not_silent(group: GroupDriver) -> None:
    call = group.join("a")
    for _ in range(11):
        group.advance(ms=5_000)
        group.heartbeat("b")
    assert call.waits
    group.join("b")
    assert call.answer.generation_id == 2


def test_a_new_member_whose_client_may_be_gone_is_given_up() -> None:
    group = GroupDriver()
    group.stabilize("a", session_timeout_ms=600_000, rebalance_timeout_ms=900_000)
    call = group.join("b", rebalance_timeout_ms=900_000)
    group.advance(ms=300_000)
    assert (call.code, call.answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert group.named() == {"a"}


def test_the_last_one_to_be_waited_for_falls_silent(group: GroupDriver) -> None:
    call = group.join("a")
    group.advance(ms=10_000)
    assert len(call.answer.members) == 1


def test_members_that_do_not_ask_for_their_assignment_are_left_behind() -> None:
    group = GroupDriver()
    for name in "ab":
        group.join(name, rebalance_timeout_ms=20_000)
    group.advance(ms=6_000)
    group.sync("a", {"a": b"1", "b": b"2"})
    for _ in range(4):
        group.advance(ms=5_000)
        group.heartbeat("a"), group.heartbeat("b")
    assert group.named() == {"a"}
    assert group.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS


def test_nobody_asks_for_an_assignment() -> None:
    group = GroupDriver()
    group.join("a", session_timeout_ms=600_000, rebalance_timeout_ms=20_000)
    group.advance(ms=23_000)
    assert (group.state, group.generation) == (ClassicState.EMPTY, 2)


def test_members_have_a_whole_session_to_come_back_after_a_restart(group: GroupDriver) -> None:
    group.advance(ms=9_000)
    group.restart()
    group.advance(ms=9_999)
    assert {group.heartbeat(name) for name in "ab"} == {ErrorCode.NONE}
    group.restart()
    group.advance(ms=10_000)
    assert group.state is ClassicState.PREPARING_REBALANCE or not group.members


def test_a_timer_that_comes_too_late_does_nothing(group: GroupDriver) -> None:
    before = group.group
    assert before is not None
    for key in (("join",), ("sync",), ("session", "nobody")):
        outcome = decisions.timer_fired(before, key, group.now_ms)
        assert outcome.group == before
        assert not outcome.records
        assert not outcome.replies
