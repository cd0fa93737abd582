from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequestProtocol
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.support.groups.classic_driver import subscription
from tests.support.requests.classic_group import described, join_all, stabilize, sync_all
from tests.support.requests.raw_client import RawClient
from tests.support.servers.brokers import Server, TopicMaker
from tests.system.integration.classic_groups.conftest import MakeMember


@pytest.mark.parametrize("version", range(10))
def test_a_member_alone_in_every_version(member: MakeMember, version: int) -> None:
    alone = member()
    response = alone.join(version)
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, alone.member_id)
    assert (response.protocol_type, response.protocol_name) == ("consumer" if version >= 7 else None, "range")
    (itself,) = response.members
    assert (itself.member_id, itself.metadata) == (alone.member_id, subscription("t"))
    assert alone.sync({alone.member_id: b"all"}).assignment == b"all"
    assert alone.heartbeat() is ErrorCode.NONE


def test_members_share_and_members_leave(member: MakeMember) -> None:
    members = [member() for _ in range(3)]
    responses = join_all(*members)
    assert [len(response.members) for response in responses] == [3, 0, 0]
    assert {response.leader for response in responses} == {members[0].member_id}
    sync_all(*members)
    first, second, third = members
    assert first.leave() is ErrorCode.NONE
    for rest in (second, third):
        rest.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
        rest.begin_join()
    generations = {rest.joined().generation_id for rest in (second, third)}
    assert generations == {first.generation + 1}
    assert first.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_wait_for_the_leader_get_rebalance_in_progress(member: MakeMember) -> None:
    leader, follower, new = member(), member(), member()
    join_all(leader, follower)
    follower.begin_sync()
    new.begin_join()
    assert follower.synced().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.sync().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    for back in (leader, follower):
        back.begin_join()
    assert len({each.joined().generation_id for each in (leader, follower, new)}) == 1


def test_a_silent_member_is_given_up(member: MakeMember) -> None:
    silent, alive = member(), member()
    silent.session_timeout_ms = 300
    join_all(alive, silent)
    alive.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    assert [found.member_id for found in alive.join().members] == [alive.member_id]
    assert silent.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.interop  # for its time
def test_members_that_do_not_rejoin_in_time_are_removed(member: MakeMember) -> None:
    slow, new = member(), member()
    slow.rebalance_timeout_ms = new.rebalance_timeout_ms = 3_000
    stabilize(slow)
    response = new.join()
    assert (response.generation_id, response.leader) == (2, new.member_id)
    assert slow.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.interop  # for its time
def test_members_that_do_not_sync_are_removed(member: MakeMember) -> None:
    leader, follower = member(), member()
    leader.rebalance_timeout_ms = follower.rebalance_timeout_ms = 3_000
    join_all(leader, follower)
    leader.sync({leader.member_id: b"all"})
    leader.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    assert follower.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(leader.join().members) == 1


def test_the_protocol_that_all_know_is_chosen_by_votes(member: MakeMember) -> None:
    members = [member() for _ in range(3)]
    both = {"sticky": subscription(), "range": subscription()}
    for each, protocols in zip(
        members, ({"range": b"r", "sticky": b"s"}, both, {"sticky": b"s", "range": b"r", "other": b""}), strict=True
    ):
        each.protocols = protocols
    responses = join_all(*members)
    assert {response.protocol_name for response in responses} == {"sticky"}
    assert [found.metadata for found in responses[0].members if found.member_id == members[0].member_id] == [b"s"]


def test_a_follower_that_rejoins_unchanged_starts_no_rebalance(member: MakeMember) -> None:
    leader, follower = member(), member()
    stabilize(leader, follower)
    response = follower.join()
    assert (response.error_code, response.generation_id, response.members) == (0, leader.generation, ())
    assert leader.heartbeat() is ErrorCode.NONE
    leader.begin_join()
    follower.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    follower.begin_join()
    assert {each.joined().generation_id for each in (leader, follower)} == {response.generation_id + 1}


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_restarted_static_leader_rejoins_without_a_rebalance(
    server: Server, member: MakeMember, version: int
) -> None:
    before, follower, after = member(instance_id="i"), member(), member(instance_id="i")
    stabilize(before, follower)
    response = after.join(version)
    assert (response.error_code, response.generation_id) == (0, before.generation)
    assert after.member_id != before.member_id
    assert response.skip_assignment is (version >= 9)
    assert response.leader == (after.member_id if version >= 9 else before.member_id)
    assert len(response.members) == (2 if version >= 9 else 0)
    assert after.sync().assignment == before.member_id.encode()
    assert follower.heartbeat() is ErrorCode.NONE
    assert before.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert before.sync().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert before.commit(TopicMaker(server)(), 1) is ErrorCode.FENCED_INSTANCE_ID
    assert before.leave() is ErrorCode.FENCED_INSTANCE_ID
    fenced = before.join(version)
    assert (fenced.error_code, fenced.member_id) == (ErrorCode.FENCED_INSTANCE_ID, before.member_id)


def test_the_predecessor_of_a_static_member_is_fenced_where_it_waits(member: MakeMember) -> None:
    leader, before, after = member(), member(instance_id="i"), member(instance_id="i")
    join_all(leader, before)
    before.begin_sync()
    after.begin_join()
    assert before.synced().error_code == ErrorCode.FENCED_INSTANCE_ID
    leader.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    leader.begin_join()
    assert {each.joined().error_code for each in (leader, after)} == {0}


def test_an_administrator_lets_static_members_go(member: MakeMember, admin: RawClient, group_id: str) -> None:
    stabilize(member(instance_id="i"))
    identities = (MemberIdentity(member_id="", group_instance_id="i"), MemberIdentity(member_id="unknown"))
    response = admin.ask(LeaveGroupRequest(group_id=group_id, members=identities), 5)
    assert response.error_code == 0
    assert {(found.group_instance_id, found.error_code) for found in response.members} == {
        ("i", 0),
        (None, ErrorCode.UNKNOWN_MEMBER_ID),
    }
    assert described(admin, group_id).group_state == "Empty"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 99}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "unknown", "group_instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (JoinGroupRequestProtocol(name="sticky"),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({}, ErrorCode.MEMBER_ID_REQUIRED),
    ],
)
def test_invalid_joins_are_refused(member: MakeMember, fields: dict[str, Any], code: ErrorCode) -> None:
    stabilize(member())
    sender = member()
    response = sender.client.ask(sender.join_request(**fields), 9)
    assert response.error_code == code
    assert response.generation_id == -1
    assert (response.protocol_type, response.leader, response.members) == (None, "", ())
    if code is not ErrorCode.MEMBER_ID_REQUIRED:
        assert response.member_id == fields.get("member_id", "")


def test_a_full_group(member: MakeMember) -> None:
    members = [member() for _ in range(4)]
    stabilize(*members)
    response = (late := member()).client.ask(late.join_request(), 9)
    assert (response.error_code, response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert members[3].join().error_code == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "no-such-group"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_sync_group_and_heartbeat_of_unknown_members_are_refused(
    member: MakeMember, fields: dict[str, Any], code: ErrorCode
) -> None:
    sender = member()
    stabilize(sender)
    assert sender.client.ask(sender.sync_request(**fields), 5).error_code == code
    assert sender.heartbeat(**fields) is code


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}])
def test_a_sync_with_another_protocol_is_refused(member: MakeMember, fields: dict[str, Any]) -> None:
    sender = member()
    sender.join()
    request = sender.sync_request(**fields)
    assert sender.client.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(6))
def test_leaving_in_every_version(member: MakeMember, admin: RawClient, group_id: str, version: int) -> None:
    leaves = member()
    stabilize(leaves)
    assert leaves.leave(version) is ErrorCode.NONE
    assert leaves.leave(version) is ErrorCode.UNKNOWN_MEMBER_ID
    assert described(admin, group_id).group_state == "Empty"
    assert leaves.leave(version, "no-such-group") is ErrorCode.UNKNOWN_MEMBER_ID
    assert leaves.leave(version, "") is ErrorCode.INVALID_GROUP_ID
