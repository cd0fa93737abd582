from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.delete_groups import DeleteGroupsRequest
from spark_kafka_native._protocol.messages.describe_groups import DescribeGroupsRequest
from spark_kafka_native._protocol.messages.list_groups import ListGroupsRequest
from tests.support.groups.classic_driver import subscription
from tests.support.requests.classic_group import described, stabilize, sync_all
from tests.support.requests.committed_offsets import committed_offset
from tests.support.requests.of_topic import offset_delete
from tests.support.requests.raw_client import RawClient
from tests.support.servers.brokers import Server, TopicMaker
from tests.system.integration.classic_groups.conftest import MakeMember


def test_commits_by_member_and_generation(server: Server, member: MakeMember, admin: RawClient, group_id: str) -> None:
    topic = TopicMaker(server)()
    first, second = member(), member()
    stabilize(first)
    assert first.commit(topic, 5) is ErrorCode.NONE
    outside: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    assert first.commit(topic, 6, **outside) is ErrorCode.UNKNOWN_MEMBER_ID
    assert first.commit(topic, 6, member_id="unknown") is ErrorCode.UNKNOWN_MEMBER_ID
    assert first.commit(topic, 6, generation_id_or_member_epoch=7) is ErrorCode.ILLEGAL_GENERATION
    assert first.commit(topic, 6, group_instance_id="unknown") is ErrorCode.UNKNOWN_MEMBER_ID
    second.begin_join()
    first.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    assert first.commit(topic, 7) is ErrorCode.NONE
    first.begin_join()
    for each in (first, second):
        each.joined()
    assert first.commit(topic, 8) is ErrorCode.REBALANCE_IN_PROGRESS
    sync_all(first, second)
    assert committed_offset(admin, group_id, topic) == 7
    for each in (first, second):
        assert each.leave() is ErrorCode.NONE
    assert first.commit(topic, 9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert first.commit(topic, 9, **outside) is ErrorCode.NONE
    assert committed_offset(admin, group_id, topic) == 9


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_commits_of_members_of_no_group(server: Server, member: MakeMember, version: int, code: ErrorCode) -> None:
    topic = TopicMaker(server)()
    assert member().commit(topic, 5, version=version, generation_id_or_member_epoch=1, member_id="m") is code


def test_positions_that_members_need_are_not_deleted(
    server: Server, member: MakeMember, admin: RawClient, group_id: str
) -> None:
    read, left = TopicMaker(server)(), TopicMaker(server)()
    reader = member(topics=(read,))
    stabilize(reader)
    for topic in (read, left):
        assert reader.commit(topic, 5) is ErrorCode.NONE

    def delete(group: str) -> tuple[int, dict[str, int]]:
        response = admin.ask(offset_delete(read, left, "missing", group_id=group), 0)
        return response.error_code, {topic.name: topic.partitions[0].error_code for topic in response.topics}

    missing = {"missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert delete(group_id) == (0, {read: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, left: 0} | missing)
    assert [committed_offset(admin, group_id, topic) for topic in (read, left)] == [5, -1]
    reader.leave()
    assert delete(group_id) == (0, {read: 0, left: 0} | missing)
    assert committed_offset(admin, group_id, read) == -1
    assert delete("no-such-group") == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert delete("") == (ErrorCode.INVALID_GROUP_ID, {})


@pytest.mark.parametrize("version", range(7))
def test_descriptions(member: MakeMember, admin: RawClient, group_id: str, version: int) -> None:
    static = member(instance_id="i")
    absent = described(admin, group_id, version)
    assert (absent.group_state, absent.members, absent.protocol_type) == ("Dead", (), "")
    assert absent.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    static.join()
    joining = described(admin, group_id, version)
    assert (joining.group_state, joining.protocol_type, joining.protocol_data) == (
        "CompletingRebalance",
        "consumer",
        "",
    )
    static.sync({static.member_id: b"all"})
    group = described(admin, group_id, version)
    assert (group.error_code, group.group_state, group.protocol_data) == (0, "Stable", "range")
    (found,) = group.members
    assert (found.member_id, found.client_id, found.client_host) == (static.member_id, "raw", "/127.0.0.1")
    assert found.group_instance_id == ("i" if version >= 4 else None)
    assert (found.member_metadata, found.member_assignment) == (subscription("t"), b"all")
    static.leave()
    empty = described(admin, group_id, version)
    assert (empty.group_state, empty.protocol_type, empty.protocol_data, empty.members) == ("Empty", "consumer", "", ())


def test_operations_that_are_allowed(member: MakeMember, admin: RawClient, group_id: str) -> None:
    stabilize(member())
    request = DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=True)
    (group,) = admin.ask(request, 5).groups
    assert {bit for bit in range(32) if group.authorized_operations >> bit & 1} == {3, 6, 8, 10, 11}


def test_lists(server: Server, member: MakeMember, admin: RawClient, group_id: str) -> None:
    topic = TopicMaker(server)()
    simple = f"{group_id}-simple"
    assert member().commit(topic, 5, group_id=simple) is ErrorCode.NONE
    stabilize(member())

    def listed(version: int, **filters: tuple[str, ...]) -> dict[str, tuple[str, str, str]]:
        response = admin.ask(ListGroupsRequest(**filters), version)
        assert response.error_code == 0
        return {
            group.group_id: (group.protocol_type, group.group_state, group.group_type)
            for group in response.groups
            if group.group_id in {group_id, simple}
        }

    for version in range(6):
        state = ("Stable", "Empty") if version >= 4 else ("", "")
        kind = "classic" if version >= 5 else ""
        assert listed(version) == {group_id: ("consumer", state[0], kind), simple: ("", state[1], kind)}
    assert set(listed(5, states_filter=("stable",))) == {group_id}
    assert set(listed(5, states_filter=("Empty", "Dead"))) == {simple}
    assert set(listed(5, types_filter=("CLASSIC",))) == {group_id, simple}
    assert set(listed(5, types_filter=("consumer",))) == set()
    assert set(listed(5, types_filter=("nonsense",))) == set()


@pytest.mark.parametrize("version", range(3))
def test_deletion(server: Server, member: MakeMember, admin: RawClient, group_id: str, version: int) -> None:
    topic = TopicMaker(server)()

    def delete(*groups: str) -> dict[str, int]:
        response = admin.ask(DeleteGroupsRequest(groups_names=groups), version)
        return {result.group_id: result.error_code for result in response.results}

    busy = member()
    stabilize(busy)
    busy.commit(topic, 5)
    assert delete(group_id, "no-such-group", "") == {
        group_id: ErrorCode.NON_EMPTY_GROUP,
        "no-such-group": ErrorCode.GROUP_ID_NOT_FOUND,
        "": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    busy.leave()
    assert delete(group_id) == {group_id: 0}
    assert committed_offset(admin, group_id, topic) == -1
    assert described(admin, group_id).group_state == "Dead"
    assert busy.client.ask(busy.join_request(), 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID
