"""Heartbeat and LeaveGroup."""

import pytest

from broker_embedded.groups.classic.group import ClassicState
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.leave_group import MemberIdentity
from tests.support.group_driver import GroupDriver


@pytest.fixture
def group() -> GroupDriver:
    """A stable group of a, who leads, and b."""
    driver = GroupDriver()
    driver.stabilize("a", "b")
    return driver


# --- Heartbeat -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": -1}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_who_is_alive(group: GroupDriver, fields: dict[str, object], code: ErrorCode) -> None:
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


def test_nobody_is_in_a_group_that_is_not_there_or_empty(group: GroupDriver) -> None:
    assert GroupDriver().heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID
    group.leave("a", "b")
    assert group.state is ClassicState.EMPTY
    assert group.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_without_a_join_is_no_member(group: GroupDriver) -> None:
    given = group.ask_join("c").answer.member_id
    assert group.heartbeat("c", member_id=given) is ErrorCode.UNKNOWN_MEMBER_ID


# --- LeaveGroup ------------------------------------------------------------------------------------------------------


def test_those_who_stay_make_a_new_generation(group: GroupDriver) -> None:
    assert group.leave("a") == [ErrorCode.NONE]
    assert group.heartbeat("b") is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("b").answer.generation_id == 2


def test_several_at_once(group: GroupDriver) -> None:
    assert group.leave("a", "nobody", "b") == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert (group.state, group.generation) == (ClassicState.EMPTY, 2)


def test_whoever_is_not_a_member_changes_nothing(group: GroupDriver) -> None:
    assert group.leave("nobody") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.leave_as(MemberIdentity(member_id="")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.state is ClassicState.STABLE


def test_a_group_that_is_not_there_has_no_members() -> None:
    assert GroupDriver().leave("a", "b") == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_the_last_one_to_be_waited_for_goes(group: GroupDriver) -> None:
    call = group.join("a")
    group.leave("b")
    assert len(call.answer.members) == 1


def test_a_member_that_waits_goes(group: GroupDriver) -> None:
    waiting = group.join("a")
    assert group.leave("a") == [ErrorCode.NONE]
    assert (waiting.code, waiting.answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


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
    given = group.ask_join("c").answer.member_id
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
