"""The producer of single records writes what readers find where its futures say, on each server."""

import hashlib

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native.clients import Producer, ProducerRecord
from tests.support.clients.interface import CODECS
from tests.support.clients.native import config_of, read_range
from tests.support.servers.brokers import Server, TopicMaker

RECORDS = 3_000
PARTITIONS = 3


def record(topic: str, number: int) -> ProducerRecord:
    """Records with and without keys, values and headers, some of them for given partitions."""
    return ProducerRecord(
        topic,
        hashlib.sha256(b"%d" % number).digest() * (number % 7) if number % 11 else None,
        b"key %d" % number if number % 5 else None,
        number % PARTITIONS if number % 2 else None,
        1_700_000_000_000 + number,
        [("number", b"%d" % number), ("none", None)] if number % 3 else (),
    )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer_type", ["async", "sync"])
def test_records_are_where_their_futures_say(
    server: Server, topic_on: TopicMaker, codec: str, producer_type: str
) -> None:
    topic = topic_on(PARTITIONS)
    sent = [record(topic, number) for number in range(RECORDS)]
    options = {"bootstrap.servers": server.bootstrap_servers, "compression.type": codec}
    with Producer({**options, "producer.type": producer_type}) as producer:
        futures = producer.send_all(sent)
    written = [future.result(0) for future in futures]
    found = {}
    with Cluster(config_of(server.bootstrap_servers)) as cluster:
        for partition in range(PARTITIONS):
            end = sum(metadata.partition == partition for metadata in written)
            for row in read_range(cluster, TopicPartition(topic, partition), 0, end):
                found[partition, row.offset] = row
    assert len(found) == RECORDS
    for expected, metadata in zip(sent, written, strict=True):
        row = found[metadata.partition, metadata.offset]
        assert (row.key, row.value, row.timestamp_ms) == (expected.key, expected.value, expected.timestamp_ms)
        assert row.headers == tuple(expected.headers)
        assert expected.partition in {None, metadata.partition}


@pytest.mark.parametrize("server", ["bundled", pytest.param("apache", marks=pytest.mark.interop)], indirect=True)
@pytest.mark.parametrize("time", ["CreateTime", "LogAppendTime"])
def test_the_future_has_the_time_that_is_stored(server: Server, topic_on: TopicMaker, time: str) -> None:
    topic = topic_on(1, message_timestamp_type=time)
    with Producer({"bootstrap.servers": server.bootstrap_servers}) as producer:
        metadata = producer.send(topic, b"a", timestamp_ms=1000).result(60)
    with Cluster(config_of(server.bootstrap_servers)) as cluster:
        (row,) = read_range(cluster, TopicPartition(topic, 0), 0, 1)
    assert metadata.timestamp_ms == row.timestamp_ms
    assert (metadata.timestamp_ms == 1000) == (time == "CreateTime")


@pytest.mark.parametrize("server", ["bundled", pytest.param("apache", marks=pytest.mark.interop)], indirect=True)
def test_records_that_a_topic_refuses_fail_and_others_are_written(server: Server, topic_on: TopicMaker) -> None:
    topic = topic_on(1, max_message_bytes="1000")
    with Producer({"bootstrap.servers": server.bootstrap_servers}) as producer:
        futures = [producer.send(topic, b"x" * size) for size in (10, 2000, 20)]
        producer.flush()
        errors = [str(future.exception(0) or "") for future in futures]
        after = producer.send(topic, b"y").result(60)
    assert "MESSAGE_TOO_LARGE" in errors[1]
    assert after.offset == errors.count("")
