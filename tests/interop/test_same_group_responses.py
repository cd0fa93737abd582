"""The bundled broker answers about groups as Apache Kafka does: every version of every API, field by field."""

from collections.abc import Iterator
from typing import Any

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.messages.delete_groups import DeleteGroupsRequest
from spark_kafka_native._protocol.messages.describe_groups import DescribeGroupsRequest
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from spark_kafka_native._protocol.messages.list_groups import ListGroupsRequest
from spark_kafka_native._protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from spark_kafka_native._protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.groups.classic_driver import subscription
from tests.support.requests.conversation import Conversation
from tests.support.requests.of_topic import offset_delete, offset_fetch
from tests.support.requests.same_responses import Both, compare_brokers
from tests.support.servers.both_brokers import kafka_of_its_own
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

ABSENT = ("", "no-such-group")


@pytest.fixture(scope="module")
def kafka_broker() -> Iterator[EmbeddedBroker]:
    """The bundled broker, set up for groups as the Apache Kafka of these tests."""
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 3}
    with EmbeddedBroker(settings=settings) as broker:
        yield broker


apache_kafka = kafka_of_its_own()
"""Other tests commit in the name of the group without a name."""


@pytest.fixture
def both(both: Both) -> Both:
    """With coordinators that have been looked up, which makes the topic of groups on Apache Kafka."""
    for broker in (both.ours, both.theirs):
        broker.ask(FindCoordinatorRequest(key=group_of(broker)), 0)
    return both


def group_of(broker: Conversation) -> str:
    return broker.topic("group")


def join_request(broker: Conversation, member_id: str = "", **others: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "group_id": group_of(broker),
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": (
            JoinGroupRequestProtocol(name="range", metadata=subscription("t")),
            JoinGroupRequestProtocol(name="sticky", metadata=b""),
        ),
    } | others
    return JoinGroupRequest(member_id=member_id, **fields)


def stable(broker: Conversation, **others: Any) -> str:
    """Make the group stable with one member; its id."""
    given = broker.response(join_request(broker, **others), 9)
    joined = given if others.get("group_instance_id") else broker.response(join_request(broker, given.member_id), 9)
    request = SyncGroupRequest(
        group_id=group_of(broker),
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name,
        assignments=(SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all"),),
    )
    broker.ask(request, 5)
    return joined.member_id


def state(broker: Conversation) -> str:
    return broker.response(DescribeGroupsRequest(groups=(group_of(broker),)), 5).groups[0].group_state


def leave(broker: Conversation, member_id: str) -> None:
    broker.ask(LeaveGroupRequest(group_id=group_of(broker), member_id=member_id), 0)


def commit(broker: Conversation, version: int, note: str = "", **others: Any) -> None:
    parts = tuple(OffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in (0, 7))
    topic = OffsetCommitRequestTopic(name=broker.topic("t"), topic_id=broker.topic_id("t"), partitions=parts)
    fields: dict[str, Any] = {"group_id": group_of(broker), "topics": (topic,)} | others
    broker.ask(OffsetCommitRequest(**fields), version, note)


@compare_brokers
def test_joining(broker: Conversation) -> None:
    for version in range(10):
        for fields in (
            {"group_id": ""},
            {"session_timeout_ms": 5_999},
            {"session_timeout_ms": 1_800_001},
            {"member_id": "unknown"},
            {"protocols": ()},
            {"protocol_type": ""},
        ):
            broker.ask(join_request(broker, **fields), version, f"{fields}")
        given = broker.response(join_request(broker), 9).member_id
        broker.ask(join_request(broker, given), version)
        broker.ask(join_request(broker, given), version, "again")
        broker.ask(join_request(broker, given, protocol_type="connect"), version, "of another kind")
        broker.ask(join_request(broker, given, protocols=(JoinGroupRequestProtocol(name="other"),)), version, "unknown")
        leave(broker, given)
        broker.ask(join_request(broker, given), version, "after leaving")
    for version in range(4, 10):
        broker.ask(join_request(broker), version, "without an id")


@compare_brokers
def test_static_members(broker: Conversation) -> None:
    for version in range(5, 10):
        before = stable(broker, group_instance_id="i")
        broker.ask(join_request(broker, group_instance_id="i"), version, "takes its place again")
        broker.ask(join_request(broker, before, group_instance_id="i"), version, "comes too late")
        broker.ask(join_request(broker, "unknown", group_instance_id="j"), version, "unknown")
        identities = (
            MemberIdentity(member_id=before, group_instance_id="i"),
            MemberIdentity(member_id="", group_instance_id="j"),
            MemberIdentity(member_id="", group_instance_id="i"),
        )
        broker.ask(LeaveGroupRequest(group_id=group_of(broker), members=identities), min(version, 5))


@compare_brokers
def test_syncing_and_heartbeats(broker: Conversation) -> None:
    member_id = stable(broker)
    for version in range(6):
        for fields in (
            {},
            {"group_id": ""},
            {"group_id": "no-such-group"},
            {"member_id": "unknown"},
            {"generation_id": 9},
            {"protocol_type": "connect"},
            {"protocol_name": None},
        ):
            common: dict[str, Any] = {"group_id": group_of(broker), "member_id": member_id, "generation_id": 1}
            agreed = {"protocol_type": "consumer", "protocol_name": "range"}
            broker.ask(SyncGroupRequest(**(common | agreed | fields)), version, f"{fields}")
            alive = {name: value for name, value in (common | fields).items() if name in common}
            if version < 5:
                broker.ask(HeartbeatRequest(**alive), version, f"{fields}")
            if version in {3, 4}:
                static = {**alive, "group_instance_id": "unknown"}
                broker.ask(HeartbeatRequest(**static), version, f"{fields} static")


@compare_brokers
def test_leaving(broker: Conversation) -> None:
    for version in range(3):
        for group in (group_of(broker), *ABSENT):
            broker.ask(LeaveGroupRequest(group_id=group, member_id="unknown"), version, group)
        broker.ask(LeaveGroupRequest(group_id=group_of(broker), member_id=stable(broker)), version)
    for version in range(3, 6):
        members = (MemberIdentity(member_id="unknown"), MemberIdentity(member_id="", group_instance_id="unknown"))
        for group in (group_of(broker), *ABSENT):
            broker.ask(LeaveGroupRequest(group_id=group, members=members), version, group)
        members = (MemberIdentity(member_id=stable(broker)), MemberIdentity(member_id="unknown"))
        broker.ask(LeaveGroupRequest(group_id=group_of(broker), members=members), version)
        broker.ask(LeaveGroupRequest(group_id=group_of(broker), members=()), version, "no member at all")


@compare_brokers
def test_commits_of_members(broker: Conversation) -> None:
    broker.create("t")
    member_id = stable(broker)
    for version in range(2, 11):
        commit(broker, version, "outside")
        commit(broker, version, "unknown", member_id="unknown", generation_id_or_member_epoch=1)
        commit(broker, version, "old", member_id=member_id, generation_id_or_member_epoch=0)
        commit(broker, version, "without generation", member_id=member_id)
        commit(broker, version, "without id", generation_id_or_member_epoch=1)
        commit(broker, version, "member", member_id=member_id, generation_id_or_member_epoch=1)
        if version >= 7:
            instance = {"group_instance_id": "unknown", "member_id": member_id}
            commit(broker, version, "static", generation_id_or_member_epoch=1, **instance)
    leave(broker, member_id)
    for version in range(2, 11):
        commit(broker, version, "outside, when empty")
        commit(broker, version, "member, when empty", member_id=member_id, generation_id_or_member_epoch=2)
        for group in ABSENT:
            commit(broker, version, "a member", group_id=group, generation_id_or_member_epoch=1, member_id="m")


@compare_brokers
def test_fetching_of_members(broker: Conversation) -> None:
    broker.create("t")
    member_id = stable(broker)
    commit(broker, 9, member_id=member_id, generation_id_or_member_epoch=1)
    for version in range(1, 8):
        for group in (group_of(broker), *ABSENT):
            where: dict[str, Any] = {"version": version, "group_id": group, "require_stable": version >= 7}
            broker.ask(offset_fetch(broker.topic("t"), 0, 7, **where), version, group)
    new = (OffsetFetchRequestTopics(name=broker.topic("t"), topic_id=broker.topic_id("t"), partition_indexes=(0, 7)),)
    for version in range(8, 11):
        for member, epoch in ((None, -1), (member_id, 1), ("unknown", 7)):
            asked = tuple(
                OffsetFetchRequestGroup(group_id=group, topics=topics, member_id=member, member_epoch=epoch)
                for group in (group_of(broker), *ABSENT)
                for topics in (new, None)
            )
            for wanted in asked:
                request = OffsetFetchRequest(groups=(wanted,), require_stable=True)
                broker.ask(request, version, f"{wanted.group_id} {member is None} {epoch}")


@compare_brokers
def test_descriptions_and_lists(broker: Conversation) -> None:
    def look(note: str) -> None:
        groups = (group_of(broker), *ABSENT)
        for version in range(7):
            operations = version >= 3
            request = DescribeGroupsRequest(groups=groups, include_authorized_operations=operations)
            broker.ask(request, version, note)
        for version in range(6):
            response = broker.response(ListGroupsRequest(), version)
            mine = [group for group in response.groups if group.group_id == group_of(broker)]
            listed = [(group.protocol_type, group.group_state, group.group_type) for group in mine]
            broker.responses.append((f"ListGroups v{version} {note}", listed))

    look("before")
    given = broker.response(join_request(broker), 9).member_id
    eventually(lambda: state(broker), "Empty")  # Apache Kafka sends this response before it has written the group
    look("about to join")
    broker.response(LeaveGroupRequest(group_id=group_of(broker), member_id=given), 0)
    member_id = stable(broker, group_instance_id="i")
    look("stable")
    leave(broker, member_id)
    look("empty")


@compare_brokers
def test_deletion(broker: Conversation) -> None:
    broker.create("t")
    broker.create("u")
    for version in range(3):
        member_id = stable(broker)
        commit(broker, 9, member_id=member_id, generation_id_or_member_epoch=1)
        names = (group_of(broker), *ABSENT)
        broker.ask(DeleteGroupsRequest(groups_names=(*names, names[0])), version, "busy")
        leave(broker, member_id)
        broker.ask(DeleteGroupsRequest(groups_names=names), version, "empty")
        broker.ask(DeleteGroupsRequest(groups_names=names), version, "gone")
    topics = tuple(map(broker.topic, ("t", "u", "missing")))
    commit(broker, 8)
    for group in (group_of(broker), *ABSENT):
        broker.ask(offset_delete(*topics, group_id=group, partitions=(0, 7)), 0, group)
    request = offset_delete(*topics, group_id=group_of(broker), partitions=(0, 7))
    member_id = stable(broker)
    broker.ask(request, 0, "read")
    leave(broker, member_id)
    broker.response(join_request(broker, protocol_type="connect", group_instance_id="w"), 9)
    broker.ask(request, 0, "of workers")
