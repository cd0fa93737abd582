"""Spark's filters as a narrower read: what is left out must not pass them, whatever the records' times are."""

import datetime
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.narrowing import EVERYTHING, Condition, Narrowing, Operator, narrow
from spark_kafka_native._spark.planning.ranges import OffsetRange, bind_range, range_of
from spark_kafka_native._spark.source.filters import narrowing_of
from spark_kafka_native._spark.source.layout import layout_of
from spark_kafka_native._spark.source.schema import source_schema
from tests.support.spark.fake_offsets import FakeCluster
from tests.support.spark.user_schemas import user_schema

LAYOUT = layout_of(source_schema(include_headers=False))
MILLIS = layout_of(user_schema(timestamp='"long"', OFFSET='"long"', topic='"string"', partition='"integer"'))
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
START_MS = round(START.timestamp() * 1000)

pytestmark = pytest.mark.feature("more.filters")


def after(**delta: int) -> datetime.datetime:
    return START + datetime.timedelta(**delta)


@pytest.mark.parametrize(
    ("pushed", "narrowing"),
    [
        (GreaterThan(("offset",), 5), Narrowing(from_offset=6)),
        (GreaterThanOrEqual(("offset",), 5), Narrowing(from_offset=5)),
        (GreaterThanOrEqual(("offset",), -5), EVERYTHING),
        (LessThan(("offset",), 5), Narrowing(until_offset=5)),
        (LessThanOrEqual(("offset",), 5), Narrowing(until_offset=6)),
        (LessThan(("offset",), -5), Narrowing(until_offset=0)),
        (EqualTo(("offset",), 5), Narrowing(from_offset=5, until_offset=6)),
        (In(("offset",), (9, None, 5)), Narrowing(from_offset=5, until_offset=10)),
        (In(("offset",), (None,)), Narrowing(until_offset=0)),
        (GreaterThanOrEqual(("timestamp",), START), Narrowing(from_timestamp_ms=START_MS)),
        (GreaterThan(("timestamp",), START), Narrowing(from_timestamp_ms=START_MS + 1)),
        (GreaterThanOrEqual(("timestamp",), after(microseconds=1)), Narrowing(from_timestamp_ms=START_MS + 1)),
        (GreaterThan(("timestamp",), after(microseconds=999)), Narrowing(from_timestamp_ms=START_MS + 1)),
        (EqualTo(("timestamp",), START), Narrowing(from_timestamp_ms=START_MS)),
        (In(("timestamp",), (after(seconds=1), START)), Narrowing(from_timestamp_ms=START_MS)),
        (LessThan(("timestamp",), START), EVERYTHING),
        (GreaterThan(("timestamp",), datetime.datetime(1969, 1, 1, tzinfo=datetime.UTC)), EVERYTHING),
        (
            EqualTo(("partition",), 1),
            Narrowing(on_partition=(Condition(column="partition", operator=Operator.EQUAL, value=1),)),
        ),
        (
            In(("topic",), ("a", "b")),
            Narrowing(on_partition=(Condition(column="topic", operator=Operator.IN, value=("a", "b")),)),
        ),
        (EqualTo(("value",), b"x"), EVERYTHING),
        (EqualTo(("offset",), None), EVERYTHING),
        (EqualTo(("offset", "nested"), 5), EVERYTHING),
        (EqualTo(("unknown",), 5), EVERYTHING),
        (EqualNullSafe(("offset",), 5), EVERYTHING),
        (IsNotNull(("offset",)), EVERYTHING),
        (Not(EqualTo(("offset",), 5)), EVERYTHING),
        (StringStartsWith(("topic",), "t"), EVERYTHING),
    ],
    ids=str,
)
def test_narrowing_of_a_filter(pushed: Filter, narrowing: Narrowing) -> None:
    assert narrowing_of([pushed], LAYOUT) == narrowing


def test_narrowings_of_filters_are_combined() -> None:
    filters = [
        GreaterThan(("offset",), 5),
        GreaterThanOrEqual(("offset",), 3),
        LessThan(("offset",), 9),
        LessThanOrEqual(("offset",), 20),
        GreaterThan(("timestamp",), START),
        GreaterThan(("timestamp",), after(seconds=-1)),
    ]
    assert narrowing_of(filters, LAYOUT) == Narrowing(from_offset=6, until_offset=9, from_timestamp_ms=START_MS + 1)


def test_columns_go_by_the_names_and_types_of_a_user_schema() -> None:
    filters = [GreaterThan(("OFFSET",), 5), GreaterThan(("timestamp",), 77)]
    assert narrowing_of(filters, MILLIS) == Narrowing(from_offset=6, from_timestamp_ms=78)
    assert narrowing_of([EqualTo(("value",), "x")], MILLIS) == EVERYTHING


# --- the promise: a narrowed read, filtered, is the whole read, filtered


@dataclass(frozen=True)
class Row:
    topic: str
    partition: int
    offset: int
    timestamp: datetime.datetime


HOLDS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    In: lambda found, values: found in values,
}


def passes(row: Row, filters: list[Filter]) -> bool:
    return all(
        HOLDS[type(pushed)](getattr(row, pushed.attribute[0]), pushed.value)  # type: ignore[attr-defined]  # as Spark pushes
        for pushed in filters
    )


def rows_of(pieces: list[OffsetRange], cluster: FakeCluster) -> list[Row]:
    rows = []
    for piece in pieces:
        tp = piece.topic_partition
        bound = bind_range(piece, cluster.first[tp], cluster.end[tp])
        offsets = range(bound.from_offset, bound.until_offset)
        assert not offsets or (cluster.first[tp] <= offsets[0] and offsets[-1] < cluster.end[tp])
        rows += [Row(tp.topic, tp.partition, at, time_of(cluster.times[tp][at])) for at in offsets]
    return rows


def time_of(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=ms)


TIMES = st.one_of(st.integers(0, 20), st.just(-1))
LITERALS = st.builds(
    lambda ms, us: time_of(ms) + datetime.timedelta(microseconds=us), st.integers(-3, 23), st.integers(0, 999)
)
COMPARED = [EqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual]


def comparisons(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    one = st.builds(lambda kind, value: kind((column,), value), st.sampled_from(COMPARED), values)
    return st.one_of(one, st.builds(lambda found: In((column,), tuple(found)), st.lists(values, max_size=3)))


FILTERS = st.lists(
    st.one_of(
        comparisons("offset", st.integers(-3, 15)),
        comparisons("partition", st.integers(-1, 3)),
        comparisons("topic", st.sampled_from(["s", "t", "u"])),
        comparisons("timestamp", LITERALS),
    ),
    max_size=4,
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[FakeCluster, list[OffsetRange]]:
    cluster, ranges = FakeCluster(), []
    for tp in (TopicPartition("s", 0), TopicPartition("t", 0), TopicPartition("t", 1)):
        times = draw(st.lists(TIMES, max_size=12))
        first = draw(st.integers(0, len(times)))
        cluster.first[tp], cluster.end[tp] = first, len(times)
        cluster.times[tp] = [*[-1] * first, *times[first:]]
        start, end = sorted(draw(st.tuples(*[st.integers(first, len(times))] * 2)))
        ranges.append(range_of(tp, draw(st.sampled_from([start, -2])), draw(st.sampled_from([end, -1]))))
    return cluster, ranges


@given(made=clusters(), filters=FILTERS)
def test_filtered_rows_are_the_same(made: tuple[FakeCluster, list[OffsetRange]], filters: list[Filter]) -> None:
    cluster, ranges = made
    narrowed = narrow(ranges, narrowing_of(filters, LAYOUT), cluster)
    whole = rows_of(ranges, cluster)
    assert set(rows_of(narrowed, cluster)) <= set(whole)
    assert [row for row in rows_of(narrowed, cluster) if passes(row, filters)] == [
        row for row in whole if passes(row, filters)
    ]
