from typing import Any

import numpy as np
import pyarrow as pa

from spark_kafka_native._records.arrow.column_reader import read_columns


def test_keys_and_values_are_spans_of_the_arrow_buffers() -> None:
    found: dict[str, Any] = {"key": pa.array(["é", None, ""]), "value": pa.array([None, b"abc", b""])}
    columns = read_columns(pa.record_batch(found), 7)
    assert columns.keys is not None
    assert columns.values is not None
    assert columns.keys.content.type == pa.large_binary()
    assert columns.keys.lengths.tolist() == [2, -1, 0]
    assert columns.values.sizes.tolist() == [0, 3, 0]
    assert columns.headers is None
    assert columns.timestamps.tolist() == [7, 7, 7]


def test_columns_of_nulls_are_none() -> None:
    kind = pa.map_(pa.string(), pa.binary())
    batch = pa.record_batch({"key": pa.array([None, None], pa.string()), "headers": pa.array([None, []], kind)})
    columns = read_columns(batch, 0)
    assert (columns.keys, columns.values, columns.headers) == (None, None, None)


def test_headers_of_several_rows_are_concatenated() -> None:
    rows = [None, [("a", b"1"), ("b", None)], [], [("c", b"")]]
    columns = read_columns(pa.record_batch({"headers": pa.array(rows, pa.map_(pa.string(), pa.binary()))}), 0)
    assert columns.headers is not None
    assert columns.headers.counts.tolist() == [0, 2, 0, 1]
    assert columns.headers.keys.content.to_pylist() == [b"a", b"b", b"c"]
    assert columns.headers.values.lengths.tolist() == [1, -1, 0]
    assert columns.timestamps.dtype == np.int64


def test_byte_strings_far_into_a_large_column() -> None:
    """Offsets beyond int32, as a slice of a column of more than 2 GiB has them."""
    offsets = np.array([3 * 2**30 - 3, 3 * 2**30 - 1, 3 * 2**30], dtype=np.int64)
    data = np.zeros(3 * 2**30, dtype=np.uint8)  # never touched, so never there
    column = pa.Array.from_buffers(pa.large_binary(), 2, [None, pa.py_buffer(offsets.data), pa.py_buffer(data.data)])
    columns = read_columns(pa.record_batch({"value": column}), 0)
    assert columns.values is not None
    assert columns.values.lengths.tolist() == [2, 1]
