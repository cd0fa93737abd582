import pytest

from broker_embedded._groups import decisions
from broker_embedded._groups.classic.group import ClassicState
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.leave_group import MemberIdentity
from tests.support.groups.classic_driver import GroupDriver


@pytest.fixture
def group() -> GroupDriver:
    """A stable group of a, who leads, and b."""
    driver = GroupDriver()
    driver.stabilize("a", "b")
    return driver


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": -1}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_heartbeats_by_member_and_generation(group: GroupDriver, fields: dict[str, object], code: ErrorCode) -> None:
    assert group.heartbeat("a", **fields) is code


def test_members_must_rejoin(group: GroupDriver) -> None:
    group.join("c")
    assert group.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_wait_for_their_assignment_may_heartbeat() -> None:
    group = GroupDriver()
    group.join("a")
    group.advance(ms=3_000)
    assert group.state is ClassicState.COMPLETING_REBALANCE
    assert group.heartbeat("a") is ErrorCode.NONE


def test_heartbeats_of_clients_that_have_not_joined_are_refused(group: GroupDriver) -> None:
    given = group.ask_join("c").response.member_id
    assert group.heartbeat("c", member_id=given) is ErrorCode.UNKNOWN_MEMBER_ID
    assert GroupDriver().heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID
    group.leave(given)
    group.leave("a", "b")
    assert group.state is ClassicState.EMPTY
    assert group.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_those_who_stay_make_a_new_generation(group: GroupDriver) -> None:
    assert group.leave("a") == [ErrorCode.NONE]
    assert group.heartbeat("b") is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("b").response.generation_id == 2


def test_every_member_of_a_leave_group_has_its_own_code(group: GroupDriver) -> None:
    assert GroupDriver().leave("a", "b") == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert group.leave_as(MemberIdentity(member_id="")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.state is ClassicState.STABLE
    assert group.leave("a", "unknown", "b") == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert (group.state, group.generation) == (ClassicState.EMPTY, 2)


@pytest.mark.parametrize("how", ["leaves", "session expires"])
def test_a_rebalance_ends_without_the_last_member_that_had_not_rejoined(group: GroupDriver, how: str) -> None:
    call = group.join("a")
    if how == "leaves":
        group.leave("b")
    else:
        group.advance(ms=10_000)
    assert len(call.response.members) == 1


def test_a_member_that_waits_goes(group: GroupDriver) -> None:
    waiting = group.join("a")
    assert group.leave("a") == [ErrorCode.NONE]
    assert (waiting.code, waiting.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_a_member_that_waits_for_its_assignment_goes() -> None:
    group = GroupDriver()
    for name in "ab":
        group.join(name)
    group.advance(ms=6_000)
    waiting = group.sync("b")
    group.leave("b")
    assert waiting.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_goes_before_the_first_generation() -> None:
    group = GroupDriver()
    group.join("a")
    group.leave("a")
    assert group.state is ClassicState.PREPARING_REBALANCE
    group.advance(ms=3_000)
    assert (group.state, group.generation) == (ClassicState.EMPTY, 1)


def test_an_id_that_was_waited_for_is_given_back(group: GroupDriver) -> None:
    given = group.ask_join("c").response.member_id
    calls = [group.join(name) for name in "ab"]
    assert calls[1].waits
    assert group.leave(given) == [ErrorCode.NONE]
    assert not calls[1].waits


def test_an_administrator_lets_static_members_go_by_their_instance() -> None:
    group = GroupDriver()
    group.stabilize("s", instance_id="i")
    assert group.leave_as(
        MemberIdentity(member_id="", group_instance_id="i"), MemberIdentity(member_id="", group_instance_id="j")
    ) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.state is ClassicState.EMPTY


def test_a_static_member_with_an_old_id_does_not_let_its_successor_go() -> None:
    group = GroupDriver()
    group.stabilize("s", instance_id="i")
    old = group.ids["s"]
    group.join("s2", instance_id="i")
    assert group.leave_as(MemberIdentity(member_id=old, group_instance_id="i")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert group.state is ClassicState.STABLE


def test_a_group_needs_an_id(group: GroupDriver) -> None:
    with pytest.raises(Exception, match="INVALID_GROUP_ID"):
        group.leave("a", group_id="")


def test_silent_member_is_fenced_and_the_rest_rebalance(group: GroupDriver) -> None:
    group.advance(ms=6_000)
    group.heartbeat("b")
    group.advance(ms=6_000)
    assert group.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat("b") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_session_ends_after_the_timeout_of_its_member() -> None:
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


def test_a_commit_extends_the_session(group: GroupDriver) -> None:
    for _ in range(5):
        group.advance(ms=9_000)
        assert {group.commit(name) for name in "ab"} == {ErrorCode.NONE}
    assert group.named() == {"a", "b"}


def test_the_session_of_a_member_that_waits_in_join_group_does_not_end(group: GroupDriver) -> None:
    call = group.join("a")
    for _ in range(11):
        group.advance(ms=5_000)
        group.heartbeat("b")
    assert call.waits
    group.join("b")
    assert call.response.generation_id == 2


def test_a_new_member_whose_client_may_be_gone_is_given_up() -> None:
    group = GroupDriver()
    group.stabilize("a", session_timeout_ms=600_000, rebalance_timeout_ms=900_000)
    call = group.join("b", rebalance_timeout_ms=900_000)
    group.advance(ms=300_000)
    assert (call.code, call.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert group.named() == {"a"}


def test_members_that_do_not_sync_are_removed() -> None:
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


def test_a_group_without_any_sync_becomes_empty() -> None:
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
    for key in (("join",), ("sync",), ("session", "unknown")):
        outcome = decisions.timer_fired(before, key, group.now_ms)
        assert outcome.group == before
        assert not outcome.records
        assert not outcome.replies
