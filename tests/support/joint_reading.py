"""Several partitions, each a log whose values are its offsets, and reading them together."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.consumer.fetcher import Fetcher
from spark_kafka_native.client.consumer.joint_fetcher import JointFetcher, PartitionRange, Place
from spark_kafka_native.protocol.messages import FetchRequest
from spark_kafka_native.protocol.topic import TopicPartition
from tests.support.fetched_logs import LAST, fill, offsets_of
from tests.support.scripted_broker import (
    ScriptedCluster,
)

PARTITIONS = 6


@contextmanager
def two_leaders(partitions: int) -> Iterator[ScriptedCluster]:
    """Two brokers: one leads the even partitions of topic t, one the odd ones."""
    with ScriptedCluster(brokers=2, topics={"t": partitions}) as running:
        for number in range(partitions):
            fill(running.partition("t", number))
        yield running


def tp(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


def ranges(numbers: Iterable[int], start: int = 0, end: int = LAST) -> list[PartitionRange]:
    return [PartitionRange(partition=tp(number), from_offset=start, until_offset=end) for number in numbers]


ALL = ranges(range(PARTITIONS))


@dataclass
class Reading:
    """What a fetcher has given, and what it has left."""

    offsets: dict[TopicPartition, list[int]] = field(default_factory=dict)
    left: dict[TopicPartition, Place] = field(default_factory=dict)

    @property
    def left_at(self) -> dict[int, int]:
        return {partition.partition: place.position for partition, place in self.left.items()}

    def take(self, partition: TopicPartition, offsets: Sequence[int]) -> None:
        self.offsets.setdefault(partition, []).extend(offsets)


def read(cluster: Cluster, wanted: Sequence[PartitionRange], **options: object) -> Reading:
    """Together as far as it goes. What was given is what is below the places."""
    reading = Reading()
    with JointFetcher(cluster, wanted, **options) as joint:  # type: ignore[arg-type]  # options by name
        for partition, records in joint:
            assert records.num_rows
            assert records.column("value").to_pylist() == [b"%d" % offset for offset in offsets_of([records])]
            reading.take(partition, offsets_of([records]))
    reading.left = joint.left
    return reading


def read_on(cluster: Cluster, wanted: Sequence[PartitionRange], **options: object) -> Reading:
    """Together as far as it goes, and the rest one by one."""
    reading = read(cluster, wanted, **options)
    ends = {each.partition: each.until_offset for each in wanted}
    for partition, place in reading.left.items():
        with Fetcher(cluster, partition, place.position, ends[partition], read_epoch=place.epoch) as fetcher:
            reading.take(partition, offsets_of(list(fetcher)))
    return reading


def whole(wanted: Iterable[PartitionRange]) -> dict[TopicPartition, list[int]]:
    return {each.partition: list(range(each.from_offset, each.until_offset)) for each in wanted}


def asked(brokers: ScriptedCluster) -> list[dict[int, int]]:
    """The partitions of each Fetch, in its order, and their offsets."""
    return [
        {part.partition: part.fetch_offset for topic in request.topics for part in topic.partitions}
        for request in brokers.requests(FetchRequest)
    ]
