import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._client.errors import NoSuchPartition, RecordTooLarge
from spark_kafka_native._client.partitioning.key_hashes import murmur2
from spark_kafka_native._client.partitioning.partitioners import make_partitioner
from spark_kafka_native._client.producer.routing import (
    Rows,
    Runs,
    check_sizes,
    group_by_partition,
    partition_ids,
    pieces,
)
from spark_kafka_native._records.arrow.encode import MeasuredRows
from spark_kafka_native._records.arrow.schema import HEADERS
from spark_kafka_native._records.batch import RECORD_BATCH_OVERHEAD
from spark_kafka_native._records.compression import CompressionType

pytestmark = pytest.mark.usefixtures("each_kernel")

NOW_MS = 1_700_000_000_000


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})


def ids(rows: pa.RecordBatch, *, partitions: int = 3, partitioner: str = "default") -> list[int]:
    found = partition_ids(
        "t",
        Rows.of(rows, NOW_MS),
        partitions=partitions,
        available=[1],
        partitioner=make_partitioner(partitioner, 10**9, 0),
    )
    return [int(number) for number in found]


def by_key(key: bytes, partitions: int = 3) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def test_the_partition_column_is_no_column_of_the_records() -> None:
    found = Rows.of(batch(partition=[1], value=[b"v"], key=[b"k"]), NOW_MS)
    assert found.records.schema.names == ["value", "key", "timestamp"]
    assert found.given is not None


def test_rows_with_a_partition_alone_are_records_of_nothing() -> None:
    found = Rows.of(batch(partition=[1, 2]), NOW_MS)
    assert found.records.to_pydict() == {"timestamp": [NOW_MS, NOW_MS]}
    assert len(found.sizes) == 2


def test_every_row_has_a_timestamp() -> None:
    times = pa.array([5_000_999, None, 7_000], pa.timestamp("us"))
    found = Rows.of(pa.record_batch([times], ["timestamp"]), NOW_MS)
    assert found.records.column("timestamp").to_pylist() == [5_000, NOW_MS, 7]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"topic": ["t"]}, "'topic'"),
        ({"key": [1]}, "key"),
        ({"value": [decimal.Decimal(1)]}, "value"),
        ({"partition": ["1"]}, "column 'partition' must be integers, it is string"),
        ({"timestamp": [-1]}, "row 0 has the timestamp -1 ms"),
        ({"timestamp": [5, None, -3]}, "row 2 has the timestamp -3 ms"),
    ],
)
def test_columns_that_cannot_be_sent(columns: dict[str, list[object]], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Rows.of(batch(**columns), NOW_MS)


def test_a_header_without_a_key_names_its_row() -> None:
    headers = pa.array([[{"key": "a", "value": b""}], [{"key": None, "value": b""}]], HEADERS)
    with pytest.raises(ValueError, match="row 1"):
        Rows.of(pa.record_batch({"headers": headers}), NOW_MS)


BYTES = st.none() | st.binary(max_size=5) | st.sampled_from([b"x" * size for size in (63, 64, 8191, 8192, 9000)])
"""Around the lengths at which a varint takes one byte more."""


@given(st.lists(st.tuples(BYTES, BYTES, st.integers(0, 3)), min_size=1, max_size=20))
def test_sizes_are_never_too_small_and_at_most_twenty_bytes_too_large(
    records: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    headers = [[{"key": "h" * count, "value": None}] * count or None for _, _, count in records]
    rows = pa.record_batch(
        {
            "key": pa.array([key for key, _, _ in records], pa.binary()),
            "value": pa.array([value for _, value, _ in records], pa.binary()),
            "headers": pa.array(headers, HEADERS),
        }
    )
    for row, size in enumerate(Rows.of(rows, NOW_MS).sizes.tolist()):
        (encoded,) = MeasuredRows(rows.slice(row, 1), 0).encode(compression=CompressionType.NONE, max_batch_bytes=10**9)
        exact = len(encoded.buffer) - RECORD_BATCH_OVERHEAD
        assert exact <= size <= exact + 20


@pytest.mark.feature("sink.recordSize")
def test_the_first_row_that_is_too_large_is_named() -> None:
    rows = Rows.of(batch(key=[b"a", b"abc", b"b"], value=[b"x", b"x" * 1000, b"x" * 2000]), NOW_MS)
    largest = int(rows.sizes[2]) + RECORD_BATCH_OVERHEAD
    check_sizes("t", rows, largest)
    with pytest.raises(RecordTooLarge) as caught:
        check_sizes("t", rows, 500)
    error = caught.value
    assert (error.row, error.topic, error.key_bytes, error.value_bytes) == (1, "t", 3, 1000)
    assert error.size_bytes == int(rows.sizes[1]) + RECORD_BATCH_OVERHEAD


def test_given_partition_then_key_then_sticky() -> None:
    rows = batch(
        key=pa.array([b"a", b"b", None, None], pa.binary()), partition=pa.array([2, None, 0, None], pa.int32())
    )
    assert ids(rows) == [2, by_key(b"b"), 0, 1]


def test_without_any_column_to_go_by_rows_stick() -> None:
    assert ids(batch(value=[b"a", b"b"])) == [1, 1]
    assert ids(batch(key=pa.nulls(2))) == [1, 1]


def test_keys_may_be_ignored() -> None:
    rows = batch(key=[b"a", b"b"], partition=pa.array([0, None]))
    assert ids(rows, partitioner="sticky") == [0, 1]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_keys_of_any_string_type_hash_alike(kind: pa.DataType) -> None:
    rows = batch(key=pa.array(["a", "b", "c", None], pa.string()).cast(kind))
    assert ids(rows.slice(1)) == [by_key(b"b"), by_key(b"c"), 1]


@pytest.mark.parametrize("wrong", [3, -1, 2**40])
def test_a_partition_that_does_not_exist_is_named(wrong: int) -> None:
    with pytest.raises(NoSuchPartition, match=f"t-{wrong} does not exist: the topic has 3 partitions"):
        ids(batch(value=[b"a", b"b"], partition=[1, wrong]))


def numbered(count: int) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([b"%d" % row for row in range(count)], pa.binary())})


def of_partitions(found: list[Runs]) -> list[tuple[int, list[int]]]:
    return [
        (partition, rows.tolist())
        for runs in found
        for partition, rows in zip(runs.partitions, np.split(runs.rows, runs.starts[1:]), strict=True)
    ]


@given(st.lists(st.integers(0, 5), max_size=40), st.sampled_from([0, 1 << 16]), st.sampled_from([0, 7]))
def test_every_row_comes_once_sorted_by_partition_and_in_order(numbers: list[int], offset: int, first_row: int) -> None:
    sizes = np.arange(len(numbers), dtype=np.int64)
    ids = np.array(numbers, np.int32) + np.int32(offset)
    found = list(group_by_partition(sizes, ids, first_row, 10**9))
    assert of_partitions(found) == [
        (number + offset, [row + first_row for row, other in enumerate(numbers) if other == number])
        for number in sorted(set(numbers))
    ]
    assert [size for runs in found for size in runs.sizes] == [
        sum(row - first_row for row in rows) for _, rows in of_partitions(found)
    ]
    assert not any(runs.fills_batches for runs in found)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=20))
def test_long_runs_of_a_partition_are_not_copied(given_runs: list[tuple[int, int]]) -> None:
    ids = np.array([number for number, length in given_runs for _ in range(length)], np.int32)
    records = numbered(len(ids))
    (runs,) = group_by_partition(np.full(len(ids), 1 << 17), ids, 0, 10**9)
    assert [(number, row) for number, rows in of_partitions([runs]) for row in rows] == [
        (number, row) for row, number in enumerate(ids.tolist())
    ]
    assert data_address(runs.take(records)) == data_address(records)


def data_address(records: pa.RecordBatch) -> int:
    data = records.column("value").buffers()[2]
    assert data is not None
    return data.address


@pytest.mark.parametrize("ids", [[0, 0, 0], [2, 0, 1]], ids=["a range", "sorted"])
def test_runs_are_taken_from_the_whole_batch(ids: list[int]) -> None:
    (runs,) = group_by_partition(np.ones(3, np.int64), np.array(ids, np.int32), 4, 10**9)
    assert runs.is_range == (len(set(ids)) == 1)
    assert runs.take(numbered(9)).column("value").to_pylist() == [b"%d" % row for row in runs.rows.tolist()]


def test_runs_that_fill_batches_come_together() -> None:
    ids = np.repeat(np.array([0, 1, 2, 0, 3, 1], np.int32), [2, 4, 5, 1, 2, 6])
    found = list(group_by_partition(np.full(len(ids), 1 << 17), ids, 0, 4 << 17))
    assert [(runs.partitions, runs.starts.tolist(), runs.fills_batches) for runs in found] == [
        ([0], [0], False),
        ([1, 2], [0, 4], True),
        ([0, 3], [0, 1], False),
        ([1], [0], True),
    ]
    assert [row for _, rows in of_partitions(found) for row in rows] == list(range(len(ids)))
    assert [size >> 17 for runs in found for size in runs.sizes] == [2, 4, 5, 1, 2, 6]


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 120))
def test_pieces_are_all_rows_in_order_none_much_too_large(values: list[int], limit: int) -> None:
    sizes = np.array(values, np.int64)
    found = list(pieces(sizes, limit))
    assert [row for piece in found for row in range(piece.start, piece.stop)] == list(range(len(values)))
    for piece in found:
        assert piece.stop > piece.start
        assert sizes[piece].sum() <= limit or piece.stop - piece.start == 1
