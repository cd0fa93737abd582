"""Assigned partitions that cannot be read yet: they have no leader, or are newer than a broker's metadata."""

import pytest
from dirty_equals import HasLen

from spark_kafka_native._client.groups.member_metadata import encode_partitions
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.consuming import Consuming, both_protocols, with_protocol
from tests.support.clients.scripted_member import (
    ALL,
    assigning,
    brokers_of_a_group,
    group_of,
    member_options,
    wait_for_requests,
)
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.groups import FakeGroup
from tests.support.scripted.partitions import FakePartition
from tests.support.scripted.steps import Refuse, Respond
from tests.support.waiting import eventually

NEW = TopicPartition("t", 2)

brokers = brokers_of_a_group(brokers=1)


@pytest.fixture
def options(brokers: ScriptedCluster, protocol: str) -> dict[str, object]:
    return with_protocol(member_options(brokers), protocol)


def add_partition(brokers: ScriptedCluster, leader: int) -> FakePartition:
    """The partition `NEW`, with one record."""
    partition = FakePartition(leader=leader)
    partition.append(batch_of([b"6"]))
    with brokers.state.lock:
        brokers.state.topics["t"].partitions[NEW.partition] = partition
    return partition


def assign_new(brokers: ScriptedCluster, protocol: str) -> None:
    """Let the coordinator assign `NEW`, too, whether or not it exists."""
    parts = range(NEW.partition + 1)
    if protocol == "classic":
        assignment = encode_partitions([TopicPartition("t", number) for number in parts])
        brokers.script(SyncGroupRequest, Respond(lambda _: SyncGroupResponse(assignment=assignment)))
        return
    step = assigning({brokers.state.topics["t"].topic_id: parts})
    brokers.script(ConsumerGroupHeartbeatRequest, *[step] * 10_000)


def wait_for_heartbeats(brokers: ScriptedCluster, protocol: str, more: int) -> None:
    wait_for_requests(brokers, HeartbeatRequest if protocol == "classic" else ConsumerGroupHeartbeatRequest, more)


@both_protocols
def test_a_partition_without_a_leader_does_not_delay_the_others_and_is_read_once_it_has_one(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    partition = add_partition(brokers, leader=-1)
    with Consuming(options, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        wait_for_heartbeats(brokers, protocol, 3)
        assert consuming.partitions == [("t", 0), ("t", 1)]
        partition.leader = 1
        eventually(lambda: sorted(consuming.values), [*ALL, 6])
    assert consuming.errors == []
    assert group_of(brokers).joined == 1
    assert "group g: no offset to begin at yet for t-2, which is tried again: " in caplog.text


@both_protocols
def test_an_assigned_partition_that_is_newer_than_the_metadata_is_read_once_the_metadata_has_it(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str
) -> None:
    brokers.state.groups["g"] = FakeGroup()
    assign_new(brokers, protocol)
    with Consuming(options | {"metadata.max.age.ms": 600_000}, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        wait_for_heartbeats(brokers, protocol, 3)
        add_partition(brokers, leader=1)
        eventually(lambda: sorted(consuming.values), [*ALL, 6])
    assert consuming.errors == []


@both_protocols
def test_a_partition_that_cannot_be_read_yet_can_be_given_up(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str
) -> None:
    add_partition(brokers, leader=-1)
    kind = HeartbeatRequest if protocol == "classic" else ConsumerGroupHeartbeatRequest
    with Consuming(options, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        eventually(
            lambda: {part.partition: each[0] for (_, part), each in brokers.state.committed.items()}, {0: 3, 1: 3}
        )
        brokers.script(kind, Refuse(ErrorCode.UNKNOWN_MEMBER_ID))
        eventually(lambda: group_of(brokers).joined, 2)
        eventually(lambda: consuming.partitions, [("t", 0), ("t", 1)])
        brokers.partition("t").append(batch_of([b"7"]))
        eventually(lambda: sorted(consuming.values), [*ALL, 7])
    assert consuming.errors == []


@both_protocols
def test_an_error_of_a_partition_that_a_retry_cannot_help_is_raised_after_a_leader_was_missing(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str
) -> None:
    partition = add_partition(brokers, leader=-1)
    with Consuming(options, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        brokers.script(ListOffsetsRequest, Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        partition.leader = 1
        eventually(lambda: [str(error) for error in consuming.errors], HasLen(1))
    assert "t-2" in str(consuming.errors[0])


@both_protocols
def test_a_partition_with_a_committed_offset_that_is_newer_than_the_metadata_is_read_once_the_metadata_has_it(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.state.groups["g"] = FakeGroup()
    brokers.state.committed["g", NEW] = (0, -1, "")
    assign_new(brokers, protocol)
    with Consuming(options, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        eventually(lambda: "t-2 does not exist: the topic has 2 partitions" in caplog.text, expected=True)
        add_partition(brokers, leader=1)
        eventually(lambda: sorted(consuming.values), [*ALL, 6])
    assert consuming.errors == []
