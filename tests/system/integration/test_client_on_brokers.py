import threading
import time
from datetime import datetime

import pyarrow as pa
import pytest
from dirty_equals import IsInt

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.errors import NoSuchPartition, OffsetOutOfRange, RecordTooLarge
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.schema import ALL, HEADERS, RECORD_FIELDS
from tests.support.clients.interface import CODECS
from tests.support.clients.native import config_of, read_range, stored_rows
from tests.support.scripted.fetched_logs import OneRange
from tests.support.servers.brokers import Server, TopicMaker
from tests.support.waiting import eventually

START_MS = int(time.time() * 1000) - 3_600_000

on_brokers = pytest.mark.parametrize(
    "server", ["bundled", pytest.param("apache", marks=pytest.mark.interop)], indirect=True
)


def numbered(count: int, partitions: int) -> pa.RecordBatch:
    """Rows whose values are their numbers, with some nulls, headers and all columns that a producer takes."""
    headers = [None if n % 3 else [{"key": "n", "value": b"%d" % n}, {"key": "n", "value": None}] for n in range(count)]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"%d" % n if n % 8 else None for n in range(count)], pa.binary()),
            "value": pa.array([b"value %d" % n for n in range(count)], pa.binary()),
            "headers": pa.array(headers, HEADERS),
            "timestamp": pa.array(range(START_MS, START_MS + count), pa.int64()),
            "partition": pa.array([n % partitions for n in range(count)], pa.int32()),
        }
    )


def milliseconds(at: datetime | None) -> int:
    """A timestamp as Kafka has it."""
    assert at is not None
    return round(at.timestamp() * 1000)


def read_table(cluster: Cluster, topic: str, partition: int, columns: tuple[str, ...] = ALL) -> pa.Table:
    wanted = TopicPartition(topic, partition)
    end = list_offsets(cluster, {wanted: LATEST})[wanted].offset
    with OneRange(cluster, wanted, 0, end, columns=columns) as fetcher:
        batches = list(fetcher)
    assert fetcher.position == end
    return pa.Table.from_batches(batches, pa.schema([RECORD_FIELDS.field(name) for name in columns]))


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("codec", CODECS)
def test_columns_come_back_as_they_went(server: Server, topic_on: TopicMaker, codec: str) -> None:
    topic, rows, partitions = topic_on(3), numbered(6000, 3), 3
    config = config_of(server.bootstrap_servers, compression_type=codec, batch_size=30_000)
    with Producer(config) as producer:
        for first in range(0, rows.num_rows, 1000):
            producer.send(topic, rows.slice(first, 1000))
    assert producer.metrics.records == rows.num_rows
    with Cluster(config) as cluster:
        for partition in range(partitions):
            found = read_table(cluster, topic, partition).to_pydict()
            sent = {name: column[partition::partitions] for name, column in rows.to_pydict().items()}
            assert {name: found[name] for name in ("key", "value", "headers")} == {
                name: sent[name] for name in ("key", "value", "headers")
            }
            assert [milliseconds(at) for at in found["timestamp"]] == sent["timestamp"]
            assert found["offset"] == list(range(len(sent["value"])))
            assert set(found["timestamp_type"]) == {0}


def test_any_range_and_any_columns(cluster: Cluster, topic_on: TopicMaker) -> None:
    topic = topic_on()
    partition = TopicPartition(topic, 0)
    with Producer(config_of(_servers(cluster), batch_size=2000)) as producer:
        producer.send(topic, numbered(1000, 1))
    for begin, until in ((0, 1), (0, 1000), (999, 1000), (123, 456), (500, 500)):
        with OneRange(cluster, partition, begin, until, columns=("offset", "value")) as fetcher:
            batches = list(fetcher)
        assert {tuple(batch.schema.names) for batch in batches} <= {("offset", "value")}
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert rows == [{"offset": n, "value": b"value %d" % n} for n in range(begin, until)]


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("limits", [{}, {"max_partition_fetch_bytes": 3_000, "fetch_max_bytes": 10_000}])
def test_partitions_are_read_together(server: Server, topic_on: TopicMaker, limits: dict[str, int]) -> None:
    topic, partitions, rows = topic_on(12), 12, 2_400
    config = config_of(server.bootstrap_servers, batch_size=2_000, **limits)
    with Producer(config) as producer:
        producer.send(topic, numbered(rows, partitions))
    wanted = [
        PartitionRange(partition=TopicPartition(topic, number), from_offset=number, until_offset=rows // partitions)
        for number in range(partitions)
    ]
    found: dict[int, list[tuple[int, bytes]]] = {}
    with Cluster(config) as cluster, row_fetcher(cluster, wanted, columns=("offset", "value")) as fetcher:
        for (_, number), records in fetcher:
            found.setdefault(number, []).extend((row["offset"], row["value"]) for row in records.to_pylist())
    assert found == {
        number: [(n, b"value %d" % (n * partitions + number)) for n in range(number, rows // partitions)]
        for number in range(partitions)
    }
    assert limits or fetcher.metrics.requests < 2 * partitions, "mock brokers have one batch of a partition at a time"


def _servers(cluster: Cluster) -> str:
    return ",".join(map(str, cluster.config.bootstrap_servers))


def test_a_reader_waits_for_what_is_still_to_be_written(server: Server, topic_on: TopicMaker) -> None:
    topic, config = topic_on(), config_of(server.bootstrap_servers, linger_ms=0, fetch_max_wait_ms=50)

    def write_after_each_fetch(reader: OneRange) -> None:
        seen = 0
        with Producer(config) as producer:
            for first in range(0, 500, 100):
                eventually(lambda: reader.metrics.requests, IsInt(gt=seen))
                producer.send(topic, numbered(500, 1).slice(first, 100))
                producer.flush()
                seen = reader.metrics.requests

    with Cluster(config) as cluster, OneRange(cluster, TopicPartition(topic, 0), 0, 500) as reader:
        writer = threading.Thread(target=write_after_each_fetch, args=(reader,))
        writer.start()
        rows = [row for batch in reader for row in stored_rows(0, batch)]
        writer.join()
    assert [row.value for row in rows] == [b"value %d" % n for n in range(500)]


@pytest.mark.usefixtures("each_kernel")
def test_keys_choose_partitions_as_in_other_clients(server: Server, cluster: Cluster, topic_on: TopicMaker) -> None:
    murmur2 = pytest.importorskip("kafka.partitioner.default", reason="kafka-python is not installed").murmur2
    topic = topic_on(7)
    keys = [b"", b"a", b"key", *(b"key-%d" % n for n in range(500)), bytes(range(256))]
    with Producer(config_of(server.bootstrap_servers)) as producer:
        producer.send(topic, pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.binary()), "value": keys}))
    for partition in range(7):
        expected = [key for key in keys if (murmur2(key) & 0x7FFFFFFF) % 7 == partition]
        assert read_table(cluster, topic, partition, ("key",))["key"].to_pylist() == expected


def test_offsets_of_many_partitions(cluster: Cluster, topic_on: TopicMaker) -> None:
    topic = topic_on(120)
    partitions = [TopicPartition(topic, number) for number in range(120)]
    with Producer(config_of(_servers(cluster))) as producer:
        producer.send(topic, numbered(6000, 120))
    assert {at.offset for at in list_offsets(cluster, dict.fromkeys(partitions, EARLIEST)).values()} == {0}
    assert {at.offset for at in list_offsets(cluster, dict.fromkeys(partitions, LATEST)).values()} == {50}


@on_brokers
def test_offsets_by_time(cluster: Cluster, topic_on: TopicMaker) -> None:
    topic = topic_on(2)
    partition = TopicPartition(topic, 0)
    with Producer(config_of(_servers(cluster), batch_size=500)) as producer:
        producer.send(topic, numbered(1000, 1))
    for at, offset in ((0, 0), (START_MS, 0), (START_MS + 1, 1), (START_MS + 999, 999), (START_MS + 1000, -1)):
        found = list_offsets(cluster, {partition: at})[partition]
        assert found.offset == offset
        assert found.timestamp == (START_MS + offset if offset >= 0 else -1)
    assert list_offsets(cluster, {partition: MAX_TIMESTAMP})[partition].offset == 999
    assert list_offsets(cluster, {TopicPartition(topic, 1): MAX_TIMESTAMP})[TopicPartition(topic, 1)].offset == -1


@on_brokers
def test_brokers_may_set_the_time(cluster: Cluster, topic_on: TopicMaker) -> None:
    topic = topic_on(1, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    with Producer(config_of(_servers(cluster), compression_type="zstd")) as producer:
        producer.send(topic, numbered(100, 1))
    after = int(time.time() * 1000)
    found = read_table(cluster, topic, 0, ("timestamp", "timestamp_type"))
    assert set(found["timestamp_type"].to_pylist()) == {1}
    times = {milliseconds(at) for at in found["timestamp"].to_pylist()}
    assert len(times) == 1
    assert before <= times.pop() <= after


@on_brokers
def test_offsets_outside_the_log(cluster: Cluster, topic_on: TopicMaker) -> None:
    topic = topic_on()
    with Producer(config_of(_servers(cluster))) as producer:
        producer.send(topic, numbered(10, 1))
    with pytest.raises(OffsetOutOfRange) as error:
        read_range(cluster, TopicPartition(topic, 0), 11, 12)
    assert (error.value.offset, error.value.earliest, error.value.latest) == (11, 0, 10)


@on_brokers
def test_topics_and_partitions_that_are_not_there(cluster: Cluster, topic_on: TopicMaker) -> None:
    topic = topic_on(2)
    with pytest.raises(KafkaError, match=r"never-made.*\(UNKNOWN_TOPIC_OR_PARTITION, "):
        list_offsets(cluster, {TopicPartition("never-made", 0): LATEST})
    with pytest.raises(NoSuchPartition, match=f"{topic}-2 does not exist: the topic has 2 partitions"):
        list_offsets(cluster, {TopicPartition(topic, 2): LATEST})
    with Producer(cluster) as producer, pytest.raises(NoSuchPartition):
        producer.send(topic, numbered(3, 3))


@on_brokers
def test_a_topic_is_made_by_writing_to_it(server: Server, cluster: Cluster) -> None:
    topic = f"made-by-writing-{START_MS}"
    with Producer(cluster) as producer:
        producer.send(topic, pa.RecordBatch.from_pydict({"value": [b"first"]}))
    found = [
        value
        for number in cluster.topic(topic).partitions
        for value in read_table(cluster, topic, number, ("value",))["value"].to_pylist()
    ]
    assert found == [b"first"]


@on_brokers
def test_records_that_are_too_large(server: Server, cluster: Cluster, topic_on: TopicMaker) -> None:
    topic = topic_on(1, max_message_bytes="10000")
    rows = pa.RecordBatch.from_pydict({"value": [b"small", b"x" * 20_000, b"y" * 2_000_000]})
    with Producer(cluster) as producer, pytest.raises(RecordTooLarge) as too_large:
        producer.send(topic, rows)
    assert too_large.value.row == 2
    with pytest.raises(KafkaError, match=f"{topic}-0") as refused, Producer(cluster) as producer:
        producer.send(topic, rows.slice(1, 1))
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    # Many small records in one batch that is too large are sent in smaller ones.
    with Producer(cluster) as producer:
        producer.send(topic, numbered(3000, 1))
    assert list_offsets(cluster, {TopicPartition(topic, 0): LATEST})[TopicPartition(topic, 0)].offset == 3000
