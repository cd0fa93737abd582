"""Random deletion, recreation and stale metadata of topics: every record is read once."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from spark_kafka_native._client.cluster.metadata import PartitionLeader
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.offsets import OffsetMap
from spark_kafka_native._spark.planning.ranges import OffsetRange
from tests.support.spark.fake_offsets import LEADER, FakeCluster
from tests.support.spark.stream_query import StreamQuery

View = dict[str, tuple[UUID, tuple[int, ...]]]
"""What a broker knows of topics: their ids and partitions."""


@dataclass
class LaggingCluster(FakeCluster):
    """Metadata are current or, while it ``lags``, stale; offsets are always current.

    Stale metadata were current before, because a query orders ids by their lookups.
    """

    chance: random.Random = field(default_factory=random.Random)
    lags: bool = True
    loses: bool = False
    """Whether partitions may vanish while their offsets are looked up."""
    views: list[View] = field(default_factory=lambda: [{}])
    shown: set[int] = field(default_factory=lambda: {0})
    """Of the views those that the query was shown."""
    latest_shown: int = 0
    answered: dict[str, UUID] = field(default_factory=dict)
    """The ids of the last responses, as ``ClusterOffsets`` keeps them."""

    def note(self) -> None:
        """Brokers come to know how things are now."""
        topics = {tp.topic for tp in self.end}
        view = {name: (self.ids[name], tuple(super(LaggingCluster, self).topics([name])[name])) for name in topics}
        if view != self.views[-1]:
            self.views.append(view)

    def topics(self, names: Iterable[str] | None) -> dict[str, tuple[int, ...]]:
        view = self._some_view()
        if names is not None:
            view = {name: view[name] for name in names if name in view}
            self.answered = {name: known for name, known in self.answered.items() if name not in set(names)}
        else:
            self.answered = {}
        self.answered |= {name: topic_id for name, (topic_id, _) in view.items()}
        return {name: partitions for name, (_, partitions) in view.items()}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID]:
        return {name: self.answered[name] for name in topics if name in self.answered}

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> OffsetMap:
        found = super().list_offsets(wanted)
        if self.loses and self.chance.random() < 0.1:
            found = {tp: offset for tp, offset in found.items() if self.chance.random() < 0.5}
        return found

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionLeader]:
        view = self._some_view(whole=False)
        known = {name: topic_id for name, (topic_id, _) in (self.views[-1] | view).items()}
        return {tp: LEADER._replace(topic_id=known.get(tp.topic, self.answered[tp.topic])) for tp in partitions}

    def _some_view(self, *, whole: bool = True) -> View:
        at = newest = len(self.views) - 1
        if self.lags and self.chance.random() < 0.4:
            at = self.chance.choice(sorted(self.shown | set(range(self.latest_shown, newest + 1))))
        self.latest_shown = max(self.latest_shown, at)
        if whole:
            self.shown.add(at)
        return self.views[at]


@dataclass(kw_only=True)
class ModelQuery(StreamQuery):
    """A query whose tasks read the topic of an id or nothing, as those of a cluster do."""

    model: LaggingCluster
    records: Counter[tuple[UUID, TopicPartition, int]] = field(default_factory=Counter)
    eventful: bool = True

    def something_happens(self) -> None:
        chance, cluster = self.model.chance, self.model
        while self.eventful and chance.random() < 0.4:
            topic = chance.choice("ttu")
            partitions = [tp for tp in cluster.end if tp.topic == topic]
            match chance.randrange(8):
                case 0:
                    cluster.remove(topic)
                case 1 | 2:
                    cluster.recreate(topic, *(chance.choice([0, 2, 5, 11]) for _ in range(chance.randint(1, 3))))
                case 3 if partitions and len(partitions) < 3:
                    new = TopicPartition(topic, len(partitions))
                    cluster.first[new], cluster.end[new] = 0, chance.choice([0, 3, 9])
                case _ if partitions:
                    cluster.produce(topic, chance.choice(partitions).partition, chance.randint(1, 6))
            cluster.note()

    def keep(self, ranges: list[OffsetRange]) -> None:
        self.something_happens()
        for piece in ranges:
            tp = piece.topic_partition
            assert piece.leader is not None
            if self.model.ids.get(tp.topic) == piece.leader.topic_id:
                until = min(piece.until_offset, self.model.end.get(tp, 0))
                self.records.update((piece.leader.topic_id, tp, at) for at in range(piece.from_offset, until))
        super().keep(ranges)

    def _run(self) -> None:
        self.model.loses = False
        self.something_happens()
        super()._run()
        self.model.loses = self.eventful


@pytest.mark.parametrize("seed", range(100))
def test_no_record_is_read_twice_and_none_of_the_last_topics_is_left_out(seed: int) -> None:
    chance = random.Random(seed)
    cluster = LaggingCluster(chance=chance)
    cluster.add("t", 5, 2)
    cluster.add("u", 3)
    cluster.note()
    options = {
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
        "fetchOffset.numRetries": chance.choice(["0", "3"]),
        **chance.choice([{"subscribe": "t"}, {"subscribe": "t,u"}, {"subscribePattern": "t|u"}]),
        **chance.choice([{}, {"maxOffsetsPerTrigger": str(chance.randint(1, 9))}, {"minOffsetsPerTrigger": "6"}]),
    }
    cluster.lags = False
    running = ModelQuery(cluster, options, model=cluster)
    running.start()
    running.trigger()
    cluster.lags = True
    for _ in range(80):
        running.something_happens()
        running.later(chance.choice([10, 1000])).trigger()
    running.eventful = cluster.lags = cluster.loses = False
    for _ in range(40):
        running.later(1_000_000).trigger()
    assert {record: times for record, times in running.records.items() if times > 1} == {}
    read_topics = {"t", "u"} if options.get("subscribe") != "t" else {"t"}
    wanted = {
        (cluster.ids[tp.topic], tp, at)
        for tp, end in cluster.end.items()
        if tp.topic in read_topics
        for at in range(end)
    }
    assert wanted - running.records.keys() == set()
    assert len(cluster.views) > 10
