"""Splitting ranges; the tables are those of the JVM connector's own suites."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.offsets import OffsetMap
from spark_kafka_native._spark.planning.ranges import OffsetRange, range_of, split_ranges, split_unbound_ranges


def ranges(text: str) -> list[OffsetRange]:
    """From a text such as ``a[1,5) b[1,21)``: of topics a and b."""
    found = re.findall(r"(\w+)\[(\d+),(\d+)\)", text)
    return [range_of(TopicPartition(topic, 0), int(start), int(end)) for topic, start, end in found]


def text(pieces: list[OffsetRange]) -> str:
    return " ".join(f"{piece.topic}[{piece.from_offset},{piece.until_offset})" for piece in pieces)


@pytest.mark.feature("source.minPartitions", "source.maxRecordsPerPartition")
@pytest.mark.parametrize(
    ("min_partitions", "max_records", "given", "expected"),
    [
        pytest.param(None, None, "a[1,2)", "a[1,2)", id="with no minPartition: N TopicPartitions to N"),
        pytest.param(None, None, "a[1,2) b[1,1)", "a[1,2)", id="with no minPartition: empty ranges ignored"),
        pytest.param(
            3, None, "a[1,2) b[1,2) c[1,2)", "a[1,2) b[1,2) c[1,2)", id="minPartition = 3: N TopicPartitions to N"
        ),
        pytest.param(4, None, "a[1,5)", "a[1,2) a[2,3) a[3,4) a[4,5)", id="1 TopicPartition to N"),
        pytest.param(4, None, "a[1,5) b[1,21)", "a[1,5) b[1,7) b[7,14) b[14,21)", id="N skewed TopicPartitions to M"),
        pytest.param(
            4, None, "a[1,1) b[1,21)", "b[1,6) b[6,11) b[11,16) b[16,21)", id="range inexact multiple, empty range"
        ),
        pytest.param(
            4,
            None,
            "a[1,2) b[1,1001)",
            "a[1,2) b[1,334) b[334,667) b[667,1001)",
            id="SPARK-30656: ignore unsplit TopicPartitions",
        ),
        pytest.param(1, None, "a[1,5) b[1,21)", "a[1,5) b[1,21)", id="fewer than TopicPartitions"),
        pytest.param(3, None, "a[1,11)", "a[1,4) a[4,7) a[7,11)", id="with minPartition = 3: range inexact"),
        pytest.param(
            4,
            None,
            "a[1,5) b[1,21) c[1,1)",
            "a[1,5) b[1,7) b[7,14) b[14,21)",
            id="minPartition = 4: empty ranges ignored",
        ),
        pytest.param(None, 4, "a[1,5)", "a[1,5)", id="maxRecordsPerPartition: size equal"),
        pytest.param(None, 4, "a[1,2)", "a[1,2)", id="maxRecordsPerPartition: size smaller"),
        pytest.param(None, 4, "a[1,6)", "a[1,3) a[3,6)", id="maxRecordsPerPartition: size greater"),
        pytest.param(1, 20, "a[1,40)", "a[1,20) a[20,40)", id="maxRecordsPerPartition before minPartition"),
        pytest.param(
            4,
            None,
            "a[0,100)",
            "a[0,25) a[25,50) a[50,75) a[75,100)",
            id="minPartitions is supported: [0, 100) in four",
        ),
        pytest.param(1, None, "a[0,100)", "a[0,100)", id="minPartitions is supported: [0, 100) in one"),
        pytest.param(2, None, "", "", id="nothing"),
        pytest.param(
            6,
            None,
            "a[0,30) b[0,10)",
            "a[0,6) a[6,12) a[12,18) a[18,24) a[24,30) b[0,5) b[5,10)",
            id="shares of 4.5 and 1.5 are rounded up",
        ),
        pytest.param(2**31 - 1, None, "a[0,2)", "a[0,1) a[1,2)", id="more pieces than offsets"),
    ],
)
def test_split_ranges_as_kafka_offset_range_calculator(
    min_partitions: int | None, max_records: int | None, given: str, expected: str
) -> None:
    pieces = split_ranges(ranges(given), min_partitions=min_partitions, max_records_per_partition=max_records)
    assert text(pieces) == expected


_sizes = st.lists(st.integers(0, 2_000), min_size=1, max_size=8)


@given(_sizes, st.one_of(st.none(), st.integers(1, 40)), st.one_of(st.none(), st.integers(1, 500)))
def test_split_ranges_cover_everything_once(
    sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    whole = [range_of(TopicPartition("t", index), 7, 7 + size) for index, size in enumerate(sizes)]
    pieces = split_ranges(whole, min_partitions=min_partitions, max_records_per_partition=max_records)
    position: OffsetMap = {}
    for piece in pieces:
        assert piece.from_offset == position.get(piece.topic_partition, 7)
        assert piece.size > 0
        assert max_records is None or piece.size <= max_records
        position[piece.topic_partition] = piece.until_offset
    assert position == {piece.topic_partition: piece.until_offset for piece in whole if piece.size}


@pytest.mark.feature("source.minPartitions", "offsets.special")
def test_unbound_ranges_keep_earliest_and_latest_at_their_ends() -> None:
    """KafkaOffsetReaderSuite, special offsets: 4 messages from earliest to latest, minPartitions=3."""
    tp = TopicPartition("t", 0)
    pieces = split_unbound_ranges([range_of(tp, -2, -1)], {tp: (0, 4)}, min_partitions=3)
    assert text(pieces) == "t[-2,1) t[1,2) t[2,-1)"
    assert all(piece.from_earliest for piece in pieces)


@pytest.mark.feature("source.minPartitions", "offsets.special")
def test_unbound_ranges_of_several_partitions() -> None:
    """KafkaOffsetReaderSuite, multiple partitions: 100 in p0 and 4 in p1; p1 up to offset 3; minPartitions=4."""
    p0, p1 = TopicPartition("t", 0), TopicPartition("t", 1)
    bounds = {p0: (0, 100), p1: (0, 4)}
    pieces = split_unbound_ranges([range_of(p0, -2, -1), range_of(p1, -2, 3)], bounds, min_partitions=4)
    found = [(piece.partition, piece.from_offset, piece.until_offset) for piece in pieces]
    assert found == [(0, -2, 33), (0, 33, 66), (0, 66, -1), (1, -2, 3)]


def test_resolved_ranges_of_several_partitions() -> None:
    """KafkaOffsetReaderSuite, resolved: p0 from 0 to 100, p1 from 0 to 3; minPartitions=4."""
    p0, p1 = TopicPartition("t", 0), TopicPartition("t", 1)
    pieces = split_unbound_ranges([range_of(p0, 0, 100), range_of(p1, 0, 3)], {}, min_partitions=4)
    found = [(piece.partition, piece.from_offset, piece.until_offset) for piece in pieces]
    assert found == [(0, 0, 33), (0, 33, 66), (0, 66, 100), (1, 0, 3)]


def test_explicit_ranges_are_split_between_their_offsets() -> None:
    """KafkaOffsetReaderSuite, unresolved explicit: 10 messages, from 1 to 4, minPartitions=3."""
    tp = TopicPartition("t", 0)
    pieces = split_unbound_ranges([range_of(tp, 1, 4)], {tp: (0, 10)}, min_partitions=3)
    assert text(pieces) == "t[1,2) t[2,3) t[3,4)"
    assert not any(piece.from_earliest for piece in pieces)


def test_a_range_up_to_latest_that_is_empty_today_is_kept_for_what_arrives_later() -> None:
    full, empty, closed = (TopicPartition("t", partition) for partition in range(3))
    pieces = split_unbound_ranges(
        [range_of(full, -2, -1), range_of(empty, -2, -1), range_of(closed, -2, 5)],
        {full: (0, 8), empty: (0, 0), closed: (5, 9)},
        min_partitions=2,
    )
    assert [(piece.partition, piece.from_offset, piece.until_offset) for piece in pieces] == [
        (0, -2, 4),
        (0, 4, -1),
        (1, -2, -1),
    ]


@pytest.mark.feature("source.maxRecordsPerPartition")
def test_max_records_per_partition_counts_real_records_in_a_batch_query() -> None:
    """The JVM connector takes -1 - (-2) = 1 for the size here, and does not split."""
    tp = TopicPartition("t", 0)
    pieces = split_unbound_ranges([range_of(tp, -2, -1)], {tp: (0, 10)}, max_records_per_partition=5)
    assert text(pieces) == "t[-2,5) t[5,-1)"


def test_ranges_have_a_text_for_errors() -> None:
    assert str(range_of(TopicPartition("t", 3), -2, -1)) == "t-3 offsets [earliest, latest)"
    assert str(range_of(TopicPartition("t", 3), 5, 9)) == "t-3 offsets [5, 9)"
