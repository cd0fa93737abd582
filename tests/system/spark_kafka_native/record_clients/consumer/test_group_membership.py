"""Members of a group that stall, restart or are killed, and their streams' threads."""

import re
import sys
import threading

import pytest
from dirty_equals import IsInt

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.admin.topics import create_partitions
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from spark_kafka_native.clients import CommitFailed, ConsumerConnector, ConsumerRecord, ConsumerTimeout
from tests.support.clients.consuming import (
    PARTITIONS,
    Consuming,
    all_of,
    both_protocols,
    committed,
    numbers,
    wait_until_shared,
    with_protocol,
    write,
)
from tests.support.clients.native import config_of
from tests.support.records.record_batches import rows
from tests.support.scripts import started
from tests.support.waiting import eventually

PROCESS_TWO_AND_STAY = """
import signal, sys
from spark_kafka_native.clients import ConsumerConnector
servers, protocol = sys.argv[1:]
classic = {
    "heartbeat.interval.ms": 100, "session.timeout.ms": 2000, "partition.assignment.strategy": "cooperative-sticky",
}
consumer = ConsumerConnector({
    "bootstrap.servers": servers, "group.id": "g", "group.protocol": protocol, "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 600000, **(classic if protocol == "classic" else {}),
})
(stream,) = consumer.create_message_streams({"t": 1})["t"]
for count, record in enumerate(stream):
    if count == 2:
        print("third record", flush=True)
        signal.pause()
"""


# --- stalled


@both_protocols
def test_a_member_with_a_record_in_process_for_too_long_leaves_and_joins_again_after_it(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = with_protocol(options, protocol)
    write(broker, topic, range(PARTITIONS))
    begun, go = threading.Event(), threading.Event()
    failures: list[CommitFailed] = []

    def process(_: ConsumerRecord) -> None:
        if begun.is_set():
            return
        begun.set()
        assert go.wait(60)
        try:
            first.consumer.commit_offsets()
        except CommitFailed as error:
            failures.append(error)

    with Consuming(options | {"max.poll.interval.ms": 300}, {topic: 1}, process=process) as first:
        assert begun.wait(60)
        eventually(lambda: first.partitions, [])
        warning = rf"max.poll.interval.ms \(300 ms\): {topic}-\d, offset 0. None of its streams gets records"
        eventually(lambda: len(re.findall(warning, caplog.text)), IsInt(ge=2), within_s=60)
        with Consuming(options, {topic: 1}) as second:
            eventually(lambda: second.partitions, all_of(topic), within_s=60)
            eventually(lambda: numbers(second), list(range(PARTITIONS)), within_s=60)
            go.set()
            wait_until_shared([first, second], all_of(topic))
            write(broker, topic, range(PARTITIONS, 2 * PARTITIONS))
            wanted = set(range(2 * PARTITIONS))
            eventually(lambda: set(numbers(first, second)), wanted, within_s=60)
    (failure,) = failures
    assert f"group {options['group.id']}: the offsets of {topic}-" in str(failure)
    assert (first.errors, second.errors) == ([], [])


# --- revoked


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
def test_a_commit_names_the_partitions_that_were_revoked_before(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    strategy = {"partition.assignment.strategy": protocol, "enable.auto.commit": "false"}
    options = with_protocol(options | strategy, "consumer" if protocol == "consumer" else "classic")
    write(broker, topic, range(PARTITIONS))
    with Consuming(options, {topic: 1}) as first:
        eventually(lambda: numbers(first), list(range(PARTITIONS)), within_s=60)
        with Consuming(options, {topic: 1}) as second:
            wait_until_shared([first, second], all_of(topic))
            revoked = all_of(topic) if protocol == "range" else second.partitions
            named = ", ".join(f"{name}-{number}" for name, number in revoked)
            with pytest.raises(CommitFailed, match=f"the offsets of {named} were not committed before"):
                first.consumer.commit_offsets()
            first.consumer.commit_offsets()
            second.consumer.commit_offsets()


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_commit_does_not_name_revoked_partitions_whose_positions_have_passed_markers_of_transactions(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], isolation: str
) -> None:
    with Cluster(config_of(broker.bootstrap_servers)) as cluster, TransactionalProducer(cluster, topic) as producer:
        for number in range(2):
            producer.begin()
            producer.send(topic, rows([b"%d" % number] * PARTITIONS, partition=list(range(PARTITIONS))))
            producer.commit()
    options |= {"enable.auto.commit": "false", "isolation.level": isolation}
    with ConsumerConnector(options) as first:
        (stream,) = first.create_message_streams({topic: 1})[topic]
        for _ in range(2 * PARTITIONS):
            next(stream)
            first.commit_offsets()
        rest = threading.Thread(target=lambda: list(stream))
        rest.start()
        eventually(lambda: set(stream._partitions.positions.values()), {4})
        with Consuming(options, {topic: 1}) as second:
            eventually(lambda: len(second.partitions), PARTITIONS // 2, within_s=60)
            first.commit_offsets()
    rest.join()


def test_a_commit_does_not_name_revoked_partitions_without_processed_records(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    options["enable.auto.commit"] = "false"
    with Consuming(options, {topic: 1}) as first:
        eventually(lambda: first.partitions, all_of(topic), within_s=60)
        with Consuming(options, {topic: 1}) as second:
            wait_until_shared([first, second], all_of(topic))
            first.consumer.commit_offsets()


# --- static members and killed members


@both_protocols
def test_a_static_member_that_restarts_keeps_its_partitions(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol)
    api = "JoinGroup" if protocol == "classic" else "ConsumerGroupHeartbeat"
    one, two = ({"group.instance.id": name, "client.id": f"{name}-of-{topic}"} for name in ("one", "two"))
    with Consuming(options | two, {topic: 1}) as second:
        with Consuming(options | one, {topic: 1}) as first:
            wait_until_shared([first, second], all_of(topic))
            kept = first.partitions, second.partitions
            write(broker, topic, range(PARTITIONS))
            eventually(lambda: numbers(first, second), list(range(PARTITIONS)), within_s=60)
        joined = len(broker.requests(api, client_id=two["client.id"]))
        write(broker, topic, range(PARTITIONS, 2 * PARTITIONS))
        with Consuming(options | one, {topic: 1}) as again:
            eventually(lambda: (again.partitions, second.partitions), kept, within_s=60)
            eventually(lambda: numbers(first, second, again), list(range(2 * PARTITIONS)), within_s=60)
            if protocol == "classic":
                assert len(broker.requests(api, client_id=two["client.id"])) == joined
    assert (second.errors, again.errors) == ([], [])


def test_a_static_leader_that_restarts_assigns_added_partitions(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    options |= {"group.instance.id": "one", "metadata.max.age.ms": 100}
    with Consuming(options, {topic: 1}) as consuming:
        wait_until_shared([consuming], all_of(topic))
    with Consuming(options, {topic: 1}) as consuming:
        wait_until_shared([consuming], all_of(topic))
        with Cluster(config_of(broker.bootstrap_servers)) as cluster:
            create_partitions(cluster, {topic: PARTITIONS + 3})
        wait_until_shared([consuming], all_of(topic, PARTITIONS + 3))
    assert consuming.errors == []


@both_protocols
def test_the_partitions_of_a_killed_member_move_after_the_session_timeout_and_no_record_is_lost(protocol: str) -> None:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.session.timeout.ms": "2000",
        "group.consumer.min.session.timeout.ms": "2000",
        "group.consumer.heartbeat.interval.ms": "100",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.min.session.timeout.ms": "2000",
    }
    with EmbeddedBroker(topics={"t": PARTITIONS}, settings=settings) as broker:
        options = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 100,
            "partition.assignment.strategy": "cooperative-sticky",
        }
        options = with_protocol(options, protocol)
        write(broker, "t", range(12))
        program = [sys.executable, "-c", PROCESS_TWO_AND_STAY, broker.bootstrap_servers, protocol]
        with started(program, until="third record") as member, Consuming(options, {"t": 1}) as other:
            member.kill()
            member.wait(60)
            eventually(lambda: other.partitions, all_of("t"), within_s=60)
            eventually(lambda: set(numbers(other)), set(range(12)), within_s=60)
        assert committed(broker, "g") == dict.fromkeys(range(PARTITIONS), 2)


# --- revocations


def test_a_revocation_that_an_error_interrupts_ends_before_the_member_joins_again(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    """Else the member would keep a partition from which it returns no records any more."""
    options["partition.assignment.strategy"] = "cooperative-sticky"
    name = f"first-of-{topic}"

    def requests(api: str) -> int:
        return len(broker.requests(api, client_id=name))

    begun, go = threading.Semaphore(0), threading.Event()

    def process(_: ConsumerRecord) -> None:
        begun.release()
        assert go.wait(60)

    write(broker, topic, range(2 * PARTITIONS))
    with Consuming(options | {"client.id": name}, {topic: PARTITIONS}, process=process) as first:
        for _ in range(PARTITIONS):
            assert begun.acquire(timeout=60)
        with Consuming(options, {topic: 1}):
            eventually(lambda: requests("SyncGroup"), 2, within_s=60)  # partitions are to move to the second member
        # The second member has left, so heartbeats of the first one have REBALANCE_IN_PROGRESS, and then an error.
        eventually(lambda: requests("Heartbeat"), IsInt(ge=requests("Heartbeat") + 2), within_s=60)
        broker.faults.fail("Heartbeat", "COORDINATOR_NOT_AVAILABLE", times=1)
        eventually(lambda: requests("Heartbeat"), IsInt(ge=requests("Heartbeat") + 3), within_s=60)
        go.set()
        write(broker, topic, range(2 * PARTITIONS, 4 * PARTITIONS))
        eventually(lambda: set(numbers(first)), set(range(4 * PARTITIONS)), within_s=60)
    assert first.errors == []


def test_revoked_partitions_move_although_the_added_ones_cannot_be_read_yet(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    options |= {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 1000}
    other, name = f"{topic}-other", f"first-of-{topic}"

    def requests() -> int:
        return sum(len(broker.requests(api, client_id=name)) for api in ("Heartbeat", "JoinGroup"))

    with Consuming(options | {"client.id": name}, {topic: 1, other: 1}) as first:
        wait_until_shared([first], all_of(topic))
        broker.create_topic(other, PARTITIONS)  # the first member finds it in the next rebalance
        broker.faults.fail("OffsetFetch", "COORDINATOR_NOT_AVAILABLE")
        with Consuming(options, {topic: 1}) as second:
            eventually(lambda: first.partitions, [])
            eventually(requests, IsInt(gt=requests()))  # after it could not look up the committed offsets
            broker.faults.clear()
            wait_until_shared([first, second], all_of(topic) + all_of(other))
    assert (first.errors, second.errors) == ([], [])


# --- threads


def test_shutdown_by_another_thread_leaves_the_record_in_process_uncommitted(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    write(broker, topic, range(5), 1)
    begun, go = threading.Event(), threading.Event()

    def process(record: ConsumerRecord) -> None:
        if record.offset == 2:
            begun.set()
            assert go.wait(60)

    consuming = Consuming(options, {topic: 1}, process=process)
    assert begun.wait(60)
    consuming.consumer.shutdown()
    assert committed(broker, options["group.id"])[0] == 2
    go.set()
    consuming.close()
    assert (numbers(consuming), consuming.errors) == ([0, 1, 2], [])
    assert committed(broker, options["group.id"])[0] == 2


@both_protocols
def test_many_streams_each_with_a_thread_share_the_partitions(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol)
    many, streams = f"{topic}-many", 16
    broker.create_topic(many, 2 * streams)
    write(broker, many, range(1000), 2 * streams)
    with Consuming(options, {many: streams}) as consuming:
        eventually(lambda: numbers(consuming), list(range(1000)), within_s=60)
        assert [len(stream.partitions) for stream in consuming.streams] == [2] * streams
    assert consuming.errors == []
    assert sum(committed(broker, options["group.id"]).values()) == 1000


def test_streams_of_a_topic_get_its_partitions_only(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    other = f"{topic}-other"
    broker.create_topic(other, 2)
    with Consuming(options, {topic: 2, other: 3}) as consuming:
        wait_until_shared([consuming], all_of(topic) + all_of(other, 2))
        found = [({name for name, _ in stream.partitions}, len(stream.partitions)) for stream in consuming.streams]
    assert found == [({topic}, 3), ({topic}, 3), ({other}, 1), ({other}, 1), (set(), 0)]


def test_streams_that_are_not_read_are_logged_with_their_partitions(
    topic: str, options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    options |= {"max.poll.interval.ms": 500, "session.timeout.ms": 400}
    with ConsumerConnector(options) as consumer:
        streams = consumer.create_message_streams({topic: 2})[topic]
        read, unread = streams
        threading.Thread(target=lambda: list(read)).start()
        eventually(lambda: len(unread.partitions), PARTITIONS // 2)
        text = "of 2 streams have partitions, but no thread has requested a record of them: "
        eventually(lambda: text in caplog.text, expected=True)
        assert all(str(partition) in caplog.text.partition(text)[2] for partition in unread.partitions)


def test_a_stream_without_partitions_says_so_when_it_waits_in_vain(topic: str, options: dict[str, object]) -> None:
    with ConsumerConnector(options | {"consumer.timeout.ms": 50}) as consumer:
        (stream,) = consumer.create_message_streams({f"{topic}-missing": 1})[f"{topic}-missing"]
        with pytest.raises(
            ConsumerTimeout, match=r"consumer\.timeout\.ms \(50 ms\); the group has not assigned a part"
        ):
            next(stream)


def test_a_consumer_and_its_streams_show_group_and_partitions(topic: str, options: dict[str, object]) -> None:
    group = options["group.id"]
    with ConsumerConnector(options) as consumer:
        assert repr(consumer) == f"<ConsumerConnector of group {group}, without streams>"
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        assert repr(consumer) == f"<ConsumerConnector of group {group}, open>"
        eventually(lambda: len(stream.partitions), PARTITIONS)
        assert repr(stream).startswith(f"<MessageStream of {topic}-0, {topic}-1, ")
    assert repr(consumer) == f"<ConsumerConnector of group {group}, closed>"
    assert repr(stream) == "<MessageStream of no partitions>"


def test_a_second_thread_that_waits_for_a_record_of_a_stream_is_an_error(
    topic: str, options: dict[str, object]
) -> None:
    with Consuming(options, {topic: 1}) as consuming:
        (stream,) = consuming.streams
        eventually(lambda: stream._partitions.taker is not None, expected=True)
        with pytest.raises(RuntimeError, match="each stream is for one thread"):
            next(stream)
    assert consuming.errors == []
