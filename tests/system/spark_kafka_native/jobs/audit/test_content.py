from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafka_native._jobs.audit.content import DIFFERENT, EXTRA, LOST, REORDERED, SAME, compare_records, count_kinds

pytestmark = pytest.mark.spark
SCHEMA = (
    "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
Header = tuple[str, bytes | None]
Record = tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, Sequence[Header] | None]
Place = tuple[int, int] | None


def frame(spark: SparkSession, *partitions: Sequence[Record], times: Sequence[int] = ()) -> DataFrame:
    """The records of topic t by partition, each with offsets from 0 on; ``times``: seconds, in the same order."""
    rows = [
        ("t", number, offset, record[0], record[1], record[2] if len(record) > 2 else None)
        for number, records in enumerate(partitions)
        for offset, record in enumerate(records)
    ]
    at = [datetime.fromtimestamp(second, UTC) for second in [*times, *[0] * len(rows)]]
    return spark.createDataFrame([(*row[:5], at[index], row[5]) for index, row in enumerate(rows)], SCHEMA)


def kinds(source: DataFrame, target: DataFrame, **how: bool) -> Counter[tuple[str, Any, Place, Place]]:
    """Kind, key, and partition and offset on both sides."""
    chosen = {"with_timestamps": False, "across_partitions": False} | how
    rows = compare_records(source, target, **chosen).collect()

    def place(position: Any) -> Place:
        return None if position is None else (position["partition"], position["offset"])

    return Counter(
        (row["kind"], None if row["key"] is None else bytes(row["key"]), place(row["source"]), place(row["target"]))
        for row in rows
    )


def test_equal_topics_have_no_difference(spark: SparkSession) -> None:
    records: list[Record] = [
        (b"a", b"1"),
        (None, None),
        (b"", b""),
        (b"a", b"1"),
        (b"b", None, [("h", None), ("h", b"")]),
    ]
    found = kinds(frame(spark, records, records[:2]), frame(spark, records, records[:2]))
    assert set(found) == {
        (SAME, record[0], (number, offset), (number, offset))
        for number, count in ((0, 5), (1, 2))
        for offset, record in enumerate(records[:count])
    }


def test_lost_extra_and_different_records(spark: SparkSession) -> None:
    source = frame(spark, [(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (None, b"4")])
    target = frame(spark, [(b"a", b"1"), (b"c", b"33"), (None, b"5"), (b"a", b"1")])
    assert kinds(source, target) == {
        (SAME, b"a", (0, 0), (0, 0)): 1,
        (LOST, b"b", (0, 1), None): 1,
        (DIFFERENT, b"c", (0, 2), (0, 1)): 1,
        (LOST, None, (0, 3), None): 1,
        (EXTRA, None, None, (0, 2)): 1,
        (EXTRA, b"a", None, (0, 3)): 1,
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((b"a", b""), (b"a", None)),
        ((b"", b"v"), (None, b"v")),
        ((b"ab", b"c"), (b"a", b"bc")),
        ((b"k", b"v", [("a", b"bc")]), (b"k", b"v", [("ab", b"c")])),
        ((b"k", b"v", [("a", None)]), (b"k", b"v", [("a", b"")])),
        ((b"k", b"v", [("a", b"1"), ("b", b"2")]), (b"k", b"v", [("b", b"2"), ("a", b"1")])),
        ((b"k", b"v", [("", b"")]), (b"k", b"v", [])),
        ((b"k", b"1:v"), (b"k", b"v", [("", b"")])),
    ],
)
def test_records_that_differ_anywhere_are_not_equal(spark: SparkSession, first: Record, second: Record) -> None:
    found = kinds(frame(spark, [first]), frame(spark, [second]))
    assert {kind for kind, *_ in found} == ({DIFFERENT} if first[0] == second[0] else {LOST, EXTRA})


def test_no_headers_are_equal_to_an_empty_list(spark: SparkSession) -> None:
    assert set(kinds(frame(spark, [(b"k", b"v", None)]), frame(spark, [(b"k", b"v", [])]))) == {
        (SAME, b"k", (0, 0), (0, 0))
    }


def test_a_record_that_overtakes_others_is_reordered(spark: SparkSession) -> None:
    source = frame(spark, [(b"%d" % number, b"") for number in range(5)])
    target = frame(spark, [(b"%d" % number, b"") for number in (0, 3, 1, 2, 4)])
    found = {key: kind for kind, key, *_ in kinds(source, target)}
    assert found == {b"0": SAME, b"1": SAME, b"2": SAME, b"3": REORDERED, b"4": SAME}


def test_timestamps_are_compared_if_that_is_chosen(spark: SparkSession) -> None:
    source, target = frame(spark, [(b"k", b"v")], times=[1]), frame(spark, [(b"k", b"v")], times=[2])
    assert {kind for kind, *_ in kinds(source, target)} == {SAME}
    assert {kind for kind, *_ in kinds(source, target, with_timestamps=True)} == {DIFFERENT}


def test_topics_with_other_partitions_are_compared_as_a_whole(spark: SparkSession) -> None:
    source = frame(spark, [(b"a", b"1"), (None, b"x"), (b"a", b"2")], [(b"b", b"1"), (b"b", b"2")])
    target = frame(spark, [(b"b", b"2"), (None, b"x"), (b"b", b"1")], [], [(b"a", b"1"), (b"a", b"2")])
    assert {kind for kind, *_ in kinds(source, target)} == {LOST, EXTRA, SAME}
    found = kinds(source, target, across_partitions=True)
    assert {key: kind for kind, key, *_ in found if kind != SAME} == {b"b": REORDERED}
    assert found[(REORDERED, b"b", (1, 1), (0, 0))] == 1
    (row,) = count_kinds(
        compare_records(source, target, with_timestamps=False, across_partitions=True), across_partitions=True
    ).collect()
    assert row.asDict() == {
        "topic": "t", "partition": None, "source": 5, "target": 5, "lost": 0, "extra": 0, "different": 0, "reordered": 1
    }  # fmt: skip


def test_counts_are_those_of_a_plain_comparison(spark: SparkSession) -> None:
    random = Random(7)
    source: list[Record] = [(random.choice([None, b"a", b"b"]), b"%d" % random.randrange(6)) for _ in range(300)]
    target = [record for record in source if random.random() > 0.1]
    for _ in range(20):
        target[random.randrange(len(target))] = (random.choice([None, b"a", b"c"]), b"%d" % random.randrange(9))
    outcome = compare_records(
        frame(spark, source), frame(spark, target), with_timestamps=False, across_partitions=False
    )
    (row,) = count_kinds(outcome, across_partitions=False).collect()
    lost, extra = Counter(source) - Counter(target), Counter(target) - Counter(source)
    different = 0
    for key in (b"a", b"b", b"c"):
        of_key = [sum(count for record, count in side.items() if record[0] == key) for side in (lost, extra)]
        different += min(of_key)
    assert (row["source"], row["target"], row["different"]) == (len(source), len(target), different)
    assert (row["lost"], row["extra"]) == (lost.total() - different, extra.total() - different)
    assert different > 0
