import pytest

from broker_embedded._groups.classic.group import ClassicState
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.groups.classic_driver import GroupDriver, subscription

RANGE = {"range": subscription("t")}
BOTH = {"range": subscription("t"), "sticky": subscription("t")}


@pytest.fixture
def group() -> GroupDriver:
    return GroupDriver()


def test_a_new_member_is_given_its_id_first(group: GroupDriver) -> None:
    call = group.ask_join("a")
    assert call.code is ErrorCode.MEMBER_ID_REQUIRED
    assert call.response.member_id.startswith("a-")
    assert group.state is ClassicState.EMPTY
    assert group.ask_join("a", member_id=call.response.member_id).waits


def test_an_old_client_joins_at_once(group: GroupDriver) -> None:
    assert group.ask_join("a", version=3).waits
    assert group.named() == {"a"}


def test_an_id_that_is_not_used_is_forgotten(group: GroupDriver) -> None:
    given = group.ask_join("a", session_timeout_ms=7_000).response.member_id
    group.advance(ms=7_000)
    assert group.ask_join("a", member_id=given).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert not group.timers


def test_an_id_can_be_given_back(group: GroupDriver) -> None:
    given = group.ask_join("a").response.member_id
    assert group.leave(given) == [ErrorCode.NONE]
    assert not group.timers


def test_an_unknown_member_id_is_refused(group: GroupDriver) -> None:
    assert group.join("a", member_id="made-up").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.group is None
    group.stabilize("a")
    call = group.join("b", member_id="made-up")
    assert (call.code, call.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "made-up")


def test_an_id_that_was_given_is_not_for_a_static_member(group: GroupDriver) -> None:
    given = group.ask_join("a").response.member_id
    assert group.ask_join("a", member_id=given, instance_id="i").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_needs_an_id(group: GroupDriver) -> None:
    call = group.join("a", member_id="m", group_id="")
    assert (call.code, call.response.member_id) == (ErrorCode.INVALID_GROUP_ID, "m")
    assert group.group is None


@pytest.mark.parametrize("timeout_ms", [5_999, 6_000, 1_800_000, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(group: GroupDriver, timeout_ms: int) -> None:
    call = group.join("a", session_timeout_ms=timeout_ms)
    if 6_000 <= timeout_ms <= 1_800_000:
        assert call.waits
    else:
        assert (call.code, group.group) == (ErrorCode.INVALID_SESSION_TIMEOUT, None)


@pytest.mark.parametrize("wanted", [{"protocol_type": ""}, {"protocols": {}}])
def test_a_member_needs_a_protocol(group: GroupDriver, wanted: dict[str, object]) -> None:
    assert group.join("a", **wanted).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.state is ClassicState.EMPTY  # there is a group by now, as in Kafka
    group.restart()
    assert group.state is ClassicState.EMPTY


def test_a_member_of_another_kind_is_refused(group: GroupDriver) -> None:
    group.join("a")
    assert group.join("b", protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.join("b", protocols={"sticky": b""}).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.join("b", protocols=BOTH).waits


def test_a_member_may_not_drop_the_common_protocol(group: GroupDriver) -> None:
    group.stabilize("a", "b", protocols=BOTH)
    assert group.join("b", protocols=RANGE).waits
    assert group.join("a", protocols={"sticky": b""}).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_with_the_most_votes_wins(group: GroupDriver) -> None:
    group.join("a", protocols={"range": subscription("t"), "sticky": subscription("t")})
    calls = [group.join(name, protocols={"sticky": subscription(), "range": subscription()}) for name in "bc"]
    group.advance(ms=6_000)
    assert calls[0].response.protocol_name == "sticky"
    assert calls[0].response.protocol_type == "consumer"


def test_a_protocol_that_not_all_know_gets_no_votes(group: GroupDriver) -> None:
    calls = [group.join(name, protocols={"sticky": subscription(), "range": subscription()}) for name in "ab"]
    group.join("c", protocols=RANGE)
    group.advance(ms=9_000)
    assert calls[0].response.protocol_name == "range"


def test_a_full_group_refuses_another_member() -> None:
    group = GroupDriver(max_size=2)
    group.stabilize("a", "b")
    call = group.join("c")
    assert (call.code, call.response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert group.named() == {"a", "b"}


def test_in_a_rebalance_it_is_the_last_to_come_who_find_no_room() -> None:
    group = GroupDriver(max_size=2)
    group.stabilize("a", "b")
    assert group.join("a").waits
    assert group.join("c").waits
    assert group.join("c").waits
    assert group.join("b").code is ErrorCode.GROUP_MAX_SIZE_REACHED
    group.settle()
    assert group.named() == {"a", "c"}


def test_ids_are_given_out_beyond_the_size_and_then_are_worth_nothing() -> None:
    group = GroupDriver(max_size=1)
    first, second = (group.ask_join(name).response.member_id for name in "ab")
    assert group.ask_join("a", member_id=first).waits
    assert group.ask_join("b", member_id=second).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not group.classic.pending


def test_a_group_that_has_become_too_large_is_cut_when_it_is_read_from_the_log() -> None:
    group = GroupDriver()
    group.stabilize("a", "b", "c")
    group.config = GroupDriver(max_size=2).config
    group.restart()
    assert group.state is ClassicState.PREPARING_REBALANCE
    assert group.join("a").waits
    assert group.join("b").waits
    assert group.join("c").code is ErrorCode.GROUP_MAX_SIZE_REACHED
    group.settle()
    assert group.named() == {"a", "b"}


def test_a_follower_that_rejoins_unchanged_starts_no_rebalance(group: GroupDriver) -> None:
    group.stabilize("a", "b")
    call = group.join("b")
    assert (call.code, call.response.generation_id, call.response.members) == (ErrorCode.NONE, 1, ())
    assert (call.response.leader, call.response.protocol_name) == (group.ids["a"], "range")
    assert group.sync("b").response.assignment == b"b"


def test_a_follower_that_reads_something_else_makes_a_rebalance(group: GroupDriver) -> None:
    group.stabilize("a", "b")
    assert group.join("b", protocols={"range": subscription("u")}).waits
    assert group.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("a").response.members[1].metadata == subscription("u")
    assert group.generation == 2


def test_a_response_that_got_lost_is_given_again(group: GroupDriver) -> None:
    for name in "ab":
        group.join(name)
    group.advance(ms=6_000)
    assert len(group.join("a").response.members) == 2
    assert group.join("b").response.members == ()
    assert group.state is ClassicState.COMPLETING_REBALANCE
    assert group.generation == 1


def test_a_member_that_changes_its_mind_before_the_assignment(group: GroupDriver) -> None:
    for name in "ab":
        group.join(name)
    group.advance(ms=6_000)
    waiting = group.sync("b")
    assert group.join("a", protocols={"range": subscription("u")}).waits
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_of_two_join_requests_of_a_member_is_answered(group: GroupDriver) -> None:
    group.stabilize("a", "b")
    first = group.join("a")
    second = group.join("a")
    assert first.code is ErrorCode.REBALANCE_IN_PROGRESS
    group.join("b")
    assert second.response.generation_id == 2


def test_an_empty_group_has_no_members_to_come_back(group: GroupDriver) -> None:
    group.stabilize("a")
    group.leave("a")
    assert group.join("a").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_needs_no_id_first(group: GroupDriver) -> None:
    assert group.ask_join("a", instance_id="i").waits
    assert group.ids["a"].startswith("i-")


def test_a_restarted_static_member_rejoins_without_a_rebalance(group: GroupDriver) -> None:
    group.stabilize("a", "b", instance_id=None)
    group.join("s", instance_id="i")
    group.join("a"), group.join("b")
    group.settle()
    old, generation = group.ids["s"], group.generation
    call = group.join("s2", instance_id="i")
    assert (call.code, call.response.generation_id, call.response.skip_assignment) == (
        ErrorCode.NONE,
        generation,
        False,
    )
    assert group.state is ClassicState.STABLE
    assert group.sync("s2").response.assignment == b"s"
    assert group.heartbeat("s", member_id=old) is ErrorCode.FENCED_INSTANCE_ID
    assert group.heartbeat("s2") is ErrorCode.NONE
    group.restart()
    assert group.heartbeat("s2") is ErrorCode.NONE
    assert group.heartbeat("s", member_id=old) is ErrorCode.FENCED_INSTANCE_ID


def test_a_restarted_static_leader_skips_the_assignment(group: GroupDriver) -> None:
    group.stabilize("s", instance_id="i")
    call = group.join("s2", instance_id="i")
    assert call.response.skip_assignment
    assert call.response.leader == call.response.member_id
    assert [member.member_id for member in call.response.members] == [call.response.member_id]


def test_a_static_leader_that_cannot_skip_assignment_is_answered_another_leader(group: GroupDriver) -> None:
    group.stabilize("s", instance_id="i")
    old = group.ids["s"]
    call = group.join("s2", instance_id="i", version=8)
    assert (call.response.leader, call.response.members, call.response.skip_assignment) == (old, (), False)
    assert group.sync("s2").response.assignment == b"s"


def test_a_static_member_that_comes_back_may_read_other_topics(group: GroupDriver) -> None:
    group.stabilize("s", instance_id="i", protocols={"range": subscription("t")})
    group.join("s2", instance_id="i", protocols={"range": subscription("u")})
    assert (group.classic.is_subscribed("t"), group.classic.is_subscribed("u")) == (False, True)


def test_a_static_member_with_another_protocol_makes_a_rebalance(group: GroupDriver) -> None:
    group.stabilize("s", instance_id="i", protocols=BOTH)
    call = group.join("s2", instance_id="i", protocols={"sticky": b"\x00\x00\x00\x00\x00\x00", "range": b""})
    assert call.response.protocol_name == "sticky"
    assert group.generation == 2


def test_the_predecessor_of_a_static_member_is_fenced_where_it_waits(group: GroupDriver) -> None:
    first = group.join("s", instance_id="i")
    second = group.join("s2", instance_id="i")
    assert (first.code, first.response.member_id) == (ErrorCode.FENCED_INSTANCE_ID, group.ids["s"])
    group.advance(ms=6_000)
    assert second.response.leader == group.ids["s2"]


def test_the_predecessor_is_fenced_while_it_waits_for_its_assignment(group: GroupDriver) -> None:
    group.join("a")
    group.join("s", instance_id="i")
    group.advance(ms=6_000)
    waiting = group.sync("s")
    assert group.join("s2", instance_id="i").waits
    assert waiting.code is ErrorCode.FENCED_INSTANCE_ID
    assert group.state is ClassicState.PREPARING_REBALANCE


def test_restarted_static_members_that_have_not_synced(group: GroupDriver) -> None:
    group.join("a")
    group.join("s", instance_id="i")
    group.advance(ms=6_000)
    group.sync("a", {"a": b"1", "s": b"2"})
    group.join("s2", instance_id="i")
    assert group.classic.pending_sync == {group.ids["s2"]}
    assert group.sync("s2").response.assignment == b"2"
    assert not group.classic.pending_sync


def test_a_static_member_with_an_old_id_is_fenced(group: GroupDriver) -> None:
    group.stabilize("s", instance_id="i")
    group.join("s2", instance_id="i")
    call = group.join("s")
    assert (call.code, call.response.protocol_name) == (ErrorCode.FENCED_INSTANCE_ID, None)
    assert group.join("x", member_id="m", instance_id="j").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_rejoin_whose_write_fails_is_undone(group: GroupDriver) -> None:
    group.stabilize("s", instance_id="i")
    before = group.group
    group.log_error = ErrorCode.NOT_COORDINATOR
    assert group.join("s2", instance_id="i").code is ErrorCode.NOT_COORDINATOR
    assert group.group is before
    assert group.heartbeat("s") is ErrorCode.NONE


def test_a_group_that_cannot_be_written_down_is_not_made(group: GroupDriver) -> None:
    group.log_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.join("a").code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.group is None
    assert not group.timers
