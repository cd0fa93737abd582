from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker_embedded._groups.consumer.config import ConsumerConfig, MigrationPolicy
from broker_embedded._groups.consumer.member import MemberState
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from spark_kafka_native._protocol.messages.leave_group import MemberIdentity
from tests.support.groups.classic_requests import ClassicClient
from tests.support.groups.consumer_driver import ConsumerDriver


@pytest.fixture
def group() -> ConsumerDriver:
    group = ConsumerDriver(t=4)
    group.join("a", topics=["t"])
    return group


@pytest.fixture
def old(group: ConsumerDriver) -> ClassicClient:
    """A member of the classic protocol that has its two partitions."""
    client = ClassicClient(topics=("t",))
    group.classic_join(client)
    group.classic_sync(client)
    bring_to_rest(group, client)
    assert (len(group.owned("a")), len(client.owned["t"])) == (2, 2)
    return client


def bring_to_rest(group: ConsumerDriver, *clients: ClassicClient) -> None:
    for _ in range(6):
        for name in group.clients:
            group.beat(name)
        for client in clients:
            group.classic_round(client)
        group.advance(1000)
    assert group.state == "Stable"


def code_of(request: Callable[[], Any]) -> ErrorCode:
    try:
        response = request()
    except KafkaError as error:
        return error.code
    return response if isinstance(response, ErrorCode) else ErrorCode.of(response.error_code)


def sync_code(group: ConsumerDriver, client: ClassicClient, **fields: object) -> ErrorCode:
    return code_of(lambda: group.classic_sync(client, **fields))


def beat_code(group: ConsumerDriver, client: ClassicClient, **fields: object) -> ErrorCode:
    return code_of(lambda: group.classic_beat(client, **fields))


def test_a_join_is_answered_at_once_with_the_epoch_as_generation(group: ConsumerDriver) -> None:
    client = ClassicClient(topics=("t",))
    response = group.classic_join(client)
    assert isinstance(response, JoinGroupResponse)
    assert (response.generation_id, response.protocol_type, response.protocol_name) == (
        3,
        "consumer",
        "cooperative-sticky",
    )
    assert (response.leader, response.members, response.skip_assignment) == ("", (), False)
    assert group.consumer_group.members[client.member_id].state is MemberState.UNRELEASED_PARTITIONS


def test_partitions_pass_from_one_protocol_to_the_other(group: ConsumerDriver, old: ClassicClient) -> None:
    group.join("b", topics=["t"])
    bring_to_rest(group, old)
    assert sorted([len(group.owned("a")), len(group.owned("b")), len(old.owned["t"])]) == [1, 1, 2]
    group.leave("a")
    bring_to_rest(group, old)
    assert len(old.owned["t"]) == 2


def test_a_heartbeat_sends_back_to_join_when_there_is_another_step(group: ConsumerDriver, old: ClassicClient) -> None:
    assert beat_code(group, old) is ErrorCode.NONE
    group.topic("t", 6)
    assert beat_code(group, old) is ErrorCode.NONE, "there is no new target yet"
    group.beat("a")
    assert beat_code(group, old) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_waits_for_partitions_does_not_rejoin(group: ConsumerDriver) -> None:
    group.clients["a"].holds_on = True
    client = ClassicClient(topics=("t",))
    group.classic_join(client)
    assert sync_code(group, client) is ErrorCode.NONE
    assert client.owned == {}
    group.beat("a")
    assert beat_code(group, client) is ErrorCode.NONE
    group.give_back("a")
    assert beat_code(group, client) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_eager_member_has_nothing_when_it_joins(group: ConsumerDriver) -> None:
    client = ClassicClient(topics=("t",))
    metadata = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"
    protocols = (JoinGroupRequestProtocol(name="range", metadata=metadata),)
    group.classic_join(client, protocols=protocols)
    sync_code(group, client, protocol_name="range")
    group.beat("a")
    group.beat("a")
    assert beat_code(group, client) is ErrorCode.REBALANCE_IN_PROGRESS
    group.classic_join(client, protocols=protocols)
    sync_code(group, client, protocol_name="range")
    assert len(client.owned["t"]) == 2
    group.subscribe("a", topics=["t", "u"])
    group.join("b", topics=["t"])
    while beat_code(group, client) is ErrorCode.REBALANCE_IN_PROGRESS:
        group.classic_join(client, protocols=protocols)
        sync_code(group, client, protocol_name="range")
    group.settle()
    assert group.state == "Stable"


def test_a_new_member_is_given_its_id_first(group: ConsumerDriver) -> None:
    client = ClassicClient(topics=("t",))
    assert group.classic_code(client, version=3) is ErrorCode.NONE, "old clients join at once"
    other = ClassicClient(topics=("t",))
    group.classic_join(other)
    assert other.member_id in group.consumer_group.members


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (JoinGroupRequestProtocol(name="x", metadata=b""),)}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"group_instance_id": "i", "member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_invalid_classic_joins_are_refused(group: ConsumerDriver, fields: dict[str, object], code: ErrorCode) -> None:
    assert group.classic_code(ClassicClient(topics=("t",)), **fields) is code
    assert list(group.consumer_group.members) == ["a-id"]


def test_all_members_of_the_classic_protocol_need_one_in_common(group: ConsumerDriver, old: ClassicClient) -> None:
    other = (JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"),)
    client = ClassicClient(topics=("t",))
    assert group.classic_code(client, protocols=other) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert old.member_id in group.consumer_group.members


def test_a_classic_join_is_refused_where_migration_is_disabled(group: ConsumerDriver, old: ClassicClient) -> None:
    group.config = replace(group.config, migration_policy=MigrationPolicy.DISABLED)
    assert group.classic_code(ClassicClient(topics=("t",))) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.classic_code(old) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_refuses_another_member() -> None:
    group = ConsumerDriver(ConsumerConfig(assignment_interval_ms=0, max_size=1), t=4)
    group.join("a", topics=["t"])
    assert group.classic_code(ClassicClient(topics=("t",))) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_restarted_static_member_replaces_itself(group: ConsumerDriver) -> None:
    first = ClassicClient(topics=("t",), instance_id="i")
    group.classic_join(first)
    group.classic_sync(first)
    bring_to_rest(group, first)
    second = ClassicClient(topics=("t",), instance_id="i")
    group.classic_join(second)
    group.classic_sync(second)
    assert (second.owned, second.generation) == (first.owned, first.generation)
    assert beat_code(group, first) is ErrorCode.FENCED_INSTANCE_ID
    assert group.classic_code(first) is ErrorCode.FENCED_INSTANCE_ID
    assert beat_code(group, second) is ErrorCode.NONE


def test_a_static_member_changes_over_to_the_new_protocol(group: ConsumerDriver) -> None:
    first = ClassicClient(topics=("t",), instance_id="i")
    group.classic_join(first)
    group.classic_sync(first)
    bring_to_rest(group, first)
    had = {f"t-{number}" for number in first.owned["t"]}
    group.join("b", topics=["t"], instance_id="i")
    assert (group.owned("b"), group.member("b").classic) == (had, None)


def test_sync_group_returns_the_assignment_and_cancels_the_sync_timer(
    group: ConsumerDriver, old: ClassicClient
) -> None:
    group.classic_join(old)
    assert group.timers["sync", old.member_id] == group.now_ms + 60_000
    old.owned = {}
    assert sync_code(group, old) is ErrorCode.NONE
    assert len(old.owned["t"]) == 2
    assert ("sync", old.member_id) not in group.timers
    assert group.timers["session", old.member_id] == group.now_ms + 20_000


def test_sync_with_an_old_target(group: ConsumerDriver, old: ClassicClient) -> None:
    group.topic("t", 6)
    group.beat("a")
    assert sync_code(group, old) is ErrorCode.REBALANCE_IN_PROGRESS
    assert ("join", old.member_id) in group.timers


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"generation_id": 99}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "a-id"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_wrong_member_id_or_generation_is_refused(
    group: ConsumerDriver, old: ClassicClient, fields: dict[str, object], code: ErrorCode
) -> None:
    assert sync_code(group, old, **fields) is code
    assert beat_code(group, old, **fields) is code


def test_protocols_that_were_not_agreed(group: ConsumerDriver, old: ClassicClient) -> None:
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync_code(group, old, protocol_type="connect") is inconsistent
    assert sync_code(group, old, protocol_name="range") is inconsistent
    assert sync_code(group, old, protocol_type=None, protocol_name=None) is ErrorCode.NONE


def test_a_member_that_does_not_come_back_is_given_up(group: ConsumerDriver, old: ClassicClient) -> None:
    group.topic("t", 6)
    group.beat("a")
    assert beat_code(group, old) is ErrorCode.REBALANCE_IN_PROGRESS
    due_ms = group.timers["join", old.member_id]
    group.advance(10_000)
    group.beat("a")
    assert beat_code(group, old) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.timers["join", old.member_id] == due_ms, "a second response does not extend the timeout"
    group.fire(("join", old.member_id))
    assert old.member_id not in group.consumer_group.members
    group.settle()
    assert len(group.owned("a")) == 6


def test_a_member_that_comes_back_in_time_has_all_the_time_again(group: ConsumerDriver, old: ClassicClient) -> None:
    group.topic("t", 6)
    group.beat("a")
    group.classic_round(old)
    assert ("join", old.member_id) not in group.timers
    assert group.consumer_group.must_rejoin == frozenset()


def test_a_member_that_does_not_sync_is_given_up(group: ConsumerDriver) -> None:
    client = ClassicClient(topics=("t",))
    group.classic_join(client, session_timeout_ms=100_000)
    group.clients.clear()
    group.fire(("sync", client.member_id))
    assert client.member_id not in group.consumer_group.members


def test_a_leave_group_removes_members_of_both_protocols(group: ConsumerDriver, old: ClassicClient) -> None:
    group.join("b", topics=["t"], instance_id="i")
    epochs = group.epochs
    assert group.classic_leave(MemberIdentity(member_id="x")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.epochs == epochs
    codes = group.classic_leave(
        MemberIdentity(member_id="x"),
        MemberIdentity(member_id="", group_instance_id="j"),
        MemberIdentity(member_id="x", group_instance_id="i"),
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id=old.member_id),
    )
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes == [unknown, unknown, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NONE, ErrorCode.NONE]
    assert list(group.consumer_group.members) == ["a-id"]
