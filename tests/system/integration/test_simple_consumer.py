"""The simple consumer reads what producers have written, on each server."""

import contextlib
from collections.abc import Iterator

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native.clients import (
    ConsumerRecord,
    FetchRequest,
    NotAReplica,
    OffsetAndMetadata,
    OffsetOutOfRange,
    Producer,
    ProducerRecord,
    SimpleConsumer,
    TopicPartition,
)
from tests.support.clients.interface import CODECS
from tests.support.servers.brokers import Server, TopicMaker

RECORDS = 300
PARTITIONS = 3
TIME_MS = 1_700_000_000_000

bundled_and_apache = pytest.mark.parametrize(
    "server", ["bundled", pytest.param("apache", marks=pytest.mark.interop)], indirect=True
)


@contextlib.contextmanager
def consumer_of(server: Server, **options: object) -> Iterator[SimpleConsumer]:
    named = {name.replace("_", "."): value for name, value in options.items()}
    with SimpleConsumer({"bootstrap.servers": server.bootstrap_servers, **named}) as consumer:
        yield consumer


def write(server: Server, records: list[ProducerRecord], **options: object) -> None:
    """Each list is written in batches of at most about a kilobyte."""
    named = {name.replace("_", "."): value for name, value in options.items()}
    with Producer({"bootstrap.servers": server.bootstrap_servers, "batch.size": 1000, **named}) as producer:
        futures = producer.send_all(records)
        producer.flush()
        for future in futures:
            future.result(0)


def record(topic: str, number: int) -> ProducerRecord:
    return ProducerRecord(
        topic,
        b"value %d" % number if number % 7 else None,
        b"key %d" % number if number % 5 else None,
        number % PARTITIONS,
        TIME_MS + number,
        [("number", b"%d" % number), ("none", None)] if number % 3 else (),
    )


@pytest.mark.parametrize("codec", CODECS)
def test_all_records_of_all_partitions_are_read(server: Server, topic_on: TopicMaker, codec: str) -> None:
    topic = topic_on(PARTITIONS)
    sent = [record(topic, number) for number in range(RECORDS)]
    write(server, sent, compression_type=codec)
    found: dict[int, list[ConsumerRecord]] = {partition: [] for partition in range(PARTITIONS)}
    positions = dict.fromkeys(range(PARTITIONS), 0)
    with consumer_of(server) as consumer:
        while any(offset < RECORDS // PARTITIONS for offset in positions.values()):
            results = consumer.multifetch([FetchRequest(topic, part, offset) for part, offset in positions.items()])
            for result in results:
                assert result.next_offset > result.request.offset or result.next_offset == RECORDS // PARTITIONS
                assert result.high_watermark == RECORDS // PARTITIONS
                found[result.request.partition] += result.records
                positions[result.request.partition] = result.next_offset
    assert found == {
        partition: [
            ConsumerRecord(
                topic, partition, offset, each.timestamp_ms, False, each.key, each.value, tuple(each.headers)
            )
            for offset, each in enumerate(sent[partition::PARTITIONS])
        ]
        for partition in range(PARTITIONS)
    }


@bundled_and_apache
def test_small_limits_lose_nothing(server: Server, topic_on: TopicMaker) -> None:
    topic = topic_on(PARTITIONS)
    write(server, [record(topic, number) for number in range(RECORDS)])
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    positions = dict.fromkeys(range(PARTITIONS), 0)
    rounds = 0
    with consumer_of(server, fetch_max_bytes=1) as consumer:
        while any(offset < RECORDS // PARTITIONS for offset in positions.values()):
            rounds += 1
            assert rounds <= RECORDS
            for result in consumer.multifetch(
                [FetchRequest(topic, part, offset, 1) for part, offset in positions.items()]
            ):
                found[result.request.partition] += [each.offset for each in result.records]
                positions[result.request.partition] = result.next_offset
    assert found == {partition: list(range(RECORDS // PARTITIONS)) for partition in range(PARTITIONS)}
    assert rounds > 2


@bundled_and_apache
def test_an_offset_out_of_range_names_the_range(server: Server, topic_on: TopicMaker) -> None:
    topic = topic_on()
    write(server, [ProducerRecord(topic, b"a", partition=0)])
    with (
        consumer_of(server) as consumer,
        pytest.raises(OffsetOutOfRange, match=f"{topic}-0: offset 2 is not in the log, which has 0 to 1"),
    ):
        consumer.fetch(FetchRequest(topic, 0, 2))


@bundled_and_apache
def test_offsets_before_a_time_on_brokers_that_do_not_list_segments(server: Server, topic_on: TopicMaker) -> None:
    topic = topic_on()
    write(server, [record(topic, PARTITIONS * number) for number in range(RECORDS)])
    with consumer_of(server) as consumer:
        latest, earliest = consumer.LATEST_TIME, consumer.EARLIEST_TIME
        assert consumer.offsets_before(topic, 0, latest, 10) == [RECORDS, 0]
        assert consumer.offsets_before(topic, 0, latest) == [RECORDS]
        assert consumer.offsets_before(topic, 0, earliest, 10) == [0]
        assert consumer.offsets_before(topic, 0, TIME_MS + 100 * PARTITIONS, 10) == [100, 0]
        assert consumer.offsets_before(topic, 0, TIME_MS + 100 * PARTITIONS - 1) == [100]
        assert consumer.offsets_before(topic, 0, TIME_MS - 1, 10) == [0]
        assert consumer.offsets_before(topic, 0, TIME_MS * 2, 10) == [RECORDS, 0]
        with pytest.raises(KafkaError, match=f"{topic}-1 does not exist"):
            consumer.offsets_before(topic, 1, latest)


def test_offsets_before_a_time_are_the_segments_of_brokers_that_list_them() -> None:
    with EmbeddedBroker(settings={"as.version": "3.9"}) as broker:
        broker.create_topic("t", 1, configs={"segment.bytes": "1000"})
        batches = 12
        for _ in range(batches):
            write(broker, [ProducerRecord("t", b"x" * 400, partition=0)])
        with consumer_of(broker) as consumer:
            found = consumer.offsets_before("t", 0, consumer.LATEST_TIME, 100)
            assert found == [batches, *range(batches - 2, -1, -2)], "the log end offset and the segments of two records"
            assert consumer.offsets_before("t", 0, consumer.LATEST_TIME, 3) == found[:3]
            assert consumer.offsets_before("t", 0, consumer.EARLIEST_TIME, 100) == [0]
            assert consumer.offsets_before("t", 0, 0, 100) == [], "no segment is as old"


@bundled_and_apache
def test_offsets_of_a_group(server: Server, topic_on: TopicMaker, group_id: str, cluster: Cluster) -> None:
    topic = topic_on(2)
    with consumer_of(server) as consumer:
        coordinator = consumer.find_coordinator(group_id)
        assert coordinator in cluster.metadata([]).brokers.values()
        assert consumer.committed_offsets(group_id) == {}
        consumer.commit_offsets(group_id, {(topic, 0): 5, (topic, 1): OffsetAndMetadata(offset=6, metadata="here")})
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        found = consumer.committed_offsets(group_id)
        assert {part: (each.offset, each.metadata) for part, each in found.items()} == {
            first: (5, ""),
            second: (6, "here"),
        }
        assert list(consumer.committed_offsets(group_id, [(topic, 1)])) == [second]


@bundled_and_apache
def test_metadata_names_partitions_and_leaders(server: Server, topic_on: TopicMaker) -> None:
    topic = topic_on(2)
    with consumer_of(server) as consumer:
        metadata = consumer.metadata([topic])
        partitions = metadata.topics[topic].partitions
        assert list(partitions) == [0, 1]
        assert partitions[0].leader_id in metadata.brokers


@bundled_and_apache
def test_a_given_broker_is_read(server: Server, topic_on: TopicMaker) -> None:
    topic = topic_on()
    write(server, [ProducerRecord(topic, b"a", partition=0)])
    with consumer_of(server) as consumer:
        leader = consumer.metadata([topic]).topics[topic].partitions[0].leader_id
    options = {"bootstrap.servers": server.bootstrap_servers}
    with SimpleConsumer(options, broker_id=leader) as consumer:
        assert [each.value for each in consumer.fetch(FetchRequest(topic, 0, 0)).records] == [b"a"]
        assert consumer.offsets_before(topic, 0, consumer.LATEST_TIME) == [1]
    with SimpleConsumer(options, broker_id=leader + 7) as consumer, pytest.raises(NotAReplica):
        consumer.fetch(FetchRequest(topic, 0, 0))
