from pathlib import Path
from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic
from tests.support.broker.driver import BrokerDriver
from tests.support.broker.members import join_request
from tests.support.requests.consumer_group import first_heartbeat


def describe(
    broker: BrokerDriver, group_id: str = "g", *, version: int = 1, operations: bool = False
) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=(group_id,), include_authorized_operations=operations)
    (group,) = broker.ask(request, version).groups
    assert group.group_id == group_id
    return group


def join(broker: BrokerDriver, member_id: str, **fields: Any) -> None:
    assert broker.ask(first_heartbeat(member_id, **fields), 1, client_id="me").error_code == 0


@pytest.fixture
def broker(broker: BrokerDriver) -> BrokerDriver:
    broker.create("t", 2)
    return broker


def test_a_member_in_every_detail(broker: BrokerDriver) -> None:
    join(broker, "a", instance_id="i", rack_id="r", subscribed_topic_regex="u.*", server_assignor="range")
    group = describe(broker)
    assert (group.error_code, group.error_message, group.group_state) == (0, None, "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (2, 2, "range")
    assert group.authorized_operations == -(2**31)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("a", "i", "r", 2)
    assert (member.client_id, member.subscribed_topic_names, member.subscribed_topic_regex) == ("me", ("t",), "u.*")
    assert member.member_type == 1
    (has,) = member.assignment.topic_partitions
    assert (has.topic_id, has.topic_name, has.partitions) == (broker.topic_id("t"), "t", (0, 1))
    assert member.target_assignment == member.assignment


def test_partitions_pending_revocation_are_described_as_assigned(broker: BrokerDriver) -> None:
    join(broker, "a")
    broker.advance(1000)
    join(broker, "b")
    broker.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=2), 1)
    group = describe(broker)
    assert group.group_state == "Reconciling"
    has = {member.member_id: member.assignment.topic_partitions for member in group.members}
    shall = {member.member_id: member.target_assignment.topic_partitions for member in group.members}
    assert [topic.partitions for topic in has["a"]] == [(0, 1)]
    assert has["b"] == ()
    assert [len(topic.partitions) for parts in shall.values() for topic in parts] == [1, 1]


def test_topics_that_are_gone_are_left_out(broker: BrokerDriver) -> None:
    join(broker, "a")
    broker.delete("t")
    (member,) = describe(broker).members
    assert (member.assignment.topic_partitions, member.target_assignment.topic_partitions) == ((), ())
    assert CreatableTopic(name="t").name in member.subscribed_topic_names


def test_members_of_the_classic_protocol(broker: BrokerDriver) -> None:
    join(broker, "a")
    member_id = broker.ask(join_request(), 3).member_id
    types = {member.member_id: member.member_type for member in describe(broker).members}
    assert types == {"a": 1, member_id: 0}
    assert {member.member_type for member in describe(broker, version=0).members} == {-1}


def test_authorized_operations_on_request(broker: BrokerDriver) -> None:
    join(broker, "a")
    assert describe(broker).assignor_name == "uniform"
    allowed = describe(broker, operations=True).authorized_operations
    assert [code for code in range(16) if allowed >> code & 1] == [3, 6, 8, 10, 11]


def test_groups_of_other_types_and_unknown_groups_are_refused(broker: BrokerDriver) -> None:
    assert describe(broker, "").error_code == ErrorCode.INVALID_GROUP_ID
    unknown = describe(broker, "x")
    assert (unknown.error_code, unknown.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found.")
    assert (unknown.group_state, unknown.members) == ("", ())
    broker.ask(join_request("c"), 4)
    classic = describe(broker, "c")
    assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert classic.error_message == "Group c not a consumer group."


def test_older_releases_have_the_protocol_off(tmp_path: Path) -> None:
    with BrokerDriver(tmp_path / "old", {"as.version": "3.9"}) as broker:
        assert describe(broker, version=0).error_code == ErrorCode.UNSUPPORTED_VERSION
