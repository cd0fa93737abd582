"""confluent-kafka, kafka-python and our own client against the bundled broker, and the same tests against Apache Kafka.

What passes with one and fails with another is a difference that a user could notice.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.interface import CODECS, Client, Record, Refused, Stored
from tests.support.clients.kafka_python import KafkaPythonClient
from tests.support.clients.native import OurClient
from tests.support.servers.brokers import AnyBroker, TopicMaker, stored_batches
from tests.support.waiting import eventually

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytest.importorskip("kafka.protocol.schemas", reason="kafka-python 3 is not installed")

# kafka-python now and then drops a connection that was being made without closing it.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

CLIENTS: list[Client] = [ConfluentClient(), KafkaPythonClient(), OurClient()]

START_MS = int(time.time() * 1000) - 3_600_000
"""A time for the first record: not now, and not so long ago that brokers would delete the record."""

each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


def _contents(stored: list[Stored]) -> list[tuple[Any, ...]]:
    return [(record.key, record.value, record.headers) for record in stored]


@pytest.mark.parametrize("codec", CODECS)
def test_what_one_client_compresses_all_clients_read(codec: str, any_broker: AnyBroker, new_topic: TopicMaker) -> None:
    topic, count, start = new_topic(len(CLIENTS)), 300, START_MS
    expected = []
    for partition, producer in enumerate(CLIENTS):
        records = [
            Record(b"key-%d" % i, b"%d by %d, " % (i, partition) * 20, (("n", b"%d" % i),), start + i, partition)
            for i in range(count)
        ]
        offsets = producer.produce(any_broker.bootstrap_servers, topic, records, compression=codec)
        assert offsets == [(partition, i) for i in range(count)]
        expected += [
            Stored(partition, i, r.timestamp_ms or 0, r.key, r.value, r.headers) for i, r in enumerate(records)
        ]
    counts = dict.fromkeys(range(len(CLIENTS)), count)
    for consumer in CLIENTS:
        assert consumer.consume(any_broker.bootstrap_servers, topic, counts) == expected
    for partition in counts:
        assert {header.compression.label for header in stored_batches(any_broker, topic, partition)} == {codec}


@pytest.mark.parametrize("producer", CLIENTS, ids=lambda client: client.name)
def test_nulls_empty_values_and_repeated_headers_are_kept(
    producer: Client, any_broker: AnyBroker, new_topic: TopicMaker
) -> None:
    topic = new_topic()
    null = None if producer.sends_null_headers else b"not null"
    records = [
        Record(None, b"value"),
        Record(b"key", None),
        Record(b"", b""),
        Record(b"key", b"", (("null", null), ("empty", b""))),
        Record(None, b"v", (("twice", b"1"), ("other", b"x"), ("twice", b"2"), ("twice", null))),
        Record(b"\x00\xff", bytes(range(256)), (("clé \u20ac", bytes(range(256))),)),
    ]
    producer.produce(any_broker.bootstrap_servers, topic, records)
    for consumer in CLIENTS:
        stored = consumer.consume(any_broker.bootstrap_servers, topic, {0: len(records)})
        assert _contents(stored) == [(record.key, record.value, record.headers) for record in records]


@each_client
def test_records_of_a_megabyte(client: Client, any_broker: AnyBroker, new_topic: TopicMaker) -> None:
    topic = new_topic(2)
    values = [bytes([i]) * 1_000_000 for i in range(6)]
    client.produce(
        any_broker.bootstrap_servers, topic, [Record(None, v, partition=i % 2) for i, v in enumerate(values)]
    )
    stored = client.consume(any_broker.bootstrap_servers, topic, {0: 3, 1: 3})
    assert [record.value for record in stored] == values[0::2] + values[1::2]


@each_client
def test_max_message_bytes_of_a_topic_limits_batches(
    client: Client, any_broker: AnyBroker, new_topic: TopicMaker
) -> None:
    ordinary, large = new_topic(), new_topic(max_message_bytes="6000000")
    record = Record(b"k", b"v" * 5_000_000)
    with pytest.raises(Refused) as refused:
        client.produce(any_broker.bootstrap_servers, ordinary, [record])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.watermarks(any_broker.bootstrap_servers, ordinary, 0) == (0, 0)
    client.produce(any_broker.bootstrap_servers, large, [record])
    (stored,) = client.consume(any_broker.bootstrap_servers, large, {0: 1})
    assert stored.value == record.value


@each_client
def test_fifty_partitions(client: Client, any_broker: AnyBroker, new_topic: TopicMaker) -> None:
    topic = new_topic(50)
    assert client.partitions(any_broker.bootstrap_servers, topic) == list(range(50))
    records = [Record(None, f"{i}".encode(), partition=i % 50) for i in range(1500)]
    client.produce(any_broker.bootstrap_servers, topic, records)
    stored = client.consume(any_broker.bootstrap_servers, topic, dict.fromkeys(range(50), 30))
    assert [(record.partition, record.offset) for record in stored] == [(p, o) for p in range(50) for o in range(30)]
    assert [record.value for record in stored] == [str(p + 50 * o).encode() for p in range(50) for o in range(30)]


@each_client
def test_an_idempotent_producer_writes_each_record_once_in_order(
    client: Client, any_broker: AnyBroker, new_topic: TopicMaker
) -> None:
    topic = new_topic(3)
    records = [Record(None, b"%d" % i, partition=i % 3) for i in range(6000)]
    client.produce(any_broker.bootstrap_servers, topic, records)
    stored = client.consume(any_broker.bootstrap_servers, topic, dict.fromkeys(range(3), 2000))
    assert [int(record.value or b"") for record in stored] == [i for p in range(3) for i in range(p, 6000, 3)]
    for partition in range(3):
        sequence = 0
        for header in stored_batches(any_broker, topic, partition):
            assert header.producer_id >= 0
            assert header.base_sequence == sequence
            sequence += header.records_count
        assert sequence == 2000


@each_client
def test_reading_starts_at_the_given_offset(client: Client, any_broker: AnyBroker, new_topic: TopicMaker) -> None:
    topic = new_topic()
    client.produce(any_broker.bootstrap_servers, topic, [Record(None, b"%d" % i) for i in range(1000)])
    stored = client.consume(any_broker.bootstrap_servers, topic, {0: 377}, start=623)
    assert [record.offset for record in stored] == list(range(623, 1000))


@each_client
def test_offsets_by_time(client: Client, any_broker: AnyBroker, new_topic: TopicMaker) -> None:
    topic = new_topic(4)
    servers = any_broker.bootstrap_servers
    start = START_MS
    times = {0: [start, start + 100, start + 200], 1: [start + 500, start + 100, start + 500], 2: [start]}
    for partition, stamps in times.items():
        for stamp in stamps:  # one batch each
            client.produce(servers, topic, [Record(None, b"v", timestamp_ms=stamp, partition=partition)])

    def at(time_ms: int) -> dict[int, int | None]:
        return client.offsets_for_times(servers, topic, dict.fromkeys(range(4), time_ms))

    assert at(0) == {0: 0, 1: 0, 2: 0, 3: None}
    assert at(start) == {0: 0, 1: 0, 2: 0, 3: None}
    assert at(start + 1) == {0: 1, 1: 0, 2: None, 3: None}
    assert at(start + 200) == {0: 2, 1: 0, 2: None, 3: None}
    assert at(start + 501) == {0: None, 1: None, 2: None, 3: None}


@each_client
def test_offsets_by_time_inside_a_batch(client: Client, any_broker: AnyBroker, new_topic: TopicMaker) -> None:
    topic = new_topic()
    start = START_MS
    records = [Record(None, b"v", timestamp_ms=start + 10 * i) for i in range(500)]
    for codec in ("none", "zstd"):
        client.produce(any_broker.bootstrap_servers, topic, records, compression=codec)
    for time_ms, offset in ((start + 1234, 124), (start + 4990, 499), (start + 4991, None)):
        assert client.offsets_for_times(any_broker.bootstrap_servers, topic, {0: time_ms}) == {0: offset}


@each_client
def test_watermarks(client: Client, any_broker: AnyBroker, new_topic: TopicMaker) -> None:
    topic = new_topic(2)
    assert client.watermarks(any_broker.bootstrap_servers, topic, 1) == (0, 0)
    client.produce(any_broker.bootstrap_servers, topic, [Record(None, b"v", partition=1)] * 7)
    assert client.watermarks(any_broker.bootstrap_servers, topic, 1) == (0, 7)
    assert client.watermarks(any_broker.bootstrap_servers, topic, 0) == (0, 0)


@each_client
def test_offsets_committed_without_a_group_membership(
    client: Client, any_broker: AnyBroker, new_topic: TopicMaker
) -> None:
    topic = new_topic(3)
    servers, group = any_broker.bootstrap_servers, f"group-of-{topic}"
    client.commit(servers, group, topic, {0: 5, 2: 7})
    client.commit(servers, group, topic, {0: 6})
    for reader in CLIENTS:
        assert reader.committed(servers, group, topic, [0, 1, 2]) == {0: 6, 1: None, 2: 7}
        assert reader.committed(servers, f"not-{group}", topic, [0]) == {0: None}


@each_client
def test_topics_are_created_extended_and_deleted(client: Client, any_broker: AnyBroker) -> None:
    servers, topic = any_broker.bootstrap_servers, f"grown-by-{client.name}"
    assert client.partitions(servers, topic) is None
    client.create_topic(servers, topic, 2, configs={"retention.ms": "3600000"})
    eventually(lambda: client.partitions(servers, topic), [0, 1])
    client.produce(servers, topic, [Record(None, b"before", partition=1)])
    client.create_partitions(servers, topic, 5)
    eventually(lambda: client.partitions(servers, topic), [0, 1, 2, 3, 4])
    client.produce(servers, topic, [Record(None, b"after", partition=4)])
    stored = client.consume(servers, topic, {1: 1, 4: 1})
    assert [record.value for record in stored] == [b"before", b"after"]
    client.delete_topic(servers, topic)
    eventually(lambda: client.partitions(servers, topic), None)
    # The same name is a new topic.
    client.create_topic(servers, topic, 1)
    eventually(lambda: client.partitions(servers, topic), [0])
    assert client.watermarks(servers, topic, 0) == (0, 0)


@each_client
def test_topics_that_cannot_be_created(client: Client, any_broker: AnyBroker, new_topic: TopicMaker) -> None:
    servers, topic = any_broker.bootstrap_servers, new_topic(3)

    def code(action: Any, *arguments: Any, **more: Any) -> int:
        with pytest.raises(Refused) as refused:
            action(servers, *arguments, **more)
        return refused.value.code

    assert code(client.create_topic, topic, 1) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert code(client.create_topic, "no/slashes", 1) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert code(client.create_topic, "none", 0) == ErrorCode.INVALID_PARTITIONS
    assert code(client.create_topic, "many-replicas", 1, replication=7) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert code(client.create_topic, "odd", 1, configs={"no.such.config": "1"}) == ErrorCode.INVALID_CONFIG
    assert code(client.create_topic, "bad", 1, configs={"retention.ms": "soon"}) == ErrorCode.INVALID_CONFIG
    assert code(client.create_partitions, topic, 2) == ErrorCode.INVALID_PARTITIONS
    assert code(client.create_partitions, topic, 3) == ErrorCode.INVALID_PARTITIONS
    assert code(client.create_partitions, "unheard-of", 2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(client.delete_topic, "unheard-of") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("release", [(1, 0), (2, 1), (2, 8), (3, 9)], ids=lambda release: ".".join(map(str, release)))
def test_clients_of_older_releases(release: tuple[int, int], any_broker: AnyBroker) -> None:
    client, servers = KafkaPythonClient(release), any_broker.bootstrap_servers
    topic = f"made-by-{client.name}"
    client.create_topic(servers, topic, 2)
    eventually(lambda: client.partitions(servers, topic), [0, 1])
    codec = "lz4" if release < (2, 1) else "zstd"  # brokers have zstd from 2.1 on
    records = [Record(b"k", b"%d" % i, (("h", b""),), START_MS + i, i % 2) for i in range(200)]
    client.produce(servers, topic, records, compression=codec)
    stored = client.consume(servers, topic, {0: 100, 1: 100})
    assert _contents(stored) == [(r.key, r.value, r.headers) for r in records[0::2] + records[1::2]]
    assert client.offsets_for_times(servers, topic, {0: START_MS + 51, 1: START_MS + 200}) == {0: 26, 1: None}
    assert client.watermarks(servers, topic, 1) == (0, 100)
    client.commit(servers, topic, topic, {0: 26})
    assert client.committed(servers, topic, topic, [0, 1]) == {0: 26, 1: None}
    client.delete_topic(servers, topic)
    eventually(lambda: client.partitions(servers, topic), None)


def test_a_fetch_with_a_long_max_wait_ends_when_a_record_comes(any_broker: AnyBroker, new_topic: TopicMaker) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic = new_topic()
    config = {
        "bootstrap.servers": any_broker.bootstrap_servers,
        "group.id": "unused",
        "fetch.wait.max.ms": 200_000,
        "socket.timeout.ms": 250_000,
        "fetch.min.bytes": 1,
        "log_level": 0,
    }
    consumer = Consumer(config)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(1.5) is None  # the fetch is now parked at the broker
        ConfluentClient().produce(any_broker.bootstrap_servers, topic, [Record(None, b"at last")])
        message = consumer.poll(100)  # without the broker's help the fetch would stay parked for longer
    finally:
        consumer.close()
    assert message is not None
    assert message.value() == b"at last"


def test_a_fetch_with_too_large_min_bytes_ends_after_max_wait(any_broker: AnyBroker, new_topic: TopicMaker) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic = new_topic()
    ConfluentClient().produce(any_broker.bootstrap_servers, topic, [Record(None, b"little")])
    config = {
        "bootstrap.servers": any_broker.bootstrap_servers,
        "group.id": "unused",
        "fetch.wait.max.ms": 1000,
        "fetch.min.bytes": 100_000,
        "log_level": 0,
    }
    consumer = Consumer(config)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(60)
    finally:
        consumer.close()
    assert message is not None
    assert message.value() == b"little"


def test_several_consumers_read_while_producers_write(any_broker: AnyBroker, new_topic: TopicMaker) -> None:
    topic = new_topic(4)
    servers = any_broker.bootstrap_servers
    start = threading.Barrier(6)

    def write(client: Client, partition: int) -> None:
        start.wait(30)
        for part in range(5):
            records = [Record(None, b"%d" % (part * 200 + i), partition=partition) for i in range(200)]
            client.produce(servers, topic, records)

    def read(client: Client) -> list[Stored]:
        start.wait(30)
        return client.consume(servers, topic, dict.fromkeys(range(3), 1000))

    with ThreadPoolExecutor(6) as pool:
        writers = [pool.submit(write, CLIENTS[partition], partition) for partition in range(3)]
        readers = [pool.submit(read, CLIENTS[number]) for number in range(3)]
        for writer in writers:
            writer.result(60)
        for reader in readers:
            stored = reader.result(60)
            assert [int(record.value or b"") for record in stored] == list(range(1000)) * 3
