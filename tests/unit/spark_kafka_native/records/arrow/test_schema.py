"""Record batches of some columns, and of none."""

import pyarrow as pa

from spark_kafka_native.records.arrow.schema import ALL, RECORD_FIELDS, record_batch


def test_every_column_has_a_type() -> None:
    assert tuple(RECORD_FIELDS.names) == ALL


def test_rows_without_columns() -> None:
    schema = pa.schema([RECORD_FIELDS.field("offset")])
    assert record_batch([pa.array([7, 8])], schema, 2).column("offset").to_pylist() == [7, 8]
    empty = record_batch([], pa.schema([]), 3)
    assert (empty.num_rows, empty.num_columns) == (3, 0)
