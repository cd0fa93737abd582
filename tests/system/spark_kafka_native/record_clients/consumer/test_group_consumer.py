"""Members of one group share the partitions of its topics, with each protocol of groups."""

import threading
from collections.abc import Iterator

import pytest

from broker_embedded.testing import EmbeddedBroker, EmbeddedZooKeeper
from spark_kafka_native._client.admin.topics import create_partitions
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native.clients import (
    Blacklist,
    ConsumerConnector,
    ConsumerRecord,
    ConsumerTimeout,
    DeserializationError,
    KafkaError,
    NoOffset,
    Producer,
    Whitelist,
)
from tests.support.clients.consuming import (
    PARTITIONS,
    Consuming,
    all_of,
    numbers,
    wait_until_shared,
    write,
)
from tests.support.clients.consuming import committed as committed_at_coordinator
from tests.support.clients.consuming import with_protocol as with_group_protocol
from tests.support.clients.native import config_of
from tests.support.servers.kafka_on_zookeeper import zookeeper_client
from tests.support.waiting import eventually

CLASSIC = {"group.protocol": "classic", "heartbeat.interval.ms": 100}
ZOOKEEPER = {"group.protocol": "zookeeper", "rebalance.backoff.ms": 2000}
PROTOCOLS: dict[str, dict[str, object]] = {
    "range": CLASSIC,
    "roundrobin": CLASSIC | {"partition.assignment.strategy": "roundrobin"},
    "sticky": CLASSIC | {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor"},
    "cooperative": CLASSIC | {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
    "zookeeper range": ZOOKEEPER,
    "zookeeper roundrobin": ZOOKEEPER | {"partition.assignment.strategy": "roundrobin"},
}

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
each_kind = pytest.mark.parametrize("protocol", ["range", "consumer", "zookeeper range"])


@pytest.fixture(scope="module")
def broker(zookeeper_server: EmbeddedZooKeeper) -> Iterator[EmbeddedBroker]:
    settings = {
        "zookeeper.connect": f"{zookeeper_server.connect_string}/groups",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.heartbeat.interval.ms": "100",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.assignment.interval.ms": "0",
        "group.min.session.timeout.ms": "100",
    }
    with EmbeddedBroker(settings=settings) as running:
        yield running


@pytest.fixture
def options(zookeeper_server: EmbeddedZooKeeper, topic: str) -> dict[str, object]:
    return CLASSIC | {
        "zookeeper.connect": f"{zookeeper_server.connect_string}/groups",
        "group.id": f"group-of-{topic}",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 100,
        "fetch.max.wait.ms": 50,
        "retry.backoff.ms": 10,
    }


def with_protocol(options: dict[str, object], protocol: str) -> dict[str, object]:
    return {name: value for name, value in options.items() if name not in CLASSIC} | PROTOCOLS[protocol]


def committed(broker: EmbeddedBroker, options: dict[str, object], topic: str) -> dict[int, int]:
    """The committed offsets of the group's partitions of a topic."""
    group, connect = str(options["group.id"]), str(options["zookeeper.connect"])
    if options["group.protocol"] == "zookeeper":
        with zookeeper_client(connect) as zookeeper:
            path = f"/consumers/{group}/offsets/{topic}"
            found = zookeeper.get_children(path) if zookeeper.exists(path) else []
            return {int(number): int(zookeeper.get(f"{path}/{number}")[0]) for number in found}
    return committed_at_coordinator(broker, group)


@each_protocol
def test_members_come_and_go_and_each_record_is_processed_once(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol)
    write(broker, topic, range(60))
    with Consuming(options, {topic: 2}) as first:
        eventually(lambda: numbers(first), list(range(60)), within_s=60)
        assert len({record.partition for record in first.records}) == PARTITIONS
        with Consuming(options, {topic: 1}) as second:
            wait_until_shared([first, second], all_of(topic))
            write(broker, topic, range(60, 120))
            eventually(lambda: numbers(first, second), list(range(120)), within_s=60)
            assert second.records
        wait_until_shared([first], all_of(topic))
        write(broker, topic, range(120, 180))
        eventually(lambda: numbers(first, second), list(range(180)), within_s=60)
        assert (first.errors, second.errors) == ([], [])
    assert committed(broker, options, topic) == dict.fromkeys(range(PARTITIONS), 30)
    for member in (first, second):
        for number in range(PARTITIONS):
            offsets = [record.offset for record in member.records if record.partition == number]
            assert offsets == sorted(offsets)


@pytest.mark.parametrize("protocol", ["sticky", "cooperative", "consumer"])
def test_a_sticky_assignor_takes_only_the_partitions_of_a_new_member(
    topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol)
    with Consuming(options, {topic: 1}) as first, Consuming(options, {topic: 1}) as second:
        wait_until_shared([first, second], all_of(topic))
        before = [first.partitions, second.partitions]
        with Consuming(options, {topic: 1}) as third:
            members = [first, second, third]
            wait_until_shared(members, all_of(topic))
            eventually(lambda: [len(member.partitions) for member in members], [2, 2, 2], within_s=60)
            for member, owned in zip(members, before, strict=False):
                assert set(member.partitions) <= set(owned)


class InProcess:
    """What a consumer calls with each record: it waits until ``go`` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.records: list[ConsumerRecord] = []

    def __call__(self, record: ConsumerRecord) -> None:
        self.records.append(record)
        assert self.go.wait(60)


@each_protocol
def test_a_record_in_process_keeps_its_partition_until_it_is_processed(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol)
    joins_first, joins_second = options, options
    if options["group.protocol"] == "zookeeper":  # the second is the first one by name, so that it gets a partition
        options |= {"rebalance.backoff.ms": 60_000}
        joins_first, joins_second = options | {"consumer.id": "b"}, options | {"consumer.id": "a"}
    write(broker, topic, range(PARTITIONS))
    process = InProcess()
    with Consuming(joins_first, {topic: PARTITIONS}, process=process) as first:
        eventually(lambda: len(process.records), PARTITIONS, within_s=60)
        with Consuming(joins_second, {topic: 1}) as second:
            eventually(lambda: any(stream._partitions._stopped for stream in first.streams), expected=True)
            assert second.partitions == []
            process.go.set()
            wait_until_shared([first, second], all_of(topic))
            eventually(lambda: numbers(first, second), list(range(PARTITIONS)), within_s=60)


def test_a_record_in_process_keeps_its_partition_in_zookeeper_for_no_longer_than_the_backoff_of_a_rebalance(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    options = with_protocol(options, "zookeeper range") | {"rebalance.backoff.ms": 100}
    write(broker, topic, range(PARTITIONS))
    process = InProcess()
    with Consuming(options | {"consumer.id": "b"}, {topic: PARTITIONS}, process=process) as first:
        eventually(lambda: len(process.records), PARTITIONS, within_s=60)
        with Consuming(options | {"consumer.id": "a", "rebalance.max.retries": 1000}, {topic: 1}) as second:
            eventually(lambda: len(second.values), 1)
            process.go.set()
    assert (first.errors, second.errors) == ([], [])


@each_kind
def test_a_filter_finds_topics_that_are_created_later(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol) | {"metadata.max.age.ms": 100}
    write(broker, topic, range(10))
    with Consuming(options, Whitelist(f"{topic}(-.*)?"), streams=2) as consuming:
        eventually(lambda: numbers(consuming), list(range(10)), within_s=60)
        broker.create_topic(f"{topic}-later", PARTITIONS)
        broker.create_topic(f"other-than-{topic}", 1)
        write(broker, f"{topic}-later", range(10, 20))
        eventually(lambda: numbers(consuming), list(range(20)), within_s=60)
        assert {name for name, _ in consuming.partitions} == {topic, f"{topic}-later"}


@each_kind
def test_a_filter_accepts_internal_topics_if_they_are_not_excluded(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    topic_filter = Whitelist(f"__consumer_offsets|{topic}")
    with Consuming(options | {"group.id": "first"}, {topic: 1}) as first:
        wait_until_shared([first], all_of(topic))  # now the topic of offsets exists
    with Consuming(with_protocol(options, protocol), topic_filter) as consuming:
        wait_until_shared([consuming], all_of(topic))
    with Consuming(with_protocol(options, protocol) | {"exclude.internal.topics": False}, topic_filter) as consuming:
        eventually(lambda: {name for name, _ in consuming.partitions}, {"__consumer_offsets", topic}, within_s=60)


def test_a_black_list_has_all_other_topics(broker: EmbeddedBroker, topic: str, options: dict[str, object]) -> None:
    write(broker, topic, range(6))
    with Consuming(options, Blacklist(f"(?!{topic}$).*")) as consuming:
        eventually(lambda: numbers(consuming), list(range(6)), within_s=60)
        assert consuming.partitions == all_of(topic)


@each_protocol
def test_added_partitions_are_read(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol) | {"metadata.max.age.ms": 100}
    with Consuming(options, {topic: 1}) as first, Consuming(options, {topic: 1}) as second:
        wait_until_shared([first, second], all_of(topic))
        with Cluster(config_of(broker.bootstrap_servers)) as cluster:
            create_partitions(cluster, {topic: PARTITIONS + 3})
        wait_until_shared([first, second], all_of(topic, PARTITIONS + 3))
        write(broker, topic, range(18), PARTITIONS + 3)
        eventually(lambda: numbers(first, second), list(range(18)), within_s=60)


# --- commits


@each_kind
def test_offsets_are_committed_from_time_to_time_without_the_record_in_process(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol)
    write(broker, topic, range(5), 1)
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        for _ in range(3):
            next(stream)
        eventually(lambda: committed(broker, options, topic).get(0), 2, within_s=60)
    assert committed(broker, options, topic)[0] == 3, "shutdown commits the record in process"


def test_an_exception_leaves_the_record_in_process_uncommitted(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    write(broker, topic, range(3), 1)

    def use() -> None:
        with ConsumerConnector(options) as consumer:
            (stream,) = consumer.create_message_streams({topic: 1})[topic]
            next(stream)
            next(stream)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        use()
    assert committed(broker, options, topic)[0] == 1


@each_kind
def test_offsets_are_committed_by_hand(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol) | {"enable.auto.commit": "false"}
    write(broker, topic, range(4), 1)
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        next(stream)
        next(stream)
        consumer.commit_offsets()
        assert committed(broker, options, topic)[0] == 2
        next(stream)
    assert committed(broker, options, topic)[0] == 2
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        assert next(stream).value == b"2"


@each_kind
def test_automatic_commits_keep_what_was_committed_by_hand(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol)
    write(broker, topic, range(2 * PARTITIONS))
    with ConsumerConnector(options) as consumer:
        first, second = consumer.create_message_streams({topic: 2})[topic]
        record = next(first)
        consumer.commit_offsets()
        assert committed(broker, options, topic)[record.partition] == 1
        other = next(second).partition
        next(second)  # the first record is processed, so that an automatic commit has something to commit
        eventually(lambda: committed(broker, options, topic).get(other), 1, within_s=60)
        assert committed(broker, options, topic)[record.partition] == 1


# --- streams


def test_a_stream_without_records_is_a_timeout(broker: EmbeddedBroker, topic: str, options: dict[str, object]) -> None:
    options["consumer.timeout.ms"] = 300
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        with pytest.raises(ConsumerTimeout, match=r"no record within consumer\.timeout\.ms \(300 ms\)"):
            next(stream)
        write(broker, topic, range(1))
        eventually(lambda: _value(stream), b"0", within_s=60)


def _value(stream: Iterator[ConsumerRecord]) -> object:
    try:
        return next(stream).value
    except ConsumerTimeout:
        return None


def test_deserializers_make_objects(broker: EmbeddedBroker, topic: str, options: dict[str, object]) -> None:
    options |= {"value.deserializer": int, "key.deserializer": "kafka.serializer.StringDecoder"}
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for value in (b"7", b"x", None):
            producer.send(topic, value, key=b"k", partition=0)
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        record = next(stream)
        assert (record.key, record.value) == ("k", 7)
        with pytest.raises(DeserializationError, match=f"{topic}-0, offset 1: the value cannot be deserialized"):
            next(stream)
        assert next(stream).value is None


def test_streams_end_with_the_consumer(topic: str, options: dict[str, object]) -> None:
    consumer = ConsumerConnector(options)
    streams = consumer.create_message_streams({topic: 3})[topic]
    consumer.shutdown()
    consumer.shutdown()
    assert [list(stream) for stream in streams] == [[], [], []]


def test_a_stream_raises_that_there_is_no_offset_to_begin_at(topic: str, options: dict[str, object]) -> None:
    options["auto.offset.reset"] = "none"
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        with pytest.raises(NoOffset, match=f"group {options['group.id']}: no offset to begin at in {topic}-0"):
            next(stream)


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_an_error_of_the_group_is_raised_by_its_streams(topic: str, options: dict[str, object], protocol: str) -> None:
    others: dict[str, dict[str, object]] = {
        "range": {"partition.assignment.strategy": "roundrobin"},
        "consumer": {"group.remote.assignor": "nothing"},
    }
    kind = "consumer" if protocol == "consumer" else "classic"
    with Consuming(options | {"partition.assignment.strategy": "range"}, {topic: 1}) as first:
        wait_until_shared([first], all_of(topic))
        with ConsumerConnector(with_group_protocol(options, kind) | others[protocol]) as consumer:
            (stream,) = consumer.create_message_streams({topic: 1})[topic]
            with pytest.raises(KafkaError, match=f"group {options['group.id']}"):
                next(stream)
