"""Commits of a member of a group: what they contain, which errors are retried, and which are raised."""

import itertools
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native.clients import CommitFailed, ConsumerConnector, KafkaError, MessageStream
from tests.support.clients.consuming import Consuming, both_protocols, with_protocol
from tests.support.clients.scripted_member import (
    ALL,
    assigning,
    brokers_of_a_group,
    committed,
    group_of,
    options_of_a_member,
)
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.steps import Held, Refuse
from tests.support.waiting import eventually

T = TypeVar("T")

brokers = brokers_of_a_group()
options = options_of_a_member()


class DuringACommit(threading.Event):
    """While a broker holds a commit: another thread commits, too. ``waits`` tells whether it waits for the first."""

    def __init__(self, consumer: ConsumerConnector) -> None:
        super().__init__()
        self.waits: bool | None = None
        self.second = threading.Thread(target=consumer.commit_offsets)

    def wait(self, timeout: float | None = None) -> bool:
        self.second.start()
        self.second.join(0.3 if timeout is None else timeout)
        self.waits = self.second.is_alive()
        return True


def test_a_commit_waits_for_the_one_in_flight_so_that_none_takes_offsets_back(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    with ConsumerConnector(options | {"enable.auto.commit": "false"}) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        next(stream)
        during = DuringACommit(consumer)
        brokers.script(OffsetCommitRequest, Held(during))
        consumer.commit_offsets()
        during.second.join(60)
        assert (during.waits, during.second.is_alive()) == (True, False)
        assert sorted(committed(brokers)) == [0, 1]


def test_a_commit_leaves_out_the_record_of_a_thread_that_ended_although_its_ident_is_that_of_a_later_thread(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    with ConsumerConnector(options | {"enable.auto.commit": "false"}) as consumer:
        failing, other = consumer.create_message_streams({"t": 2})["t"]
        first = in_thread(lambda: (next(failing).partition, threading.get_ident()))

        def process_and_commit() -> bool:
            if threading.get_ident() != first[1]:
                return False
            next(other)
            consumer.commit_offsets()
            return True

        assert any(in_thread(process_and_commit) for _ in range(1000))
        assert (committed(brokers)[first[0]], committed(brokers)[1 - first[0]]) == (0, 1)


class RevokesAPartition(threading.Event):
    """While a broker holds a commit, its member gives a partition up, as the heartbeats from now on say."""

    def __init__(self, brokers: ScriptedCluster, stream: MessageStream, partition: TopicPartition) -> None:
        super().__init__()
        kept = set(stream.partitions) - {partition}
        self._brokers, self._stream, self._kept = brokers, stream, kept

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is None
        kept = assigning({self._brokers.state.topics["t"].topic_id: [part.partition for part in self._kept]})
        self._brokers.script(ConsumerGroupHeartbeatRequest, *[kept] * 10_000)
        eventually(lambda: set(self._stream.partitions), self._kept)
        return True


def test_a_commit_that_the_coordinator_accepts_includes_a_partition_that_is_revoked_meanwhile(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    with ConsumerConnector(with_protocol(options, "consumer") | {"enable.auto.commit": "false"}) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        *_, last = itertools.islice(stream, len(ALL))
        revoked = TopicPartition("t", 1 - last.partition)
        brokers.script(OffsetCommitRequest, Held(RevokesAPartition(brokers, stream, revoked)))
        consumer.commit_offsets()
        assert committed(brokers) == [3, 3]


def test_a_commit_fails_after_a_partition_was_revoked_whose_offset_was_not_committed(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    with ConsumerConnector(with_protocol(options, "consumer") | {"enable.auto.commit": "false"}) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        *_, last = itertools.islice(stream, len(ALL))
        revoked = TopicPartition("t", 1 - last.partition)
        RevokesAPartition(brokers, stream, revoked).wait()
        with pytest.raises(CommitFailed, match=rf"the offsets of {revoked} were not committed before"):
            consumer.commit_offsets()
        assert committed(brokers)[last.partition] == 3
        consumer.commit_offsets()


def in_thread(call: Callable[[], T]) -> T:
    """What ``call`` returns in a thread of its own."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join(60)
    (result,) = found
    return result


def test_the_record_in_process_is_processed_again_if_its_member_is_not_known_any_more(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    with ConsumerConnector(options | {"enable.auto.commit": "false"}) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        first = next(stream)
        brokers.script(HeartbeatRequest, Refuse(ErrorCode.UNKNOWN_MEMBER_ID))
        eventually(lambda: group_of(brokers).joined, 2)
        with pytest.raises(
            CommitFailed, match=f"group g: the offsets of {first.topic}-{first.partition} were not committed before"
        ):
            consumer.commit_offsets()
        seen = {(record.partition, record.offset) for record in (next(stream) for _ in ALL)}
    assert (first.partition, first.offset) in seen
    assert len(seen) == len(ALL)


@both_protocols
@pytest.mark.parametrize(
    "code",
    [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],
    ids=lambda code: code.name,
)
def test_a_commit_during_a_rebalance_is_repeated(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str, code: ErrorCode
) -> None:
    options = with_protocol(options, protocol) | {"enable.auto.commit": "false"}
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        seen = [next(stream) for _ in ALL]
        brokers.script(OffsetCommitRequest, *[Refuse(code)] * 3)
        consumer.commit_offsets()
        assert committed(brokers) == [3, 3]
    assert len(seen) == len(ALL)


@both_protocols
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
    ],
    ids=lambda code: code.name,
)
def test_a_commit_of_a_member_that_the_group_does_not_have_fails(
    brokers: ScriptedCluster, options: dict[str, object], protocol: str, code: ErrorCode
) -> None:
    options = with_protocol(options, protocol) | {"enable.auto.commit": "false"}
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        next(stream)
        brokers.script(OffsetCommitRequest, Refuse(code))
        with pytest.raises(CommitFailed, match=f"group g: offsets were not committed.*{code.name}"):
            consumer.commit_offsets()
        assert committed(brokers) == [-1, -1]
        consumer.commit_offsets()
        assert sorted(committed(brokers)) == [0, 1]


def test_a_commit_without_permission_is_an_error_that_names_group_and_partition(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    with ConsumerConnector(options | {"enable.auto.commit": "false"}) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        next(stream)
        brokers.script(OffsetCommitRequest, Refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        with pytest.raises(KafkaError, match=r"group g, t-\d: not authorized for READ on this group"):
            consumer.commit_offsets()


def test_an_automatic_commit_that_fails_is_repeated_at_the_next_interval(
    brokers: ScriptedCluster, options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    brokers.script(OffsetCommitRequest, *[Refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)] * 2)
    with Consuming(options, {"t": 1}) as consuming:
        eventually(lambda: sorted(consuming.values), ALL)
        eventually(lambda: committed(brokers), [3, 3])
    assert "group g: offsets were not committed: group g, t-" in caplog.text
