import time
from collections.abc import Mapping

import pytest

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.offsets import (
    Ago,
    BeforeLatest,
    Committed,
    Earliest,
    GlobalTimestamp,
    Latest,
    NoMatch,
    OffsetLimit,
    OffsetMap,
    PartitionTimestamps,
    SpecificOffsets,
    parse_offset_limit,
)
from spark_kafka_native._spark.planning.bounds import Clock, Edge, bind_limit, look_up_bounds, may_move, resolve
from tests.support.spark.fake_offsets import FakeCluster, ManualClock

A0, A1, B0 = TopicPartition("topicA", 0), TopicPartition("topicA", 1), TopicPartition("topicB", 0)
ALL = (A0, A1, B0)
CLOCK = ManualClock(ms=1000)


@pytest.fixture
def cluster() -> FakeCluster:
    fake = FakeCluster().add("topicA", 3, 3, first=1)
    fake.add("topicB", 30)
    fake.times = {A0: [100, 200, 300], A1: [100, 200, 300], B0: [300]}
    return fake


def test_earliest_and_latest_are_not_looked_up(cluster: FakeCluster) -> None:
    assert bind_limit(Earliest(), ALL, cluster, CLOCK, Edge.STARTING) == dict.fromkeys(ALL, -2)
    assert bind_limit(Latest(), ALL, cluster, CLOCK, Edge.ENDING) == dict.fromkeys(ALL, -1)
    assert cluster.requests == []
    assert resolve({A0: -2, A1: -1, B0: 17}, cluster) == {A0: 1, A1: 3, B0: 17}


def test_resolving_leaves_out_deleted_partitions(cluster: FakeCluster) -> None:
    cluster.remove("topicA", 1)
    assert resolve({A0: -2, A1: -1, B0: 17}, cluster) == {A0: 1, B0: 17}


@pytest.mark.feature("source.startingOffsets")
def test_specific_offsets_and_whole_topics(cluster: FakeCluster) -> None:
    limit = parse_offset_limit('{"topicA":"earliest","topicB":{"0":23}}')
    assert bind_limit(limit, ALL, cluster, CLOCK, Edge.STARTING) == {A0: -2, A1: -2, B0: 23}


@pytest.mark.parametrize(
    ("limit", "edge", "code", "names"),
    [
        ('{"topicA":{"0":1},"topicB":{"0":1}}', Edge.STARTING, "START", "topicA-1"),
        ('{"topicA":"latest"}', Edge.ENDING, "END", "topicB-0"),
        ('{"topicA":"earliest","topicB":{"0":1,"7":1}}', Edge.STARTING, "START", "topicB-7"),
        ('{"topicA":"earliest","topicB":"earliest","topicC":"latest"}', Edge.STARTING, "TOPIC", "topicC"),
    ],
)
@pytest.mark.feature("offsets.sets")
def test_specific_offsets_must_name_the_partitions_of_the_query(
    cluster: FakeCluster, limit: str, edge: Edge, code: str, names: str
) -> None:
    with pytest.raises(PlanError) as caught:
        bind_limit(parse_offset_limit(limit), ALL, cluster, CLOCK, edge)
    assert caught.value.code == f"KAFKA_{code}_OFFSET_DOES_NOT_MATCH_ASSIGNED"
    assert names in caught.value.message
    assert edge.option in caught.value.message


@pytest.mark.parametrize("timestamps", [{A0: 1, A1: 1}, {A0: 1, A1: 1, B0: 1, TopicPartition("topicB", 1): 1}])
@pytest.mark.feature("offsets.sets")
def test_timestamps_must_name_the_partitions_of_the_query(
    cluster: FakeCluster, timestamps: dict[TopicPartition, int]
) -> None:
    limit = PartitionTimestamps(timestamps=timestamps, no_match=NoMatch.ERROR)
    with pytest.raises(PlanError, match="startingOffsetsByTimestamp") as caught:
        bind_limit(limit, ALL, cluster, CLOCK, Edge.STARTING)
    assert caught.value.code == "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED"


@pytest.mark.feature("source.startingTimestamp", "source.startingOffsetsByTimestamp", "offsets.byTimestamp")
def test_timestamps_are_looked_up(cluster: FakeCluster) -> None:
    by_partition = PartitionTimestamps(timestamps={A0: 150, A1: 300, B0: 0}, no_match=NoMatch.ERROR)
    assert bind_limit(by_partition, ALL, cluster, CLOCK, Edge.STARTING) == {A0: 1, A1: 2, B0: 0}
    for_all = GlobalTimestamp(timestamp_ms=300, no_match=NoMatch.ERROR)
    assert bind_limit(for_all, ALL, cluster, CLOCK, Edge.STARTING) == {A0: 2, A1: 2, B0: 0}


@pytest.mark.feature("source.startingOffsetsByTimestampStrategy", "offsets.byTimestamp")
def test_starting_timestamp_without_a_record(cluster: FakeCluster) -> None:
    with pytest.raises(PlanError, match="topicA-0 has no record with timestamp 301 or later"):
        bind_limit(GlobalTimestamp(timestamp_ms=301, no_match=NoMatch.ERROR), ALL, cluster, CLOCK, Edge.STARTING)
    latest = GlobalTimestamp(timestamp_ms=301, no_match=NoMatch.LATEST)
    assert bind_limit(latest, ALL, cluster, CLOCK, Edge.STARTING) == dict.fromkeys(ALL, -1)


@pytest.mark.feature("source.endingTimestamp", "source.endingOffsetsByTimestamp", "offsets.byTimestamp")
def test_ending_timestamp_without_a_record_is_the_end(cluster: FakeCluster) -> None:
    limit = PartitionTimestamps(timestamps={A0: 200, A1: 301, B0: 301}, no_match=NoMatch.LATEST)
    assert bind_limit(limit, ALL, cluster, CLOCK, Edge.ENDING) == {A0: 1, A1: -1, B0: -1}


@pytest.mark.feature("more.lastN")
def test_offsets_before_latest(cluster: FakeCluster) -> None:
    assert bind_limit(BeforeLatest(1), ALL, cluster, CLOCK, Edge.STARTING) == {A0: 2, A1: 2, B0: 29}
    # topicA begins at offset 1.
    assert bind_limit(BeforeLatest(29), ALL, cluster, CLOCK, Edge.STARTING) == {A0: 1, A1: 1, B0: 1}
    assert cluster.requests == ["list_offsets"] * 4
    limit = parse_offset_limit('{"topicA":{"0":"latest-1","1":-1},"topicB":"latest-10"}')
    assert bind_limit(limit, ALL, cluster, CLOCK, Edge.ENDING) == {A0: 2, A1: -1, B0: 20}


def test_partitions_deleted_during_a_lookup_are_left_out(cluster: FakeCluster) -> None:
    gone = TopicPartition("topicC", 0)
    assert bind_limit(BeforeLatest(1), (*ALL, gone), cluster, CLOCK, Edge.STARTING).keys() == set(ALL)


@pytest.mark.feature("more.partialOffsets")
def test_offsets_default_applies_to_unnamed_partitions(cluster: FakeCluster) -> None:
    limit = SpecificOffsets(offsets={A0: 2}, default=BeforeLatest(10))
    assert bind_limit(limit, ALL, cluster, CLOCK, Edge.STARTING) == {A0: 2, A1: 1, B0: 20}
    times = PartitionTimestamps(timestamps={A0: 200}, no_match=NoMatch.ERROR, default=-2)
    assert bind_limit(times, ALL, cluster, CLOCK, Edge.STARTING) == {A0: 1, A1: -2, B0: -2}


def test_offsets_default_does_not_allow_partitions_that_are_not_read(cluster: FakeCluster) -> None:
    surplus = TopicPartition("topicB", 9)
    for limit in (
        SpecificOffsets(offsets={surplus: 2}, default=-2),
        PartitionTimestamps(timestamps={surplus: 2}, no_match=NoMatch.ERROR, default=-2),
    ):
        with pytest.raises(PlanError, match="given but not read by the query: topicB-9"):
            bind_limit(limit, ALL, cluster, CLOCK, Edge.STARTING)


def test_error_of_unnamed_partitions_names_the_default_option(cluster: FakeCluster) -> None:
    with pytest.raises(PlanError, match=r"not given: topicA-1, topicB-0 \(option 'endingOffsetsDefault' sets"):
        bind_limit(SpecificOffsets(offsets={A0: 2}), ALL, cluster, CLOCK, Edge.ENDING)


@pytest.mark.feature("more.relativeTimes")
def test_relative_timestamps_count_from_the_lookup(cluster: FakeCluster) -> None:
    limit = GlobalTimestamp(timestamp_ms=Ago(duration_ms=750), no_match=NoMatch.ERROR)
    assert bind_limit(limit, ALL, cluster, ManualClock(ms=1000), Edge.STARTING) == {A0: 2, A1: 2, B0: 0}
    assert bind_limit(limit, ALL, cluster, ManualClock(ms=850), Edge.STARTING) == {A0: 0, A1: 0, B0: 0}


@pytest.mark.feature("more.startCommitted")
def test_committed_offsets_are_looked_up(cluster: FakeCluster) -> None:
    cluster.groups["g"] = {A0: OffsetAndMetadata(offset=2), B0: OffsetAndMetadata(offset=17)}
    limit = Committed(group_id="g", otherwise=Latest())
    assert bind_limit(limit, ALL, cluster, CLOCK, Edge.STARTING) == {A0: 2, A1: -1, B0: 17}
    assert bind_limit(Committed(group_id="h", otherwise=BeforeLatest(1)), ALL, cluster, CLOCK, Edge.STARTING) == {
        A0: 2,
        A1: 2,
        B0: 29,
    }


@pytest.mark.parametrize(
    ("limit", "moving"),
    [
        (Earliest(), ()),
        (Latest(), ALL),
        (SpecificOffsets(offsets={A0: 5, A1: -1, B0: -2}), (A1,)),
        (SpecificOffsets(offsets={B0: 3}, topics={"topicA": -1}), (A0, A1)),
        (GlobalTimestamp(timestamp_ms=1, no_match=NoMatch.ERROR), ()),
        (PartitionTimestamps(timestamps=dict.fromkeys(ALL, 1), no_match=NoMatch.LATEST), ALL),
        (BeforeLatest(5), ALL),
        (SpecificOffsets(offsets={A0: BeforeLatest(5)}, topics={"topicA": -2}, default=-1), (A0, B0)),
        (SpecificOffsets(offsets={A0: 1}, default=-2), ()),
        (GlobalTimestamp(timestamp_ms=Ago(duration_ms=5), no_match=NoMatch.ERROR), ALL),
        (PartitionTimestamps(timestamps={A0: 1}, no_match=NoMatch.ERROR, default=BeforeLatest(5)), (A1, B0)),
        (PartitionTimestamps(timestamps={A0: 1}, no_match=NoMatch.LATEST, default=-2), (A0,)),
        (Committed(group_id="g", otherwise=Earliest()), ALL),
    ],
)
def test_limits_that_may_move_at_a_second_lookup(limit: OffsetLimit, moving: tuple[TopicPartition, ...]) -> None:
    assert tuple(tp for tp in ALL if may_move(limit, tp)) == moving


class Elections(FakeCluster):
    elections = 0

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> OffsetMap:
        if self.elections:
            self.elections -= 1
            self.epochs[A0] = self.epochs.get(A0, 0) + 1
            self.recreate("topicB", 40)
        return super().list_offsets(wanted)


@pytest.mark.parametrize("elections", [0, 1, 2, 5])
def test_bounds_are_looked_up_again_after_an_election(elections: int) -> None:
    cluster = Elections(epochs=dict.fromkeys(ALL, 1))
    cluster.add("topicA", 3, 3, first=1)
    cluster.add("topicB", 30)
    cluster.elections = elections
    bounds = look_up_bounds(cluster, [*ALL, TopicPartition("topicA", 9)])
    assert dict(bounds.leaders) == cluster.leaders(ALL)
    assert [bounds.of(tp) for tp in ALL] == [(1, 3), (1, 3), (0, 40 if elections else 30)]


def test_bounds_have_the_earlier_leaders_if_leaders_keep_changing() -> None:
    cluster = Elections(epochs={A0: 1})
    cluster.add("topicA", 3)
    cluster.elections = 1000
    assert look_up_bounds(cluster, [A0]).leaders[A0].leader_epoch < cluster.epochs[A0]


def test_system_clock_advances_during_sleep() -> None:
    clock = Clock()
    start = clock.now_ms()
    clock.sleep_ms(2)
    assert clock.now_ms() - start >= 2
    assert time.monotonic() * 1000 <= clock.now_ms() <= time.monotonic() * 1000
    assert time.time() * 1000 - 1 <= clock.epoch_ms() <= time.time() * 1000 + 1
