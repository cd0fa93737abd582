from collections.abc import Callable

import pytest

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError, PlanError
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.batch import bind_batch_query, plan_batch_query
from spark_kafka_native._spark.planning.narrowing import EVERYTHING, Condition, Narrowing, Operator
from spark_kafka_native._spark.planning.ranges import OffsetRange
from tests.support.spark.fake_offsets import FakeCluster, ManualClock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster() -> FakeCluster:
    fake = FakeCluster().add("t", 10, 4, first=2)
    fake.times = {T0: [100, 100, 100, 200, 300], T1: [100, 100, 100, 100]}
    return fake


def planned(cluster: FakeCluster, clock: ManualClock | None = None, /, **options: str) -> list[str]:
    defaults = {"kafka.bootstrap.servers": "broker:9092"} | ({} if "assign" in options else {"subscribe": "t"})
    parsed = parse_source_options(defaults | options, Query.BATCH)
    return [" + ".join(map(str, task)) for task in plan_batch_query(parsed, cluster, clock or ManualClock())]


@pytest.mark.feature("offsets.special")
def test_default_batch_keeps_earliest_and_latest(cluster: FakeCluster) -> None:
    assert planned(cluster) == ["t-0 offsets [earliest, latest)", "t-1 offsets [earliest, latest)"]
    assert cluster.requests == ["topics"]


def test_explicit_offsets(cluster: FakeCluster) -> None:
    ranges = planned(
        cluster, startingOffsets='{"t":{"0":-2,"1":3}}', endingOffsets='{"t":{"0":7,"1":-1}}', failOnDataLoss="true"
    )
    assert ranges == ["t-0 offsets [earliest, 7)", "t-1 offsets [3, latest)"]


@pytest.mark.feature("offsets.byTimestamp")
def test_offsets_by_timestamp(cluster: FakeCluster) -> None:
    ranges = planned(
        cluster,
        startingOffsetsByTimestamp='{"t":{"0":200,"1":500}}',
        startingOffsetsByTimestampStrategy="latest",
        endingTimestamp="300",
    )
    # t-1 has no record as late as that: it starts at what is its end now, and ends at what is its end then.
    assert ranges == ["t-0 offsets [3, 4)", "t-1 offsets [4, latest)"]


@pytest.mark.feature("source.minPartitions")
def test_min_partitions(cluster: FakeCluster) -> None:
    assert planned(cluster, minPartitions="4") == [
        "t-0 offsets [earliest, 4)",
        "t-0 offsets [4, 7)",
        "t-0 offsets [7, latest)",
        "t-1 offsets [earliest, latest)",
    ]


@pytest.mark.feature("source.maxRecordsPerPartition")
def test_max_records_per_partition_splits_what_is_there(cluster: FakeCluster) -> None:
    """The JVM connector does not: to it, earliest to latest is one record."""
    assert planned(cluster, maxRecordsPerPartition="5") == [
        "t-0 offsets [earliest, 6)",
        "t-0 offsets [6, latest)",
        "t-1 offsets [earliest, latest)",
    ]


@pytest.mark.feature("more.maxPartitions")
def test_max_partitions_puts_whole_ranges_together(cluster: FakeCluster) -> None:
    """By what there is today; what comes later is read all the same."""
    cluster.add("u", 1, 0, 8)
    both = {"subscribe": "t,u"}
    assert planned(cluster, maxPartitions="3", **both) == [
        "t-0 offsets [earliest, latest)",
        "t-1 offsets [earliest, latest) + u-0 offsets [earliest, latest) + u-1 offsets [earliest, latest)",
        "u-2 offsets [earliest, latest)",
    ]
    (everything,) = planned(cluster, maxPartitions="1", **both)
    assert everything.count("[earliest, latest)") == 5
    assert planned(cluster, maxPartitions="5", **both) == planned(cluster, **both)


@pytest.mark.feature("more.maxPartitions")
def test_max_partitions_beside_the_other_limits(cluster: FakeCluster) -> None:
    assert planned(cluster, maxPartitions="1", maxRecordsPerPartition="4") == [
        "t-0 offsets [earliest, 6)",
        "t-0 offsets [6, latest)",
        "t-1 offsets [earliest, latest)",
    ]
    cluster.add("u", 10, 1, 1)
    assert planned(cluster, subscribe="u", minPartitions="2", maxPartitions="2") == [
        "u-0 offsets [earliest, latest)",
        "u-1 offsets [earliest, latest) + u-2 offsets [earliest, latest)",
    ]


@pytest.mark.feature("more.lastN", "more.partialOffsets")
def test_limits_that_only_pykafka_has(cluster: FakeCluster) -> None:
    assert planned(cluster, startingOffsets="latest-3", endingOffsets="latest-1") == [
        "t-0 offsets [7, 9)",
        "t-1 offsets [2, 3)",
    ]
    assert planned(cluster, startingOffsets='{"t":{"0":5}}', startingOffsetsDefault="earliest") == [
        "t-0 offsets [5, latest)",
        "t-1 offsets [earliest, latest)",
    ]
    assert planned(cluster, endingOffsetsByTimestamp='{"t":{"0":200}}', endingOffsetsDefault="latest") == [
        "t-0 offsets [earliest, 3)",
        "t-1 offsets [earliest, latest)",
    ]


@pytest.mark.feature("more.relativeTimes")
def test_times_before_now(cluster: FakeCluster) -> None:
    options = {
        "startingOffsetsByTimestampStrategy": "latest",
        "startingTimestamp": "-200ms",
        "endingTimestamp": "-100ms",
    }
    assert planned(cluster, ManualClock(ms=400), **options) == ["t-0 offsets [3, 4)", "t-1 offsets [4, latest)"]
    assert planned(cluster, ManualClock(ms=450), **options) == ["t-0 offsets [4, latest)", "t-1 offsets [4, latest)"]


def test_committed_offsets_are_looked_up(cluster: FakeCluster) -> None:
    cluster.groups["g"] = {T0: OffsetAndMetadata(offset=6)}
    assert planned(cluster, startingOffsets="committed", **{"kafka.group.id": "g"}) == [
        "t-0 offsets [6, latest)",
        "t-1 offsets [earliest, latest)",
    ]
    cluster.groups["g"] = {T0: OffsetAndMetadata(offset=1)}
    with pytest.raises(DataLossError, match=r"offsets \[1, 2\) of t-0 were deleted"):
        planned(cluster, startingOffsets="committed", **{"kafka.group.id": "g"})


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        ({}, ["topics"]),
        ({"minPartitions": "4"}, ["topics", "list_offsets", "list_offsets"]),
        ({"maxPartitions": "300"}, ["topics", "list_offsets", "list_offsets"]),
        ({"startingTimestamp": "100"}, ["topics", "list_offsets", "list_offsets", "list_offsets"]),
        ({"startingOffsets": "latest-3"}, ["topics", *["list_offsets"] * 4]),
    ],
)
def test_requests_of_a_plan_do_not_grow_with_partitions(options: dict[str, str], requests: list[str]) -> None:
    cluster = FakeCluster().add("t", *[10] * 300)
    cluster.times = {tp: [100] * 10 for tp in cluster.end}
    assert len(planned(cluster, **options)) == 300
    assert cluster.requests == requests


def test_no_partitions_give_no_ranges(cluster: FakeCluster) -> None:
    assert planned(cluster, assign='{"t":[7]}') == []


def test_unknown_topic(cluster: FakeCluster) -> None:
    with pytest.raises(PlanError, match=r"KAFKA_UNKNOWN_TOPIC\] these topics of option subscribe do not exist .*: no$"):
        planned(cluster, subscribe="no")


@pytest.mark.parametrize(
    ("start", "end", "complaint"),
    [
        ('{"t":{"0":11,"1":3}}', "latest", "start offset 11 is greater than the resolved end offset 10 for t-0"),
        ('{"t":{"0":3,"1":3}}', '{"t":{"0":-1,"1":2}}', "the start offset 3 is greater than the end offset 2 for t-1"),
    ],
)
def test_start_after_the_end_is_an_error(cluster: FakeCluster, start: str, end: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        planned(cluster, startingOffsets=start, endingOffsets=end)


@pytest.mark.feature("offsets.order")
def test_resolved_start_after_the_resolved_end_is_an_error(cluster: FakeCluster) -> None:
    with pytest.raises(PlanError, match="resolved start offset 5 is greater than the resolved end offset 3 for t-0"):
        planned(cluster, startingOffsets='{"t":{"0":5,"1":-2}}', endingTimestamp="150")


def test_offsets_outside_the_log_are_a_loss(cluster: FakeCluster) -> None:
    limits = {"startingOffsets": '{"t":{"0":0,"1":-2}}', "endingOffsets": '{"t":{"0":20,"1":-1}}'}
    with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE\] offsets \[0, 2\) of t-0"):
        planned(cluster, **limits)
    only_end = limits | {"startingOffsets": '{"t":{"0":5,"1":-2}}'}
    with pytest.raises(DataLossError, match=r"offsets \[10, 20\) of t-0 do not exist"):
        planned(cluster, **only_end)
    ranges = planned(cluster, **limits, failOnDataLoss="false")
    assert ranges == ["t-0 offsets [2, 10)", "t-1 offsets [earliest, latest)"]


def test_deleted_range_is_a_loss(cluster: FakeCluster) -> None:
    ranges = planned(
        cluster, startingOffsets='{"t":{"0":0,"1":-2}}', endingOffsets='{"t":{"0":1,"1":-1}}', failOnDataLoss="false"
    )
    assert ranges == ["t-1 offsets [earliest, latest)"]


def options_of(**options: str) -> SourceOptions:
    return parse_source_options({"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"} | options, Query.BATCH)


def from_bound(cluster: FakeCluster, bound: tuple[OffsetRange, ...], narrowing: Narrowing, **options: str) -> list[str]:
    tasks = plan_batch_query(options_of(**options), cluster, ManualClock(), narrowing, bound)
    return [" + ".join(map(str, task)) for task in tasks]


def test_plans_of_a_bound_query_have_the_same_ranges(cluster: FakeCluster) -> None:
    bound = bind_batch_query(options_of(), cluster, ManualClock())
    cluster.produce("t", 0, 90)
    cluster.add("t", 100, 4, 50, first=3)
    cluster.requests.clear()
    assert from_bound(cluster, bound, EVERYTHING) == ["t-0 offsets [2, 10)", "t-1 offsets [2, 4)"]
    assert cluster.requests == []
    assert from_bound(cluster, bound, EVERYTHING, minPartitions="4") == [
        *("t-0 offsets [2, 4)", "t-0 offsets [4, 7)", "t-0 offsets [7, 10)"),
        "t-1 offsets [2, 4)",
    ]
    second = Narrowing(on_partition=(Condition(column="partition", operator=Operator.EQUAL, value=1),))
    assert from_bound(cluster, bound, second) == ["t-1 offsets [2, 4)"]
    late = Narrowing(from_offset=5, from_timestamp_ms=300)
    assert from_bound(cluster, bound, late) == ["t-0 offsets [5, 10)"]
    assert all(not piece.from_earliest for piece in bound), "what is deleted before it is read is a loss"


def recreate(cluster: FakeCluster) -> None:
    cluster.recreate("t", 40, 40)
    cluster.times = {T0: [100] * 40, T1: [100] * 40}


def change_leader(cluster: FakeCluster) -> None:
    cluster.epochs = {T0: 6, T1: 7}


def recreate_without_ids(cluster: FakeCluster) -> None:
    recreate(cluster)
    cluster.ids.clear()
    cluster.epochs = {T0: 0, T1: 0}


@pytest.mark.parametrize(
    ("change", "planned"),
    [
        (lambda _: None, ["t-0 offsets [4, 10)"]),
        (recreate, ["t-0 offsets [2, 10)", "t-1 offsets [2, 4)"]),
        (lambda cluster: cluster.remove("t"), ["t-0 offsets [2, 10)", "t-1 offsets [2, 4)"]),
        (change_leader, ["t-0 offsets [2, 10)"]),
        (recreate_without_ids, ["t-0 offsets [2, 10)", "t-1 offsets [2, 4)"]),
    ],
)
def test_bound_ranges_of_a_changed_log_are_not_narrowed_by_timestamp(
    cluster: FakeCluster, change: Callable[[FakeCluster], None], planned: list[str]
) -> None:
    """Offsets of a time in another log say nothing of the records that were bound; their task reports the loss."""
    cluster.epochs = {T0: 5, T1: 7}
    if change is recreate_without_ids:
        cluster.ids.clear()
    bound = bind_batch_query(options_of(), cluster, ManualClock())
    change(cluster)
    assert from_bound(cluster, bound, Narrowing(from_timestamp_ms=300)) == planned


def test_deleted_bound_ranges_are_not_narrowed_by_timestamp(cluster: FakeCluster) -> None:
    """Records of the time may be among those that are gone, so the task has to report them."""
    bound = bind_batch_query(options_of(), cluster, ManualClock())
    cluster.first[T0] = 4
    assert from_bound(cluster, bound, Narrowing(from_timestamp_ms=300)) == ["t-0 offsets [2, 10)"]
    assert from_bound(cluster, bound, Narrowing(from_timestamp_ms=300, from_offset=6)) == ["t-0 offsets [6, 10)"]


@pytest.mark.parametrize(
    ("options", "ranges"),
    [
        ({"startingOffsets": '{"t":{"0":5}}', "startingOffsetsDefault": "earliest"}, ["[5, 10)", "[2, 4)"]),
        ({"endingOffsets": "latest-1"}, ["[2, 9)", "[2, 3)"]),
        ({"startingTimestamp": "200", "startingOffsetsByTimestampStrategy": "latest"}, ["[3, 10)", "[4, 4)"]),
    ],
)
def test_any_limits_can_be_bound(cluster: FakeCluster, options: dict[str, str], ranges: list[str]) -> None:
    bound = bind_batch_query(options_of(**options), cluster, ManualClock())
    assert [str(piece) for piece in bound] == [f"t-{number} offsets {text}" for number, text in enumerate(ranges)]


def test_bound_query_fails_like_an_unbound_one(cluster: FakeCluster) -> None:
    with pytest.raises(DataLossError, match=r"offsets \[10, 20\) of t-0 do not exist"):
        bind_batch_query(options_of(endingOffsets='{"t":{"0":20,"1":-1}}'), cluster, ManualClock())
    with pytest.raises(PlanError, match="KAFKA_UNKNOWN_TOPIC"):
        bind_batch_query(options_of(subscribe="no"), cluster, ManualClock())


@pytest.mark.parametrize("options", [{"endingOffsets": "latest-1"}, {"minPartitions": "3"}])
def test_ranges_with_known_bounds_have_their_leader(cluster: FakeCluster, options: dict[str, str]) -> None:
    cluster.epochs = {T0: 5, T1: 7}
    for task in plan_batch_query(options_of(**options), cluster, ManualClock()):
        for piece in task:
            assert piece.leader is not None
            known = piece.leader.topic_id, piece.leader.leader_epoch
            assert known == (cluster.ids["t"], cluster.epochs[piece.topic_partition])
