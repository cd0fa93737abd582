"""A cluster for planning tests: partitions with a first and an end offset, and what was asked of it."""

import gc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import pytest

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.cluster.metadata import Node, PartitionLeader
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS, TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID
from spark_kafka_native._spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, OffsetMap
from spark_kafka_native._spark.planning.bounds import Clock

LEADER = PartitionLeader(node=Node(node_id=1, host="broker", port=9092))


@dataclass
class FakeCluster:
    """An ``OffsetSource``. Change ``first`` and ``end`` at will; ``requests`` lists the calls made."""

    first: OffsetMap = field(default_factory=dict)
    end: OffsetMap = field(default_factory=dict)
    times: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """Timestamps of a partition's records, from its offset 0 on."""
    epochs: dict[TopicPartition, int] = field(default_factory=dict)
    """Leader epochs of partitions; without one they are of brokers that have none."""
    epoch_ends: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    """Where earlier epochs ended in the log of a partition's leader."""
    requests: list[str] = field(default_factory=list)
    ids: dict[str, UUID] = field(default_factory=dict)
    """Ids of topics; empty it to be a cluster that has none."""
    groups: dict[str, dict[TopicPartition, OffsetAndMetadata]] = field(default_factory=dict)
    offsets_partitions: int = 5
    """Partitions of ``__consumer_offsets``."""
    commit_error: KafkaError | None = None
    """What commits to a group are answered with."""

    def add(self, topic: str, *ends: int, first: int = 0) -> "FakeCluster":
        """Make a topic with one partition per end offset, or give it more."""
        self.ids.setdefault(topic, uuid4())
        for partition, end in enumerate(ends):
            self.first[TopicPartition(topic, partition)] = first
            self.end[TopicPartition(topic, partition)] = end
        return self

    def remove(self, topic: str, *partitions: int) -> None:
        """Delete a topic, or some of its partitions."""
        for tp in [tp for tp in self.end if tp.topic == topic and (not partitions or tp.partition in partitions)]:
            del self.first[tp], self.end[tp]
        if not any(tp.topic == topic for tp in self.end):
            self.ids.pop(topic, None)
            for commits in self.groups.values():
                for tp in [tp for tp in commits if tp.topic == topic]:
                    del commits[tp]

    def recreate(self, topic: str, *ends: int, first: int = 0) -> None:
        """Delete a topic and make another of its name."""
        self.remove(topic)
        self.add(topic, *ends, first=first)

    def produce(self, topic: str, partition: int, count: int) -> None:
        """Append records."""
        self.end[TopicPartition(topic, partition)] += count

    def topics(self, names: Iterable[str] | None) -> dict[str, tuple[int, ...]]:
        self.requests.append("topics")
        wanted = {tp.topic for tp in self.end} - INTERNAL_TOPICS if names is None else set(names)
        numbers: dict[str, list[int]] = {}
        for topic, partition in sorted(self.end):
            if topic in wanted:
                numbers.setdefault(topic, []).append(partition)
        found = {topic: tuple(partitions) for topic, partitions in numbers.items()}
        if "__consumer_offsets" in wanted:
            found["__consumer_offsets"] = tuple(range(self.offsets_partitions))
        return found

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> OffsetMap:
        self.requests.append("list_offsets")
        return {tp: self._lookup(tp, at) for tp, at in wanted.items() if tp in self.end}

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionLeader]:
        return {
            tp: LEADER._replace(leader_epoch=self.epochs.get(tp, -1), topic_id=self.ids.get(tp.topic, ZERO_UUID))
            for tp in partitions
        }

    def latest_timestamps(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.requests.append("latest_timestamps")
        return {tp: max(self.times[tp]) for tp in partitions if self.times.get(tp)}

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> OffsetMap:
        self.requests.append("ends_of_epochs")
        ends = {
            tp: [end for known, end in self.epoch_ends.get(tp, {}).items() if known <= at] for tp, at in epochs.items()
        }
        return {tp: max(found) for tp, found in ends.items() if found}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID]:
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self.requests.append("committed")
        commits = self.groups.get(group_id, {})
        return {tp: commits[tp] for tp in partitions if tp in commits}

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_ms: float | None = None
    ) -> None:
        self.requests.append("commit")
        if self.commit_error is not None:
            raise self.commit_error
        self.groups.setdefault(group_id, {}).update(offsets)

    def _lookup(self, tp: TopicPartition, at: int) -> int:
        if at == EARLIEST_OFFSET:
            return self.first[tp]
        if at == LATEST_OFFSET:
            return self.end[tp]
        return next((offset for offset, time in enumerate(self.times.get(tp, [])) if time >= at), -1)


@dataclass
class ManualClock(Clock):
    """A clock that only tests and ``sleep_ms`` move."""

    ms: float = 0.0
    slept_ms: float = 0.0

    def now_ms(self) -> float:
        return self.ms

    def epoch_ms(self) -> float:
        return self.ms

    def sleep_ms(self, duration_ms: float) -> None:
        self.ms += duration_ms
        self.slept_ms += duration_ms


def collection_during_lookups(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether garbage collection was enabled, an item for each later call of ``topics``."""
    found: list[bool] = []
    topics = cluster.topics

    def recorded(names: Iterable[str] | None) -> dict[str, tuple[int, ...]]:
        found.append(gc.isenabled())
        return topics(names)

    monkeypatch.setattr(cluster, "topics", recorded)
    return found
