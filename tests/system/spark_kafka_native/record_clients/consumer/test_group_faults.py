"""A member of a group and the faults of its coordinator: what is retried, what makes it join again, what it raises."""

import threading
from typing import Any

import pytest

from spark_kafka_native._client.groups import coordinator_link
from spark_kafka_native._client.groups.consumer_protocol_member import ConsumerProtocolMembership
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.offset_fetch import OffsetFetchRequest
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from spark_kafka_native._protocol.schema import Request
from spark_kafka_native.clients import ConsumerConnector, ConsumerRecord, KafkaError
from tests.support.clients.consuming import Consuming, both_protocols, with_protocol
from tests.support.clients.scripted_member import (
    ALL,
    brokers_of_a_group,
    committed,
    count,
    group_of,
    options_of_a_member,
    wait_for_requests,
)
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.groups import UNDECODABLE
from tests.support.scripted.steps import BROKEN_CONNECTIONS, Drop, Pass, Refuse, Respond, Silent, Step
from tests.support.waiting import eventually

CLASSIC = "classic"
CONSUMER = "consumer"
MOVES: tuple[Step, ...] = tuple(
    Refuse(code)
    for code in (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
)

brokers = brokers_of_a_group()
options = options_of_a_member()


def name_of(value: Any) -> str:
    """The name of a parameter of a test."""
    return value.name if isinstance(value, ErrorCode) else str(getattr(value, "api_name", value))


SETTINGS = {
    ErrorCode.INVALID_SESSION_TIMEOUT: "session.timeout.ms=45000",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "partition.assignment.strategy=range,cooperative-sticky",
    ErrorCode.FENCED_INSTANCE_ID: "group.instance.id=None",
    ErrorCode.UNRELEASED_INSTANCE_ID: "group.instance.id=None",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "group.remote.assignor=None",
}
"""What errors name."""


# --- retried


@pytest.mark.parametrize("step", [*BROKEN_CONNECTIONS, *MOVES], ids=str)
@pytest.mark.parametrize(
    ("protocol", "kind"),
    [
        *((CLASSIC, kind) for kind in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest)),
        *((CLASSIC, kind) for kind in (OffsetCommitRequest, OffsetFetchRequest)),
        *((CONSUMER, kind) for kind in (ConsumerGroupHeartbeatRequest, OffsetCommitRequest)),
    ],
    ids=name_of,
)
def test_a_fault_of_the_coordinator_is_retried_and_no_record_is_lost_or_processed_twice(
    brokers: ScriptedCluster,
    options: dict[str, object],
    protocol: str,
    kind: type[Request[Any]],
    step: Step,
) -> None:
    brokers.script(kind, step, step, Pass(), step)
    with Consuming(with_protocol(options, protocol), {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        if kind in {HeartbeatRequest, ConsumerGroupHeartbeatRequest}:
            wait_for_requests(brokers, kind, 4)
        eventually(lambda: committed(brokers), [3, 3])
    assert sorted(consuming.values) == ALL
    assert consuming.errors == []
    assert committed(brokers) == [3, 3]
    assert group_of(brokers).member_id == "", "the member has left"


@both_protocols
@pytest.mark.parametrize("step", [*BROKEN_CONNECTIONS, Refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)], ids=str)
def test_a_coordinator_that_cannot_be_looked_up_is_looked_up_again(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str, step: Step
) -> None:
    brokers.script(FindCoordinatorRequest, *[step] * 3)
    with Consuming(with_protocol(options, protocol), {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
    assert (sorted(consuming.values), consuming.errors, committed(brokers)) == (ALL, [], [3, 3])


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [(CLASSIC, SyncGroupRequest), (CLASSIC, HeartbeatRequest), (CONSUMER, ConsumerGroupHeartbeatRequest)],
    ids=name_of,
)
def test_a_silent_coordinator_is_asked_again_after_the_request_timeout(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str, kind: type[Request[Any]]
) -> None:
    options |= {"request.timeout.ms": 200, "max.poll.interval.ms": 200}
    brokers.script(kind, Silent())
    with Consuming(with_protocol(options, protocol), {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        wait_for_requests(brokers, kind if kind is not SyncGroupRequest else HeartbeatRequest, 2)
    assert (sorted(consuming.values), consuming.errors, committed(brokers)) == (ALL, [], [3, 3])


@both_protocols
def test_a_member_follows_its_coordinator_without_joining_again(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str
) -> None:
    kind = HeartbeatRequest if protocol == CLASSIC else ConsumerGroupHeartbeatRequest
    with Consuming(with_protocol(options, protocol), {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        brokers.state.coordinator = 2
        eventually(lambda: brokers.nodes(kind)[-1:], [2])
        wait_for_requests(brokers, kind, 2)
        brokers.partition("t").append(batch_of([b"6"]))
        eventually(lambda: sorted(consuming.values), [*ALL, 6])
        eventually(lambda: committed(brokers), [4, 3])
    assert group_of(brokers).joined == 1
    assert brokers.nodes(OffsetCommitRequest)[-1] == 2


@both_protocols
def test_a_member_follows_its_coordinator_when_the_broker_is_lost(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str
) -> None:
    with Consuming(with_protocol(options, protocol), {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        brokers.brokers[1].is_listed = False
        brokers.state.coordinator = 2
        for number in range(2):
            brokers.move_leader("t", number, 2)
        brokers.brokers[1].stop()
        brokers.partition("t").append(batch_of([b"6"]))
        eventually(lambda: sorted(consuming.values), [*ALL, 6], within_s=60)
        eventually(lambda: committed(brokers), [4, 3], within_s=60)
    assert (sorted(consuming.values), consuming.errors, group_of(brokers).joined) == ([*ALL, 6], [], 1)


@both_protocols
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (OffsetFetchRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (OffsetFetchRequest, ErrorCode.UNSTABLE_OFFSET_COMMIT),
        (ListOffsetsRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ListOffsetsRequest, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ListOffsetsRequest, ErrorCode.OFFSET_NOT_AVAILABLE),
    ],
    ids=name_of,
)
def test_errors_of_offsets_are_retried_without_a_rebalance_and_with_heartbeats(
    brokers: ScriptedCluster,
    options: dict[str, object],
    protocol: str,
    kind: type[Request[Any]],
    code: ErrorCode,
) -> None:
    brokers.script(kind, *[Refuse(code)] * 60)
    with Consuming(with_protocol(options, protocol), {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
    assert group_of(brokers).joined == 1
    assert (consuming.errors, committed(brokers)) == ([], [3, 3])


@both_protocols
def test_heartbeats_are_sent_while_an_assignment_cannot_be_carried_out(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str
) -> None:
    kind = HeartbeatRequest if protocol == CLASSIC else ConsumerGroupHeartbeatRequest
    brokers.script(ListOffsetsRequest, *[Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * 1_000_000)
    options |= {"session.timeout.ms": 200}
    with Consuming(with_protocol(options, protocol), {"t": 1}) as consuming:
        eventually(lambda: count(brokers, ListOffsetsRequest) > 0, expected=True)
        wait_for_requests(brokers, kind, 3)
        assert consuming.values == []
    assert group_of(brokers).joined == 1


def test_a_lost_heartbeat_response_of_the_consumer_protocol_lets_the_next_heartbeat_send_everything(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    with Consuming(with_protocol(options, CONSUMER), {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        eventually(lambda: brokers.requests(ConsumerGroupHeartbeatRequest)[-1].topic_partitions, None)
        before = count(brokers, ConsumerGroupHeartbeatRequest)
        brokers.script(ConsumerGroupHeartbeatRequest, Drop(applied=True))
        wait_for_requests(brokers, ConsumerGroupHeartbeatRequest, 4)
        sent = brokers.requests(ConsumerGroupHeartbeatRequest)[before:]
    whole = [request for request in sent if request.subscribed_topic_names is not None]
    assert [request.subscribed_topic_names for request in whole] == [("t",)]
    (everything,) = whole
    assert everything.rebalance_timeout_ms == 300_000
    assert [set(topic.partitions) for topic in everything.topic_partitions] == [{0, 1}]
    assert everything.member_epoch == 1


def test_shutdown_commits_with_the_epoch_of_a_heartbeat_that_was_in_flight(
    brokers: ScriptedCluster, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_link, "_FINISH_MS", 60_000)
    begun, go = threading.Event(), threading.Event()

    def next_epoch(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        begun.set()
        assert go.wait(60)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=2, heartbeat_interval_ms=20)

    options = with_protocol(options, CONSUMER) | {"auto.commit.interval.ms": 600_000}
    with Consuming(options, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        brokers.script(ConsumerGroupHeartbeatRequest, Respond(next_epoch))
        assert begun.wait(60)
        closing = threading.Thread(target=consuming.consumer.shutdown)
        closing.start()
        eventually(lambda: [list(stream) for stream in consuming.streams], [[]], retrying=(RuntimeError,))
        go.set()
        closing.join(60)
    (request,) = brokers.requests(OffsetCommitRequest)
    assert request.generation_id_or_member_epoch == 2
    assert committed(brokers) == [3, 3]


# --- joined again


@pytest.mark.parametrize(
    ("protocol", "kind", "code"),
    [
        (CLASSIC, HeartbeatRequest, ErrorCode.UNKNOWN_MEMBER_ID),
        (CLASSIC, HeartbeatRequest, ErrorCode.ILLEGAL_GENERATION),
        (CLASSIC, HeartbeatRequest, ErrorCode.REBALANCE_IN_PROGRESS),
        (CLASSIC, SyncGroupRequest, ErrorCode.UNKNOWN_MEMBER_ID),
        (CLASSIC, SyncGroupRequest, ErrorCode.ILLEGAL_GENERATION),
        (CLASSIC, SyncGroupRequest, ErrorCode.REBALANCE_IN_PROGRESS),
        (CLASSIC, JoinGroupRequest, ErrorCode.UNKNOWN_MEMBER_ID),
        (CONSUMER, ConsumerGroupHeartbeatRequest, ErrorCode.UNKNOWN_MEMBER_ID),
        (CONSUMER, ConsumerGroupHeartbeatRequest, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
    ids=name_of,
)
def test_a_member_that_has_lost_its_generation_joins_again_and_loses_no_record(
    brokers: ScriptedCluster,
    options: dict[str, object],
    protocol: str,
    kind: type[Request[Any]],
    code: ErrorCode,
) -> None:
    with Consuming(with_protocol(options, protocol), {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        eventually(lambda: committed(brokers), [3, 3])
        brokers.script(kind, Refuse(code))
        if kind in {SyncGroupRequest, JoinGroupRequest}:
            brokers.script(HeartbeatRequest, Refuse(ErrorCode.REBALANCE_IN_PROGRESS))
        eventually(lambda: group_of(brokers).joined >= 2, expected=True)
        brokers.partition("t").append(batch_of([b"6"]))
        eventually(lambda: sorted(consuming.values), [*ALL, 6])
        eventually(lambda: committed(brokers), [4, 3])
    assert (sorted(consuming.values), consuming.errors) == ([*ALL, 6], [])


def test_the_coordinator_gives_a_member_its_id_before_it_joins(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    with Consuming(options, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
    assert [request.member_id for request in brokers.requests(JoinGroupRequest)] == ["", "member-0"]
    assert group_of(brokers).left == ["member-0"]


@pytest.mark.parametrize("interval_ms", [0, -5])
def test_heartbeats_have_pauses_if_the_coordinator_sends_no_interval(
    brokers: ScriptedCluster, options: dict[str, object], interval_ms: int
) -> None:
    response = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=1, heartbeat_interval_ms=interval_ms)
    brokers.script(ConsumerGroupHeartbeatRequest, *[Respond(lambda _: response)] * 10_000)
    with ConsumerConnector(with_protocol(options, CONSUMER)) as consumer:
        consumer.create_message_streams({"t": 1})
        wait_for_requests(brokers, ConsumerGroupHeartbeatRequest, 3)
        assert consumer._member is not None
        membership = consumer._member._membership
        assert isinstance(membership, ConsumerProtocolMembership)
        assert membership._interval_s == 0.1


def test_a_member_does_not_join_a_rebalance_while_a_record_is_in_process_for_too_long(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    options |= {"max.poll.interval.ms": 300, "partition.assignment.strategy": "range"}
    begun, go = threading.Event(), threading.Event()

    def process(_: ConsumerRecord) -> None:
        begun.set()
        assert go.wait(60)

    with Consuming(options, {"t": 1}, process=process) as consuming:
        assert begun.wait(60)
        brokers.script(HeartbeatRequest, Refuse(ErrorCode.REBALANCE_IN_PROGRESS))
        eventually(lambda: group_of(brokers).left, ["member-0"])
        joined = group_of(brokers).joined
        go.set()
        eventually(lambda: set(consuming.values), set(ALL))
    assert (consuming.errors, joined) == ([], 1)


# --- raised


@pytest.mark.parametrize(
    ("protocol", "kind", "code"),
    [
        *((CLASSIC, FindCoordinatorRequest, code) for code in (ErrorCode.GROUP_AUTHORIZATION_FAILED,)),
        *(
            (CLASSIC, JoinGroupRequest, code)
            for code in (
                ErrorCode.GROUP_AUTHORIZATION_FAILED,
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                ErrorCode.INVALID_SESSION_TIMEOUT,
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                ErrorCode.FENCED_INSTANCE_ID,
            )
        ),
        (CLASSIC, SyncGroupRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (CLASSIC, HeartbeatRequest, ErrorCode.FENCED_INSTANCE_ID),
        (CLASSIC, HeartbeatRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (CLASSIC, OffsetFetchRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (CLASSIC, ListOffsetsRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        *(
            (CONSUMER, ConsumerGroupHeartbeatRequest, code)
            for code in (
                ErrorCode.GROUP_AUTHORIZATION_FAILED,
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.INVALID_REQUEST,
            )
        ),
    ],
    ids=name_of,
)
def test_an_error_that_a_retry_cannot_help_is_raised_by_every_stream(
    brokers: ScriptedCluster,
    options: dict[str, object],
    protocol: str,
    kind: type[Request[Any]],
    code: ErrorCode,
) -> None:
    brokers.script(kind, Refuse(code))
    with ConsumerConnector(with_protocol(options, protocol)) as consumer:
        streams = consumer.create_message_streams({"t": 2})["t"]
        for stream in [*streams, *streams]:
            with pytest.raises(KafkaError, match="group g" if kind is not ListOffsetsRequest else "t-") as raised:
                list(stream)
            assert SETTINGS.get(code, "") in str(raised.value)
            assert raised.value.code is code
    assert count(brokers, kind) <= 2


def test_a_coordinator_that_requires_a_member_id_again_and_again_is_an_error(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    required = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
    brokers.script(JoinGroupRequest, *[Respond(lambda _: required)] * 1000)
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        with pytest.raises(KafkaError, match="group g") as raised:
            next(stream)
    assert raised.value.code is ErrorCode.MEMBER_ID_REQUIRED
    assert [request.member_id for request in brokers.requests(JoinGroupRequest)] == ["", "m", "m"]


def test_a_broker_without_the_consumer_protocol_is_an_error_that_names_group_protocol(
    options: dict[str, object],
) -> None:
    with ScriptedCluster(topics={"t": 1}) as old:
        options = with_protocol(options, CONSUMER) | {"bootstrap.servers": old.bootstrap_servers}
        with ConsumerConnector(options) as consumer:
            (stream,) = consumer.create_message_streams({"t": 1})["t"]
            with pytest.raises(
                KafkaError, match=r"group g: the broker does not support group\.protocol=consumer"
            ) as raised:
                next(stream)
            assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_an_assignment_that_cannot_be_decoded_is_an_error_that_names_the_group(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    brokers.script(SyncGroupRequest, Respond(lambda _: SyncGroupResponse(assignment=UNDECODABLE)))
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        with pytest.raises(KafkaError, match=r"group g: .*assignment cannot be read"):
            next(stream)
    assert len(group_of(brokers).left) == 1
