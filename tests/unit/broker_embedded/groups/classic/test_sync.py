import pytest

from broker_embedded._groups.classic.group import ClassicState
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.groups.classic_driver import GroupDriver


@pytest.fixture
def group() -> GroupDriver:
    """A group of a, who leads, and b, that waits for its assignments."""
    driver = GroupDriver()
    for name in "ab":
        driver.join(name)
    driver.advance(ms=6_000)
    return driver


def test_the_assignment_of_the_leader_reaches_all_members(group: GroupDriver) -> None:
    waiting = group.sync("b")
    assert waiting.waits
    call = group.sync("a", {"a": b"1", "b": b"2"})
    assert (call.response.assignment, waiting.response.assignment) == (b"1", b"2")
    assert (call.response.protocol_type, call.response.protocol_name) == ("consumer", "range")
    assert group.state is ClassicState.STABLE
    assert group.classic.pending_sync == frozenset()


def test_a_sync_after_the_leaders_is_answered_at_once(group: GroupDriver) -> None:
    group.sync("a", {"a": b"1", "b": b"2"})
    assert group.classic.pending_sync == {group.ids["b"]}
    assert group.sync("b").response.assignment == b"2"
    assert group.sync("b").response.assignment == b"2"


def test_members_without_an_assignment_get_an_empty_one(group: GroupDriver) -> None:
    waiting = group.sync("b")
    group.sync("a", {"a": b"1", "unknown": b"2"})
    assert (waiting.code, waiting.response.assignment) == (ErrorCode.NONE, b"")


def test_a_leader_that_assigns_nothing(group: GroupDriver) -> None:
    assert group.sync("a").response.assignment == b""
    assert group.state is ClassicState.STABLE


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, None),
    ],
)
def test_sync_group_by_member_and_generation(
    group: GroupDriver, fields: dict[str, object], code: ErrorCode | None
) -> None:
    call = group.sync("b", **fields)  # type: ignore[arg-type]  # by name
    if code is None:
        assert call.waits
    else:
        assert call.code is code


def test_a_group_that_is_not_there_or_empty_has_no_members() -> None:
    group = GroupDriver()
    assert group.sync("a").code is ErrorCode.UNKNOWN_MEMBER_ID
    group.stabilize("a")
    group.leave("a")
    assert group.sync("a").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_with_an_old_id_is_fenced() -> None:
    group = GroupDriver()
    group.stabilize("s", instance_id="i")
    old = group.ids["s"]
    group.join("s2", instance_id="i")
    assert group.sync("s", member_id=old).code is ErrorCode.FENCED_INSTANCE_ID


def test_during_a_rebalance_there_is_no_assignment(group: GroupDriver) -> None:
    group.settle()
    group.join("c")
    assert group.sync("b").code is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_of_two_sync_requests_of_a_member_is_answered(group: GroupDriver) -> None:
    first, second = group.sync("b"), group.sync("b")
    assert first.code is ErrorCode.REBALANCE_IN_PROGRESS
    group.sync("a", {"b": b"2"})
    assert second.response.assignment == b"2"


def test_a_leader_that_falls_silent_is_not_waited_for_for_ever(group: GroupDriver) -> None:
    waiting = group.sync("b")
    for _ in range(12):
        group.heartbeat("a")
        group.advance(ms=5_000)
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.named() == {"b"}


def test_assignments_that_cannot_be_written_down_are_not_given(group: GroupDriver) -> None:
    waiting = group.sync("b")
    group.log_error = ErrorCode.UNKNOWN_SERVER_ERROR
    call = group.sync("a", {"a": b"1", "b": b"2"})
    assert {call.code, waiting.code} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert group.state is ClassicState.PREPARING_REBALANCE
    group.log_error = None
    for name in "ab":
        group.join(name)
    group.settle()
    assert group.generation == 2
    group.restart()
    assert group.sync("b").response.assignment == b"b"


def test_sessions_restart_with_the_assignment(group: GroupDriver) -> None:
    group.sync("b")  # pending: as good as heartbeats
    group.advance(ms=9_000)
    group.heartbeat("a")
    group.advance(ms=9_000)
    group.sync("a", {"a": b"1", "b": b"2"})
    group.advance(ms=9_999)
    assert group.named() == {"a", "b"}
