"""Topics of one cluster for tests: made, written and read in a line each, through this project's own client."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import pyarrow as pa

from spark_kafka_native._client.admin.delete_records import delete_records
from spark_kafka_native._client.admin.topics import NewTopic, create_partitions, create_topics, delete_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, list_offsets
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.scripted.fetched_logs import OneRange

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


class Record(NamedTuple):
    """A record as a test compares it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None = None


@dataclass
class Topics:
    """The topics of the cluster at ``bootstrap_servers``; a context manager."""

    bootstrap_servers: str
    isolation: str = "read_uncommitted"
    """What is read, and where topics end."""

    def __post_init__(self) -> None:
        self._cluster = Cluster(
            ClientConfig.parse({"bootstrap.servers": self.bootstrap_servers, "isolation.level": self.isolation})
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def create(self, partitions: int = 1, *, prefix: str = "t", name: str | None = None, **configs: str) -> str:
        """Make a topic with a name of its own, or ``name``. Config names have ``_`` for ``.``."""
        made = name or f"{prefix}-{uuid.uuid4().hex[:8]}"
        named = {key.replace("_", "."): value for key, value in configs.items()}
        create_topics(self._cluster, [NewTopic(name=made, partitions=partitions, configs=named)])
        return made

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions: ``total`` of them."""
        create_partitions(self._cluster, {topic: total})

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        delete_topics(self._cluster, [topic])

    def delete_before(self, topic: str, offset: int, *, partition: int = 0) -> None:
        """Delete the first records of a partition, as retention does: it begins at ``offset`` then."""
        delete_records(self._cluster, {TopicPartition(topic, partition): offset})

    def write(
        self,
        topic: str,
        values: Sequence[str | bytes | None],
        *,
        keys: Sequence[str | bytes | None] | None = None,
        partition: int | Sequence[int | None] | None = 0,
        headers: Sequence[list[tuple[str, bytes | None]] | None] | None = None,
        timestamps: Sequence[int] | None = None,
    ) -> None:
        """Append records; returns when they are acknowledged. ``partition`` None: the partitioner chooses."""
        columns: dict[str, Any] = {"value": pa.array(_binary(values), pa.binary())}
        if keys is not None:
            columns["key"] = pa.array(_binary(keys), pa.binary())
        if partition is not None:
            chosen = [partition] * len(values) if isinstance(partition, int) else list(partition)
            columns["partition"] = pa.array(chosen, pa.int32())
        if headers is not None:
            columns["headers"] = pa.array([row and _structs(row) for row in headers], _HEADERS)
        if timestamps is not None:
            columns["timestamp"] = pa.array(timestamps, pa.int64())
        with Producer(self._cluster) as producer:
            producer.send(topic, pa.RecordBatch.from_pydict(columns))

    def read(self, topic: str) -> list[Record]:
        """Every record of a topic, by partition and offset."""
        partitions = [
            TopicPartition(topic, number) for number in self._cluster.metadata([topic]).topics[topic].partitions
        ]
        first = list_offsets(self._cluster, dict.fromkeys(partitions, EARLIEST))
        end = list_offsets(self._cluster, dict.fromkeys(partitions, LATEST))
        return [record for tp in partitions for record in self._records(tp, first[tp].offset, end[tp].offset)]

    def values(self, topic: str) -> list[bytes | None]:
        """The values of a topic, sorted; nulls first."""
        return sorted(
            (record.value for record in self.read(topic)), key=lambda value: (value is not None, value or b"")
        )

    def starts(self, topic: str) -> dict[int, int]:
        """First offsets by partition."""
        return self._offsets(topic, EARLIEST)

    def ends(self, topic: str) -> dict[int, int]:
        """End offsets by partition."""
        return self._offsets(topic, LATEST)

    def _offsets(self, topic: str, at: int) -> dict[int, int]:
        partitions = self._cluster.metadata([topic]).topics[topic].partitions
        found = list_offsets(self._cluster, {TopicPartition(topic, number): at for number in partitions})
        return {tp.partition: listed.offset for tp, listed in found.items()}

    def _records(self, tp: TopicPartition, start: int, until: int) -> list[Record]:
        columns = ("offset", "key", "value", "headers")
        with OneRange(self._cluster, tp, start, until, columns=columns) as fetcher:
            rows = [row for batch in fetcher for row in batch.to_pylist()]
        return [
            Record(
                tp.partition,
                row["offset"],
                row["key"],
                row["value"],
                row["headers"] and [(header["key"], header["value"]) for header in row["headers"]],
            )
            for row in rows
        ]


def _structs(headers: list[tuple[str, bytes | None]]) -> Any:
    return [{"key": key, "value": value} for key, value in headers]


def _binary(values: Sequence[str | bytes | None]) -> list[bytes | None]:
    return [value.encode() if isinstance(value, str) else value for value in values]
