"""Columns that can be asked for, and batches of none of them."""

import pyarrow as pa
import pytest

from spark_kafka_native.records.schema import ALL, MAX_TIMESTAMP_MS, RECORD_FIELDS, record_batch


def test_every_column_has_a_type() -> None:
    assert tuple(RECORD_FIELDS.names) == ALL


def test_the_latest_time_fits_and_the_one_behind_it_does_not() -> None:
    assert pa.array([MAX_TIMESTAMP_MS * 1000], RECORD_FIELDS.field("timestamp").type).is_valid()[0].as_py()
    with pytest.raises(OverflowError):
        pa.array([(MAX_TIMESTAMP_MS + 1) * 1000], RECORD_FIELDS.field("timestamp").type)


def test_rows_without_columns() -> None:
    schema = pa.schema([RECORD_FIELDS.field("offset")])
    assert record_batch([pa.array([7, 8])], schema, 2).column("offset").to_pylist() == [7, 8]
    empty = record_batch([], pa.schema([]), 3)
    assert (empty.num_rows, empty.num_columns) == (3, 0)
