import pyarrow as pa
import pytest

from spark_kafka_native._client.producer.accumulator import Accumulator, Waiting, group
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.records.record_batches import rows

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def values(waiting: Waiting) -> list[object]:
    return pa.Table.from_batches(waiting.parts).column("value").to_pylist()


@pytest.fixture
def accumulator() -> Accumulator:
    return Accumulator(100, 10)


def test_rows_wait_until_they_fill_a_batch(accumulator: Accumulator) -> None:
    assert list(accumulator.add(A, rows([b"1", b"2"]), 60, 0)) == []
    assert list(accumulator.add(B, rows([b"3"]), 60, 0)) == []
    assert (accumulator.rows, accumulator.size_bytes) == (3, 120)
    (full,) = accumulator.add(A, rows([b"4"]), 40, 0)
    assert values(full) == [b"1", b"2", b"4"]
    assert (accumulator.rows, accumulator.size_bytes) == (1, 60)


def test_rows_that_nearly_fill_a_batch_leave_without_a_copy(accumulator: Accumulator) -> None:
    given = rows([b"1", b"2"])
    (full,) = accumulator.add(A, given, 75, 0)
    assert full.parts[0] is given
    assert (accumulator.rows, accumulator.size_bytes) == (0, 0)


def test_rows_that_do_not_fit_push_the_waiting_ones_out(accumulator: Accumulator) -> None:
    list(accumulator.add(A, rows([b"1"]), 60, 0))
    (pushed,) = accumulator.add(A, rows([b"2"]), 41, 0)
    assert values(pushed) == [b"1"]
    assert (accumulator.rows, accumulator.size_bytes) == (1, 41)
    both = list(accumulator.add(A, rows([b"3"]), 500, 0))
    assert [values(part) for part in both] == [[b"2"], [b"3"]]


def test_rows_that_have_waited_long_enough_leave(accumulator: Accumulator) -> None:
    list(accumulator.add(A, rows([b"1"]), 1, 0))
    list(accumulator.add(B, rows([b"2"]), 1, 5))
    list(accumulator.add(A, rows([b"3"]), 1, 9))
    assert list(accumulator.overdue(9.9)) == []
    (late,) = accumulator.overdue(10)
    assert (late.partition, values(late)) == (A, [b"1", b"3"])
    assert accumulator.rows == 1


def test_drain_empties_it(accumulator: Accumulator) -> None:
    list(accumulator.add(A, rows([b"1"]), 1, 0))
    list(accumulator.add(B, rows([b"2"]), 1, 0))
    assert [(rest.partition, values(rest)) for rest in accumulator.drain()] == [(A, [b"1"]), (B, [b"2"])]
    assert (accumulator.rows, accumulator.size_bytes) == (0, 0)
    assert list(accumulator.drain()) == []


def test_waiting_rows_of_a_partition_leave_before_later_ones(accumulator: Accumulator) -> None:
    list(accumulator.add(A, rows([b"1"]), 1, 0))
    list(accumulator.add(B, rows([b"2"]), 1, 0))
    assert [values(earlier) for earlier in accumulator.release([A])] == [[b"1"]]
    assert list(accumulator.release([A])) == []
    assert (accumulator.rows, accumulator.size_bytes) == (1, 1)


def test_rows_with_other_columns_push_the_waiting_ones_out_first(accumulator: Accumulator) -> None:
    list(accumulator.add(A, rows([b"1"]), 1, 0))
    (pushed,) = accumulator.add(A, rows([b"2"], key=[b"k"]), 1, 0)
    assert values(pushed) == [b"1"]
    both = list(accumulator.add(A, rows([b"3"]), 100, 0))
    assert [values(part) for part in both] == [[b"2"], [b"3"]]
    assert accumulator.rows == 0


class CountedTime(float):
    """A time that counts how often it is compared."""

    comparisons = 0

    def __lt__(self, other: object) -> bool:
        CountedTime.comparisons += 1
        return float(self) < other  # type: ignore[operator]


def test_overdue_looks_at_one_partition_more_than_it_yields(accumulator: Accumulator) -> None:
    """However many partitions have rows: a producer of many topics looks at every send."""
    for number in range(50):
        list(accumulator.add(TopicPartition("t", number), rows([b"1"]), 1, number))
    CountedTime.comparisons = 0
    late = [waiting.partition.partition for waiting in accumulator.overdue(CountedTime(12))]
    assert late == [0, 1, 2]
    assert CountedTime.comparisons == 4


def test_partitions_are_encoded_together_up_to_a_size_and_with_the_same_columns(accumulator: Accumulator) -> None:
    for number, size in enumerate([30, 40, 50, 60, 5]):
        columns = {"key": [b"k"]} if number == 4 else {}
        list(accumulator.add(TopicPartition("t", number), rows([b"v"], **columns), size, 0))
    groups = [[waiting.partition.partition for waiting in each] for each in group(accumulator.drain(), 70)]
    assert groups == [[0, 1], [2, 3], [4]]
    assert list(group([], 70)) == []
