"""Several partitions, each a log whose values are its offsets, read together."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import LAST, fill, offsets_of

PARTITIONS = 6


@contextmanager
def two_leaders(partitions: int) -> Iterator[ScriptedCluster]:
    """Two brokers: one leads the even partitions of topic t, one the odd ones."""
    with ScriptedCluster(brokers=2, topics={"t": partitions}) as running:
        for number in range(partitions):
            fill(running.partition("t", number))
        yield running


@pytest.fixture
def brokers_of_two_leaders() -> Iterator[ScriptedCluster]:
    """`two_leaders` of all `PARTITIONS`."""
    with two_leaders(PARTITIONS) as running:
        yield running


def tp(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


def ranges(numbers: Iterable[int], start: int = 0, end: int = LAST) -> list[PartitionRange]:
    return [PartitionRange(partition=tp(number), from_offset=start, until_offset=end) for number in numbers]


ALL = ranges(range(PARTITIONS))


@dataclass
class Reading:
    """The offsets that a fetcher has yielded, and the partitions that failed."""

    offsets: dict[TopicPartition, list[int]] = field(default_factory=dict)
    errors: dict[int, KafkaError] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    """Of the partitions that failed."""


def read(cluster: Cluster, wanted: Sequence[PartitionRange], **options: object) -> Reading:
    """Read ranges together, without the partitions that fail."""
    reading = Reading()
    with row_fetcher(cluster, wanted, **options) as fetcher:  # type: ignore[arg-type]  # options by name
        while True:
            try:
                for partition, records in fetcher:
                    assert records.num_rows
                    assert records.column("value").to_pylist() == [b"%d" % offset for offset in offsets_of([records])]
                    reading.offsets.setdefault(partition, []).extend(offsets_of([records]))
                return reading
            except KafkaError as error:
                assert fetcher.failed is not None
                reading.errors[fetcher.failed.partition] = error
                reading.positions[fetcher.failed.partition] = fetcher.position(fetcher.failed)
                fetcher.remove(fetcher.failed)


def whole(wanted: Iterable[PartitionRange]) -> dict[TopicPartition, list[int]]:
    return {each.partition: list(range(each.from_offset, each.until_offset)) for each in wanted}


def asked(brokers: ScriptedCluster) -> list[dict[int, int]]:
    """The partitions of each Fetch, in its order, and their offsets."""
    return [
        {part.partition: part.fetch_offset for topic in request.topics for part in topic.partitions}
        for request in brokers.requests(FetchRequest)
    ]
