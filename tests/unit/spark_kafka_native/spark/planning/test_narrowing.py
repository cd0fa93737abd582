"""Ranges narrowed by filters; source/test_filters.py shows that no wanted row is lost."""

from collections.abc import Mapping

import pytest

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.offsets import OffsetMap
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.batch import plan_batch_query
from spark_kafka_native._spark.planning.narrowing import EVERYTHING, Condition, Narrowing, Operator, narrow
from spark_kafka_native._spark.planning.ranges import OffsetRange, range_of
from tests.support.spark.fake_offsets import FakeCluster, ManualClock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ALL = [range_of(T0, -2, -1), range_of(T1, -2, -1)]

pytestmark = pytest.mark.feature("more.filters")


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster().add("t", 20, 30, first=10)
    made.times = {T0: [0] * 10 + list(range(100, 110)), T1: [0] * 10 + list(range(100, 120))}
    return made


def ends(pieces: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(piece.partition, piece.from_offset, piece.until_offset) for piece in pieces]


def test_narrowing_without_conditions_sends_no_request(cluster: FakeCluster) -> None:
    assert narrow(ALL, EVERYTHING, cluster) == ALL
    only = Narrowing(on_partition=(Condition(column="partition", operator=Operator.MORE, value=0),))
    assert narrow(ALL, only, cluster) == ALL[1:]
    assert cluster.requests == []


@pytest.mark.parametrize(
    ("narrowing", "expected"),
    [
        (Narrowing(from_offset=5), [(0, -2, -1), (1, -2, -1)]),
        (Narrowing(from_offset=15), [(0, 15, -1), (1, 15, -1)]),
        (Narrowing(from_offset=25), [(0, 20, -1), (1, 25, -1)]),
        (Narrowing(until_offset=25), [(0, -2, -1), (1, -2, 25)]),
        (Narrowing(until_offset=10), []),
        (Narrowing(from_offset=12, until_offset=14), [(0, 12, 14), (1, 12, 14)]),
        (Narrowing(from_offset=25, until_offset=28), [(0, 20, -1), (1, 25, 28)]),
        (Narrowing(from_timestamp_ms=105), [(0, 15, -1), (1, 15, -1)]),
        (Narrowing(from_timestamp_ms=115), [(0, 20, -1), (1, 25, -1)]),
        (Narrowing(from_timestamp_ms=105, from_offset=17), [(0, 17, -1), (1, 17, -1)]),
    ],
)
def test_narrowed_ranges_keep_latest_if_possible(
    cluster: FakeCluster, narrowing: Narrowing, expected: list[tuple[int, int, int]]
) -> None:
    assert ends(narrow(ALL, narrowing, cluster)) == expected


def test_narrowing_never_extends_a_range(cluster: FakeCluster) -> None:
    pieces = [range_of(T0, 12, 18)]
    assert ends(narrow(pieces, Narrowing(from_offset=5, until_offset=99), cluster)) == [(0, 12, 18)]
    assert ends(narrow(pieces, Narrowing(from_offset=14, until_offset=16), cluster)) == [(0, 14, 16)]
    assert narrow(pieces, Narrowing(from_offset=18), cluster) == []


def test_records_deleted_below_a_narrowed_range_are_no_loss(cluster: FakeCluster) -> None:
    (piece, _) = narrow(ALL, Narrowing(from_offset=15), cluster)
    assert piece.from_earliest
    (kept,) = narrow([range_of(T0, 12, 18)], Narrowing(from_offset=14), cluster)
    assert not kept.from_earliest, "the user has named the start"


class Partial(FakeCluster):
    """A cluster whose brokers find no offset for a timestamp after segments of an old format."""

    error: ErrorCode | None = None

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> OffsetMap:
        found = super().list_offsets(wanted)
        if self.error is not None and any(at >= 0 for at in wanted.values()):
            raise KafkaError(self.error, "t-0")
        return {tp: -1 if wanted[tp] >= 0 else offset for tp, offset in found.items()}


@pytest.fixture
def partial(cluster: FakeCluster) -> Partial:
    return Partial(first=cluster.first, end=cluster.end, times=cluster.times)


def test_missing_offset_for_a_timestamp_is_verified_by_the_largest_timestamp(partial: Partial) -> None:
    assert narrow(ALL, Narrowing(from_timestamp_ms=105), partial) == ALL
    assert "latest_timestamps" in partial.requests
    assert ends(narrow(ALL, Narrowing(from_timestamp_ms=112), partial)) == [(0, 20, -1), (1, -2, -1)]
    partial.times = {}
    assert narrow(ALL, Narrowing(from_timestamp_ms=112), partial) == ALL, "brokers that cannot tell"


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT])
def test_ranges_are_not_narrowed_if_brokers_cannot_look_up_timestamps(partial: Partial, code: ErrorCode) -> None:
    partial.error = code
    assert narrow(ALL, Narrowing(from_timestamp_ms=105), partial) == ALL
    assert ends(narrow(ALL, Narrowing(from_timestamp_ms=105, from_offset=15), partial)) == [(0, 15, -1), (1, 15, -1)]


def test_other_errors_of_a_timestamp_lookup_are_raised(partial: Partial) -> None:
    partial.error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="t-0"):
        narrow(ALL, Narrowing(from_timestamp_ms=105), partial)


def test_deleted_partitions_are_not_narrowed(cluster: FakeCluster) -> None:
    cluster.remove("t", 0)
    assert ends(narrow(ALL, Narrowing(from_offset=15), cluster)) == [(0, -2, -1), (1, 15, -1)]


@pytest.mark.parametrize(
    ("given", "planned"),
    [
        ({}, [(0, 15, -1), (1, 15, -1)]),
        ({"minPartitions": "4"}, [(0, 15, -1), (1, 15, 20), (1, 20, 25), (1, 25, -1)]),
        ({"maxRecordsPerPartition": "9"}, [(0, 15, -1), (1, 15, 22), (1, 22, -1)]),
        ({"endingOffsets": '{"t":{"0":14,"1":18}}'}, [(1, 15, 18)]),
    ],
)
def test_narrowed_ranges_are_split_into_tasks(
    cluster: FakeCluster, given: dict[str, str], planned: list[tuple[int, int, int]]
) -> None:
    options = parse_source_options({"kafka.bootstrap.servers": "b:9092", "subscribe": "t"} | given, Query.BATCH)
    tasks = plan_batch_query(options, cluster, ManualClock(), Narrowing(from_offset=15))
    pieces = [piece for (piece,) in tasks]
    assert ends(pieces) == planned
    assert all(piece.from_earliest for piece in pieces)
