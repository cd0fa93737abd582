"""When the listener of a group consumer is called, and what it may do."""

import logging
from collections.abc import Callable, Sequence

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native.clients import (
    CommitFailed,
    ConsumerConnector,
    KafkaError,
    RebalanceListener,
    RebalanceListenerError,
)
from tests.support.clients import zookeeper_member
from tests.support.clients.consuming import Consuming, both_protocols, numbers, wait_until_shared, with_protocol
from tests.support.clients.scripted_member import (
    ALL,
    assigning,
    brokers_of_a_group,
    committed,
    group_of,
    options_of_a_member,
)
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.steps import Refuse
from tests.support.waiting import eventually

brokers = brokers_of_a_group()
options = options_of_a_member()
broker = zookeeper_member.broker_in_zookeeper()
zookeeper = zookeeper_member.client_of_zookeeper()
options_in_zookeeper = zookeeper_member.options_of_members()

BOTH = [TopicPartition("t", 0), TopicPartition("t", 1)]
BY_HAND: dict[str, object] = {"enable.auto.commit": "false"}


class Recorder(RebalanceListener):
    """Keeps its calls, and then calls ``then`` with the name of the call."""

    def __init__(self, then: Callable[[str], object] = lambda _: None) -> None:
        self.calls: list[tuple[str, list[TopicPartition]]] = []
        self.then = then

    def _note(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append((name, list(partitions)))
        self.then(name)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("assigned", partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("revoked", partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("lost", partitions)


class CommittingAt(Recorder):
    """Commits when it is called so, and keeps the errors."""

    def __init__(self, name: str) -> None:
        super().__init__(self._commit)
        self.errors: list[Exception] = []
        self.consumer: ConsumerConnector
        self._name = name

    def _commit(self, name: str) -> None:
        if name == self._name:
            try:
                self.consumer.commit_offsets()
            except Exception as error:  # kept for the test
                self.errors.append(error)


def member_of(options: dict[str, object], listener: Recorder) -> Consuming:
    member = Consuming(options, {"t": 1}, rebalance_listener=listener)
    if isinstance(listener, CommittingAt):
        listener.consumer = member.consumer
    return member


@both_protocols
def test_a_listener_is_called_with_partitions_before_their_records_and_commits_at_the_end(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str
) -> None:
    listener = CommittingAt("revoked")
    with member_of(with_protocol(options, protocol) | BY_HAND, listener) as member:
        eventually(lambda: numbers(member), ALL)
        assert (listener.calls, committed(brokers)) == ([("assigned", BOTH)], [-1, -1])
    assert (listener.calls[1:], listener.errors) == ([("revoked", BOTH)], [])
    assert committed(brokers) == [3, 3]


def test_a_listener_commits_a_partition_that_the_member_gives_up(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    listener = CommittingAt("revoked")
    with member_of(with_protocol(options, "consumer") | BY_HAND, listener) as member:
        eventually(lambda: numbers(member), ALL)
        kept = assigning({brokers.state.topics["t"].topic_id: [0]})
        brokers.script(ConsumerGroupHeartbeatRequest, *[kept] * 10_000)
        eventually(lambda: member.partitions, [("t", 0)])
        assert listener.calls == [("assigned", BOTH), ("revoked", BOTH[1:])]
        assert (listener.errors, committed(brokers)) == ([], [3, 3])


def test_a_listener_is_called_with_lost_partitions_whose_offsets_cannot_be_committed(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    listener = CommittingAt("lost")
    with member_of(options | BY_HAND, listener) as member:
        eventually(lambda: numbers(member), ALL)
        brokers.script(HeartbeatRequest, Refuse(ErrorCode.UNKNOWN_MEMBER_ID))
        eventually(lambda: listener.calls[1:3], [("lost", BOTH), ("assigned", BOTH)])
        eventually(lambda: len(member.records), 2 * len(ALL))
    (error,) = listener.errors
    assert isinstance(error, CommitFailed)
    assert "were not committed before the group gave these partitions to other members" in str(error)


def test_lost_partitions_count_as_revoked_by_default() -> None:
    class Revoked(RebalanceListener):
        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            calls.append(partitions)

    calls: list[Sequence[TopicPartition]] = []
    Revoked().on_partitions_assigned(BOTH)
    Revoked().on_partitions_lost(BOTH)
    assert calls == [BOTH]


def test_an_error_that_a_retry_could_repair_is_not_taken_for_one_of_the_member(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    def fail(_: str) -> None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR, "of another cluster")

    listener = Recorder(fail)
    with member_of(options, listener) as member:
        eventually(lambda: [type(error) for error in member.errors], [RebalanceListenerError])
    assert listener.calls == [("assigned", BOTH)]


@both_protocols
def test_an_error_of_a_listener_ends_the_member_and_is_raised_by_its_streams(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str
) -> None:
    def fail(_: str) -> None:
        raise OSError("no space")

    with member_of(with_protocol(options, protocol), Recorder(fail)) as member:
        eventually(lambda: len(member.errors), 1)
        (error,) = member.errors
        assert isinstance(error, RebalanceListenerError)
        assert str(error) == "on_partitions_assigned of the rebalance listener has raised OSError: no space"
        assert isinstance(error.__cause__, OSError)
        eventually(lambda: len(group_of(brokers).left), 1)
    assert member.records == []


@both_protocols
def test_an_error_of_a_listener_at_the_end_neither_prevents_the_last_commit_nor_the_leaving(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(name: str) -> None:
        if name == "revoked":
            raise OSError("no space")

    slow = {"auto.commit.interval.ms": 60_000}
    with member_of(with_protocol(options, protocol) | slow, Recorder(fail)) as member:
        eventually(lambda: numbers(member), ALL)
    assert (committed(brokers), len(group_of(brokers).left)) == ([3, 3], 1)
    (entry,) = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert "on_partitions_revoked of the rebalance listener has raised OSError: no space" in entry.getMessage()


def test_a_listener_may_shut_its_consumer_down(brokers: ScriptedCluster, options: dict[str, object]) -> None:
    def shut_down(name: str) -> None:
        if name == "assigned":
            consumer.shutdown()

    listener = Recorder(shut_down)
    consumer = ConsumerConnector(options, rebalance_listener=listener)
    (stream,) = consumer.create_message_streams({"t": 1})["t"]
    assert list(stream) == []
    consumer.shutdown()
    assert (listener.calls, len(group_of(brokers).left)) == ([("assigned", BOTH), ("revoked", BOTH)], 1)


def test_a_listener_is_of_the_base_class(options: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=r"^rebalance_listener must be a RebalanceListener, not dict$"):
        ConsumerConnector(options, rebalance_listener={})  # type: ignore[arg-type]  # that is what is tested


def test_a_listener_of_a_group_in_zookeeper(broker: EmbeddedBroker, options_in_zookeeper: dict[str, object]) -> None:
    zookeeper_member.write(broker, range(8))
    listener, of_other = CommittingAt("revoked"), Recorder()
    with member_of(options_in_zookeeper | BY_HAND, listener) as member:
        eventually(lambda: numbers(member), list(range(8)))
        with member_of(options_in_zookeeper | BY_HAND, of_other) as other:
            wait_until_shared([member, other], zookeeper_member.ALL)
            zookeeper_member.write(broker, range(8, 16))
            eventually(lambda: numbers(member, other), list(range(16)))
    every = [TopicPartition(*each) for each in zookeeper_member.ALL]
    assert listener.calls[0] == ("assigned", every)
    given_up = [part for name, parts in listener.calls[1:2] for part in parts if name == "revoked"]
    assert set(given_up) >= set(of_other.calls[0][1]) != set()
    assert listener.errors == []
