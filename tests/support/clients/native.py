"""Our own client with the interface of `tests.support.clients.interface`."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from dirty_equals import IsFloat

from spark_kafka_native._client.admin.committed_offsets import commit_offsets, fetch_offsets
from spark_kafka_native._client.admin.topics import NewTopic, create_partitions, create_topics, delete_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, list_offsets
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.schema import HEADERS
from tests.support.clients.interface import DEADLINE_S, Configs, Record, Refused, Stored
from tests.support.scripted.fetched_logs import OneRange
from tests.support.waiting import eventually

UNKNOWN_TOPIC_TIMEOUT_MS = 500
"""`create_partitions` asks for so long whether a topic that is not there has been made a moment ago."""


def config_of(servers: str, **more: object) -> ClientConfig:
    """A configuration whose calls end within the tests' deadline; `retry_backoff_ms=5` is `retry.backoff.ms=5`."""
    named = {name.replace("_", "."): value for name, value in more.items()}
    return ClientConfig.parse({"bootstrap.servers": servers, "default.api.timeout.ms": int(DEADLINE_S * 1000), **named})


def stored_rows(partition: int, batch: pa.RecordBatch) -> Iterator[Stored]:
    """The rows of a batch with all columns, one by one."""
    for row in batch.to_pylist():
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        timestamp_ms = round(row["timestamp"].timestamp() * 1000)
        yield Stored(partition, row["offset"], timestamp_ms, row["key"], row["value"], headers)


def read_range(cluster: Cluster, partition: TopicPartition, from_offset: int, until_offset: int) -> list[Stored]:
    """All rows of a range of offsets, waiting for those that are not there yet."""
    with OneRange(cluster, partition, from_offset, until_offset) as fetcher:
        return [row for batch in fetcher for row in stored_rows(partition.partition, batch)]


def outlive_sessions(connection: Connection, count: int = 2) -> None:
    """Ask and ask until the connection has logged in again ``count`` times, which it does before a session's end."""

    def next_login() -> float:
        assert connection.call(MetadataRequest(topics=())).brokers
        return connection._authenticate_at

    for _ in range(count):
        eventually(next_login, IsFloat(gt=connection._authenticate_at))
    assert not connection.closed


def rows_of(records: Sequence[Record]) -> pa.RecordBatch:
    """Records as the batch that `Producer.send` takes."""
    headers = [[{"key": key, "value": value} for key, value in record.headers] or None for record in records]
    columns = {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "headers": pa.array(headers, HEADERS),
        "partition": pa.array([record.partition for record in records], pa.int32()),
    }
    if all(record.timestamp_ms is not None for record in records):
        columns["timestamp"] = pa.array([record.timestamp_ms for record in records], pa.int64())
    return pa.RecordBatch.from_pydict(columns)


@contextmanager
def _refusals() -> Iterator[None]:
    """Errors of the client as the interface has them."""
    try:
        yield
    except KafkaError as error:
        raise Refused(error.code) from error


class OurClient:
    """spark_kafka_native._client."""

    name = "ours"
    sends_null_headers = True

    def produce(
        self, servers: str, topic: str, records: Sequence[Record], *, compression: str = "none"
    ) -> list[tuple[int, int]]:
        """No other producer may write: offsets are counted from the end of the log before."""
        config = config_of(
            servers, compression_type=compression, max_request_size=20_000_000, batch_size=16_384, linger_ms=5
        )
        partitions = {TopicPartition(topic, record.partition) for record in records}
        with Cluster(config) as cluster:
            ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
            with _refusals(), Producer(cluster) as producer:
                producer.send(topic, rows_of(records))
        following = {partition.partition: itertools.count(end.offset) for partition, end in ends.items()}
        return [(record.partition, next(following[record.partition])) for record in records]

    def consume(self, servers: str, topic: str, counts: Mapping[int, int], *, start: int | None = None) -> list[Stored]:
        with Cluster(config_of(servers, fetch_max_wait_ms=100)) as cluster:
            firsts = list_offsets(cluster, {TopicPartition(topic, number): EARLIEST for number in counts})
            stored: list[Stored] = []
            for partition, first in firsts.items():
                begin = first.offset if start is None else start
                stored += read_range(cluster, partition, begin, begin + counts[partition.partition])
        return sorted(stored, key=lambda record: record[:2])

    def offsets_for_times(self, servers: str, topic: str, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        with Cluster(config_of(servers)) as cluster:
            found = list_offsets(
                cluster, {TopicPartition(topic, number): time_ms for number, time_ms in times_ms.items()}
            )
        return {
            partition.partition: None if response.offset < 0 else response.offset
            for partition, response in found.items()
        }

    def watermarks(self, servers: str, topic: str, partition: int) -> tuple[int, int]:
        wanted = TopicPartition(topic, partition)
        with Cluster(config_of(servers)) as cluster:
            low = list_offsets(cluster, {wanted: EARLIEST})[wanted].offset
            return low, list_offsets(cluster, {wanted: LATEST})[wanted].offset

    def commit(self, servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        with Cluster(config_of(servers)) as cluster, _refusals():
            commit_offsets(cluster, group, {TopicPartition(topic, number): at for number, at in offsets.items()})

    def committed(self, servers: str, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int | None]:
        wanted = [TopicPartition(topic, number) for number in partitions]
        with Cluster(config_of(servers)) as cluster:
            found = fetch_offsets(cluster, group, wanted)
        return {part.partition: found[part].offset if part in found else None for part in wanted}

    def partitions(self, servers: str, topic: str) -> list[int] | None:
        with Cluster(config_of(servers)) as cluster:
            topics = cluster.metadata(None).topics
        return sorted(topics[topic].partitions) if topic in topics else None

    def create_topic(
        self, servers: str, topic: str, partitions: int, *, replication: int = 1, configs: Configs = None
    ) -> None:
        wanted = NewTopic(
            name=topic, partitions=partitions, replication_factor=replication, configs=dict(configs or {})
        )
        with Cluster(config_of(servers)) as cluster, _refusals():
            create_topics(cluster, [wanted])

    def create_partitions(self, servers: str, topic: str, total: int) -> None:
        with Cluster(config_of(servers)) as cluster, _refusals():
            create_partitions(cluster, {topic: total}, timeout_ms=UNKNOWN_TOPIC_TIMEOUT_MS)

    def delete_topic(self, servers: str, topic: str) -> None:
        with Cluster(config_of(servers)) as cluster, _refusals():
            delete_topics(cluster, [topic])
