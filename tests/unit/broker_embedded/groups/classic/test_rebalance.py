import pytest

from broker_embedded._groups.classic.group import ClassicState
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.groups.classic_driver import GroupDriver, subscription


@pytest.fixture
def group() -> GroupDriver:
    return GroupDriver()


def test_all_members_are_in_the_first_generation(group: GroupDriver) -> None:
    calls = {name: group.join(name) for name in "abc"}
    group.advance(ms=9_000)
    assert {call.response.generation_id for call in calls.values()} == {1}
    assert {call.response.leader for call in calls.values()} == {group.ids["a"]}
    assert [len(call.response.members) for call in calls.values()] == [3, 0, 0]
    assert {call.response.member_id for call in calls.values()} == set(group.members)
    assert group.state is ClassicState.COMPLETING_REBALANCE


def test_the_first_rebalance_waits_for_the_initial_delay(group: GroupDriver) -> None:
    call = group.join("a")
    group.advance(ms=2_999)
    assert call.waits
    group.advance(ms=1)
    assert not call.waits


@pytest.mark.parametrize(
    ("names", "every_ms", "rebalance_timeout_ms", "end_ms"),
    [("bcd", 2_900, 60_000, 12_000), ("bcdefgh", 1_000, 8_000, 8_000)],
)
def test_the_first_rebalance_waits_while_members_join_up_to_the_rebalance_timeout(
    group: GroupDriver, names: str, every_ms: int, rebalance_timeout_ms: int, end_ms: int
) -> None:
    call = group.join("a", rebalance_timeout_ms=rebalance_timeout_ms)
    for name in names:
        group.advance(ms=every_ms)
        group.join(name, rebalance_timeout_ms=rebalance_timeout_ms)
    group.advance(ms=end_ms - len(names) * every_ms - 1)
    assert call.waits
    group.advance(ms=1)
    assert len(call.response.members) == 1 + len(names)


def test_without_an_initial_delay_the_first_member_is_answered_at_once() -> None:
    group = GroupDriver(initial_rebalance_delay_ms=0)
    call = group.join("a")
    group.advance(ms=0)
    assert call.response.generation_id == 1


def test_a_rebalance_ends_when_the_last_member_has_joined(group: GroupDriver) -> None:
    group.stabilize("a", "b")
    new = group.join("c")
    assert group.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    group.join("a")
    assert new.waits
    group.join("b")
    assert (new.response.generation_id, group.state) == (2, ClassicState.COMPLETING_REBALANCE)


def test_members_that_do_not_rejoin_are_removed(group: GroupDriver) -> None:
    group.stabilize("a", "b", rebalance_timeout_ms=20_000)
    new = group.join("c", rebalance_timeout_ms=20_000)
    for _ in range(4):
        group.advance(ms=5_000)
        for name in "ab":
            group.heartbeat(name)
    assert [member.member_id for member in new.response.members] == [group.ids["c"]]
    assert group.leader == "c"
    assert group.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_that_do_not_rejoin_stay(group: GroupDriver) -> None:
    group.stabilize("s", instance_id="i", session_timeout_ms=60_000, rebalance_timeout_ms=20_000)
    new = group.join("a", rebalance_timeout_ms=20_000)
    group.advance(ms=20_000)
    assert len(new.response.members) == 2
    assert group.leader == "a"  # the leader before is not there to lead
    group.sync("a", {"a": b"1", "s": b"2"})
    assert group.sync("s").response.assignment == b"2"


def test_static_members_that_neither_rejoin_nor_sync_are_removed(group: GroupDriver) -> None:
    group.stabilize("s", instance_id="i", session_timeout_ms=600_000, rebalance_timeout_ms=20_000)
    group.join("a", rebalance_timeout_ms=20_000, session_timeout_ms=600_000)
    group.advance(ms=20_000)
    group.sync("a", {"a": b"1"})
    group.advance(ms=20_000)
    assert group.named() == {"a"}
    assert group.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_of_static_members_alone_begins_again_until_one_comes(group: GroupDriver) -> None:
    patient = {"session_timeout_ms": 600_000, "rebalance_timeout_ms": 20_000}
    for name in "su":
        group.join(name, instance_id=f"i-{name}", **patient)
    group.settle()
    group.join("a", rebalance_timeout_ms=20_000)
    group.leave("a")
    group.advance(ms=90_000)
    assert (group.state, group.generation) == (ClassicState.PREPARING_REBALANCE, 1)
    call = group.join("u", **patient)
    group.advance(ms=20_000)
    assert (call.response.generation_id, group.leader) == (2, "u")


def test_the_leader_is_replaced_when_it_goes(group: GroupDriver) -> None:
    group.stabilize("a", "b", "c")
    group.leave("a")
    assert group.leader == "b"
    group.join("c")
    assert len(group.join("b").response.members) == 2


def test_a_group_whose_last_member_leaves_writes_an_empty_group(group: GroupDriver) -> None:
    group.stabilize("a")
    group.leave("a")
    assert (group.state, group.generation, group.leader) == (ClassicState.EMPTY, 2, None)
    assert (group.classic.protocol_type, group.classic.protocol_name) == ("consumer", None)
    assert group.classic.subscribed == frozenset()
    assert not group.timers
    group.restart()
    assert (group.state, group.generation) == (ClassicState.EMPTY, 2)


def test_a_group_that_was_empty_takes_another_kind_of_members(group: GroupDriver) -> None:
    group.stabilize("a")
    group.leave("a")
    group.stabilize("w", protocol_type="connect", protocols={"compatible": b"url"})
    assert (group.classic.protocol_type, group.generation) == ("connect", 3)
    assert group.classic.subscribed is None


def test_members_that_wait_for_an_assignment_are_answered_by_the_next_rebalance(group: GroupDriver) -> None:
    for name in "abc":
        group.join(name)
    group.advance(ms=9_000)
    waiting = [group.sync(name) for name in "bc"]
    group.join("d")
    assert {call.code for call in waiting} == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert group.sync("a", {"a": b"1"}).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_those_who_have_an_id_are_waited_for(group: GroupDriver) -> None:
    group.stabilize("a")
    group.ask_join("b")
    call = group.join("a")
    assert call.waits
    assert group.join("b").waits is False
    assert len(call.response.members) == 2


def test_those_who_have_an_id_and_do_not_come_are_not_waited_for_long(group: GroupDriver) -> None:
    group.stabilize("a")
    group.ask_join("b", session_timeout_ms=6_000)
    call = group.join("a")
    group.advance(ms=6_000)
    assert len(call.response.members) == 1


@pytest.mark.parametrize(
    ("metadata", "known"),
    [(subscription("t", "u"), {"t", "u"}), (b"\x00", None), (b"", None), (b"\x00\x03" + b"\xff" * 4, None)],
)
def test_the_subscribed_topics_are_known_if_all_subscriptions_are_readable(
    group: GroupDriver, metadata: bytes, known: set[str] | None
) -> None:
    group.stabilize("a", protocols={"range": metadata})
    assert group.classic.subscribed == known
    group.restart()
    assert group.classic.subscribed == known
