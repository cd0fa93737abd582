"""Assignments of a member of a group: which it carries out, and topics that are away, or not known yet."""

import dataclasses
import uuid

import pytest

from spark_kafka_native._client.groups.member_metadata import decode_partitions, encode_partitions
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.consuming import Consuming, with_protocol
from tests.support.clients.scripted_member import (
    ALL,
    assigning,
    brokers_of_a_group,
    committed,
    count,
    group_of,
    options_of_a_member,
    wait_for_requests,
)
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.steps import Respond
from tests.support.waiting import eventually

CONSUMER = "consumer"

brokers = brokers_of_a_group()
options = options_of_a_member()


def test_an_empty_assignment_is_no_partition(brokers: ScriptedCluster, options: dict[str, object]) -> None:
    brokers.script(SyncGroupRequest, Respond(lambda _: SyncGroupResponse(assignment=b"")))
    with Consuming(options, {"t": 1}) as consuming:
        wait_for_requests(brokers, HeartbeatRequest, 2)
        assert consuming.partitions == []
    assert consuming.errors == []


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_joins_again_after_an_assignment_of_a_topic_that_it_does_not_read(
    brokers: ScriptedCluster, options: dict[str, object], strategy: str, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = encode_partitions([TopicPartition("t", 0), TopicPartition("other", 0)])
    brokers.script(SyncGroupRequest, *[Respond(lambda _: SyncGroupResponse(assignment=foreign))] * 2)
    with Consuming(options | {"partition.assignment.strategy": strategy}, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
    assert (consuming.errors, group_of(brokers).joined) == ([], 3)
    assert "group g: member member-0 was assigned partitions of topics to which it does not subscribe: other" in (
        caplog.text
    )


def test_the_leader_assigns_all_partitions_to_itself(brokers: ScriptedCluster, options: dict[str, object]) -> None:
    with Consuming(options, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
    (request,) = brokers.requests(SyncGroupRequest)
    (assignment,) = request.assignments
    assert assignment.member_id == "member-0"
    assert set(decode_partitions(assignment.assignment)) == {TopicPartition("t", 0), TopicPartition("t", 1)}


def test_a_topic_that_was_away_and_was_created_again_is_read_from_its_beginning(
    brokers: ScriptedCluster, options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    with Consuming(options | {"metadata.max.age.ms": 200}, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        with brokers.state.lock:  # the number of partitions stays, so that the member keeps them
            for number in range(2):
                brokers.partition("t", number).leader = -1
        eventually(lambda: all(f"t-{number} has no leader" in caplog.text for number in range(2)), expected=True)
        with brokers.state.lock:
            brokers.state.create("t", 2)
            for number in ALL:
                brokers.partition("t", number % 2).append(batch_of([b"%d" % (10 + number)]))
        eventually(lambda: sorted(consuming.values), [*ALL, *range(10, 16)])
    assert (consuming.errors, group_of(brokers).joined) == ([], 1)


def test_a_topic_id_that_is_not_known_is_looked_up_until_it_is(
    brokers: ScriptedCluster, options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    topic_id = uuid.uuid4()
    steps = assigning({topic_id: [0]}), *[Respond(heartbeat_of_epoch_1)] * 10_000
    brokers.script(ConsumerGroupHeartbeatRequest, *steps)
    with caplog.at_level("INFO"), Consuming(with_protocol(options, CONSUMER), {"later": 1}) as consuming:
        wait_for_requests(brokers, MetadataRequest, 3)
        assert consuming.errors == []
        brokers.state.create("later", 1)
        brokers.state.topics["later"].topic_id = topic_id
        brokers.partition("later").append(batch_of([b"7"]))
        eventually(lambda: consuming.values, [7])
    assert f"group g: topic ids {topic_id} were assigned" in caplog.text


def test_heartbeats_have_the_pauses_that_the_coordinator_names(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    def later(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        return dataclasses.replace(heartbeat_of_epoch_1(request), heartbeat_interval_ms=600_000)

    first = assigning({brokers.state.topics["t"].topic_id: [0]}, interval_ms=600_000)
    brokers.script(ConsumerGroupHeartbeatRequest, first, *[Respond(later)] * 10_000)
    with Consuming(with_protocol(options, CONSUMER), {"t": 1}) as consuming:
        eventually(lambda: committed(brokers)[0], 3)
        # One joins, and one confirms the assignment.
        assert count(brokers, ConsumerGroupHeartbeatRequest) <= 3
    assert consuming.errors == []


@pytest.mark.parametrize(("instance_id", "epoch"), [("one", -2), (None, -1)], ids=["static", "dynamic"])
def test_only_a_static_member_keeps_its_place_in_the_group_when_it_leaves(
    brokers: ScriptedCluster, options: dict[str, object], instance_id: str | None, epoch: int
) -> None:
    static = {} if instance_id is None else {"group.instance.id": instance_id}
    with Consuming(with_protocol(options, CONSUMER) | static, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
    last = brokers.requests(ConsumerGroupHeartbeatRequest)[-1]
    assert (last.member_epoch, last.instance_id) == (epoch, instance_id)


def heartbeat_of_epoch_1(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=1, heartbeat_interval_ms=20)


def test_another_assignment_replaces_one_with_a_topic_id_that_is_not_known(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    first, second = assigning({uuid.uuid4(): [0]}), assigning({brokers.state.topics["t"].topic_id: [0]})
    steps = first, *[Respond(heartbeat_of_epoch_1)] * 2, second
    brokers.script(ConsumerGroupHeartbeatRequest, *steps, *[Respond(heartbeat_of_epoch_1)] * 10_000)
    with Consuming(with_protocol(options, CONSUMER), {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), [0, 2, 4])
        assert consuming.partitions == [("t", 0)]
    assert consuming.errors == []
