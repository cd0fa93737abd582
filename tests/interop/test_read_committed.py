"""Transactions of another client on Apache Kafka, as our reader shows them at both isolation levels."""

from typing import Any

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import READ_COMMITTED, READ_UNCOMMITTED
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.bounds import Clock
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from spark_kafka_native._spark.planning.stream import StreamOffsets
from spark_kafka_native._spark.source.layout import layout_of
from spark_kafka_native._spark.source.reader import read_task
from spark_kafka_native._spark.source.schema import source_schema
from tests.support.clients.confluent_transactions import transactional_producer
from tests.support.clients.interface import CODECS, DEADLINE_S
from tests.support.clients.native import config_of
from tests.support.scripted.fetched_logs import OneRange
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.servers.brokers import TopicMaker
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")


def _send(producer: Any, topic: str, *values: str) -> None:
    """Write values in one batch, and wait until they are in the log."""
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(DEADLINE_S) == 0


def _read(cluster: Cluster, topic: str, isolation: int, *, end: int) -> list[str]:
    """All values up to `end`, which is where the level ends once the last markers are written.

    A coordinator answers when it has decided; the markers follow.
    """
    partition = TopicPartition(topic, 0)
    eventually(lambda: list_offsets(cluster, {partition: LATEST}, isolation=isolation)[partition].offset, end)
    with OneRange(cluster, partition, 0, end, columns=("value",), isolation=isolation) as fetcher:
        values = [row["value"].decode() for batch in fetcher for row in batch.to_pylist()]
    assert fetcher.position == end
    return values


@pytest.mark.parametrize("codec", CODECS)
def test_committed_aborted_and_open_transactions(apache_kafka: ApacheKafka, codec: str) -> None:
    servers = apache_kafka.bootstrap_servers
    topic = TopicMaker(apache_kafka)()
    first = transactional_producer(servers, f"{topic}-first", compression_type=codec)
    second = transactional_producer(servers, f"{topic}-second", compression_type=codec)

    first.begin_transaction()
    _send(first, topic, "a0", "a1")  # offsets 0, 1
    second.begin_transaction()
    _send(second, topic, "b0")  # 2
    _send(first, topic, "a2")  # 3
    second.abort_transaction(DEADLINE_S)  # 4
    first.commit_transaction(DEADLINE_S)  # 5
    second.begin_transaction()
    _send(second, topic, "b1")  # 6
    first.begin_transaction()
    _send(first, topic, "a3")  # 7
    second.commit_transaction(DEADLINE_S)  # 8

    with Cluster(config_of(servers)) as cluster:
        assert _read(cluster, topic, READ_UNCOMMITTED, end=9) == ["a0", "a1", "b0", "a2", "b1", "a3"]
        assert _read(cluster, topic, READ_COMMITTED, end=7) == ["a0", "a1", "a2", "b1"]
        first.abort_transaction(DEADLINE_S)
        assert _read(cluster, topic, READ_COMMITTED, end=10) == ["a0", "a1", "a2", "b1"]


def test_many_transactions_in_turn(apache_kafka: ApacheKafka) -> None:
    """Long enough that responses hold several transactions, and that a Fetch begins within an aborted one."""
    servers = apache_kafka.bootstrap_servers
    topic = TopicMaker(apache_kafka)()
    producer = transactional_producer(servers, f"{topic}-producer")
    committed, written = [], []
    for number in range(60):
        values = [f"{number}-{n}-{'x' * 100}" for n in range(20)]
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        written += values
        if number % 3:
            producer.commit_transaction(DEADLINE_S)
            committed += values
        else:
            assert producer.flush(DEADLINE_S) == 0
            producer.abort_transaction(DEADLINE_S)
    with Cluster(config_of(servers, max_partition_fetch_bytes=10_000)) as cluster:
        assert _read(cluster, topic, READ_COMMITTED, end=60 * 21) == committed
        assert _read(cluster, topic, READ_UNCOMMITTED, end=60 * 21) == written


class Stream:
    """The micro-batches of a stream from earliest under read_committed, without Spark.

    Brokers that have nothing hold a Fetch for a minute, and a task gives up after a few seconds: to wait is to fail.
    """

    def __init__(self, servers: str, topic: str) -> None:
        self._options = parse_source_options(
            {
                "kafka.bootstrap.servers": servers,
                "kafka.isolation.level": "read_committed",
                "kafka.fetch.max.wait.ms": "60000",
                "kafkaConsumer.pollTimeoutMs": "8000",
                "subscribe": topic,
                "startingOffsets": "earliest",
            },
            Query.STREAM,
        )
        self._stream = StreamOffsets(self._options, ClusterOffsets(self._options.client), Clock())
        self._position = self._stream.initial()

    def batch(self, *, end: int, limit: int | None = None) -> list[str]:
        """The values of the next batch, which ends before offset ``end``."""
        found: list[str] = []
        begin = self._position
        (partition,) = begin

        def latest() -> int:
            self._position = self._stream.latest(begin, limit)
            return self._position[partition]

        eventually(latest, end)
        for task in self._stream.plan(begin, self._position):
            for rows in read_task(self._options, layout_of(source_schema(include_headers=False)), task):
                found += [row["value"].decode() for row in rows.to_pylist()]
        return found


@pytest.mark.feature(
    "transactions.committed", "transactions.aborted", "transactions.open", "transactions.tail", "source.isolationLevel"
)
@pytest.mark.feature("better.noWait")
def test_batches_that_end_in_invisible_records_do_not_wait(apache_kafka: ApacheKafka) -> None:
    servers = apache_kafka.bootstrap_servers
    topic = TopicMaker(apache_kafka)()
    stream = Stream(servers, topic)
    producer = transactional_producer(servers, f"{topic}-producer")
    producer.begin_transaction()
    _send(producer, topic, "0", "1", "2", "3", "4")
    assert stream.batch(end=0) == [], "the transaction is open"
    producer.commit_transaction(DEADLINE_S)  # the marker is 5
    assert stream.batch(end=3, limit=3) == ["0", "1", "2"]
    assert stream.batch(end=6, limit=3) == ["3", "4"], "three offsets, two of which are records"

    producer.begin_transaction()
    _send(producer, topic, "6", "7", "8")
    producer.abort_transaction(DEADLINE_S)  # 9
    assert stream.batch(end=8, limit=2) == []
    assert stream.batch(end=10, limit=2) == [], "an aborted record and a marker"

    producer.begin_transaction()
    _send(producer, topic, "10")
    producer.commit_transaction(DEADLINE_S)  # 11
    producer.begin_transaction()
    _send(producer, topic, "12")
    assert stream.batch(end=12) == ["10"], "nothing from the open transaction on"
    producer.abort_transaction(DEADLINE_S)  # 13
    assert stream.batch(end=14) == []


@pytest.mark.feature("transactions.tail")
def test_ranges_that_end_in_invisible_records_take_one_fetch(apache_kafka: ApacheKafka) -> None:
    servers = apache_kafka.bootstrap_servers
    topic = TopicMaker(apache_kafka)()
    producer = transactional_producer(servers, f"{topic}-producer")
    for commits in (True, False):
        producer.begin_transaction()
        _send(producer, topic, "a", "b")
        (producer.commit_transaction if commits else producer.abort_transaction)(DEADLINE_S)
    with Cluster(config_of(servers, fetch_max_wait_ms=60_000, isolation_level="read_committed")) as cluster:
        assert _read(cluster, topic, READ_COMMITTED, end=6) == ["a", "b"]
        for first, until, rows in ((0, 3, 2), (2, 3, 0), (3, 4, 0), (4, 6, 0), (1, 6, 1), (5, 6, 0)):
            with OneRange(cluster, TopicPartition(topic, 0), first, until, timeout_ms=8_000) as fetcher:
                assert sum(batch.num_rows for batch in fetcher) == rows
            assert fetcher.metrics.requests == 1
