import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._spark import gathering
from spark_kafka_native._spark.gathering import Gathered


def batch(first: int, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(range(first, first + rows), pa.int64())})


def gather(sizes: list[int], target_rows: int) -> list[pa.RecordBatch]:
    gathered, found, first = Gathered(target_rows), list[pa.RecordBatch](), 0
    for rows in sizes:
        found += gathered.add(batch(first, rows))
        first += rows
    return [*found, *gathered.rest()]


@pytest.mark.parametrize(
    ("sizes", "leave"),
    [
        ([], []),
        ([3], [3]),
        ([3, 3, 3], [9]),
        ([3] * 7, [12, 9]),
        ([10], [10]),
        ([14, 1], [14, 1]),
        ([4, 4, 5, 3], [8, 5, 3]),
        ([15, 5], [8, 7, 5]),
        ([100], [10] * 10),
    ],
)
def test_gathered_batches_have_the_target_size(sizes: list[int], leave: list[int]) -> None:
    assert [each.num_rows for each in gather(sizes, 10)] == leave


@pytest.mark.parametrize(("sizes", "leave"), [([3, 3, 1, 1], [7, 1]), ([1, 1, 4, 1], [2, 4, 1])])
def test_gathered_batches_are_bounded_in_bytes(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], leave: list[int]
) -> None:
    monkeypatch.setattr(gathering, "TARGET_BYTES", 50)  # six rows and a bit, so that three are not yet half
    assert [each.num_rows for each in gather(sizes, 1_000)] == leave


def test_large_batches_are_not_copied() -> None:
    gathered, large = Gathered(10), batch(0, 8)
    (found,) = gathered.add(large)
    (before, after) = (each.column(0).buffers()[1] for each in (large, found))
    assert before is not None
    assert after is not None
    assert before.address == after.address


@given(st.lists(st.integers(1, 70), max_size=20), st.integers(1, 40))
def test_every_gathered_row_is_yielded_once_in_order(sizes: list[int], target_rows: int) -> None:
    found = gather(sizes, target_rows)
    assert [number for each in found for number in each.column("n").to_pylist()] == list(range(sum(sizes)))
    assert all(0 < each.num_rows <= target_rows * 1.5 for each in found)
