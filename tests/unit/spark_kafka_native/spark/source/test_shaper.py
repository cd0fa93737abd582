import datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_kafka_native._spark.errors import TaskError
from spark_kafka_native._spark.source.layout import layout_of
from spark_kafka_native._spark.source.schema import source_schema
from spark_kafka_native._spark.source.shaper import MAX_TIMESTAMP_MS, RowShaper
from tests.support.spark.user_schemas import HEADER_SHAPES, PARTITION, RECORDS, user_schema


def shaped(schema: StructType, invalid_utf8: str = "replace", records: pa.RecordBatch = RECORDS) -> pa.RecordBatch:
    layout = layout_of(schema, invalid_utf8)
    rows = RowShaper(layout=layout, partition=PARTITION).shape(records.select(list(layout.record_fields)))
    rows.validate(full=invalid_utf8 != "keep")
    assert rows.schema == to_arrow_schema(schema, timezone="UTC")
    return rows


@pytest.mark.feature("column.timestamp", "column.headers")
def test_records_become_rows() -> None:
    layout = layout_of(source_schema(include_headers=True))
    rows = RowShaper(layout=layout, partition=PARTITION).shape(RECORDS.select(list(layout.record_fields)))
    assert rows.schema == layout.arrow_schema
    assert rows.to_pylist() == [
        {
            "key": b"k",
            "value": None,
            "topic": "events",
            "partition": 3,
            "offset": 7,
            "timestamp": datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=datetime.UTC),
            "timestampType": 0,
            "headers": None,
        },
        {
            "key": None,
            "value": b"\xff\xfe",
            "topic": "events",
            "partition": 3,
            "offset": 9,
            "timestamp": datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.UTC),
            "timestampType": -1,
            "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        },
    ]


@pytest.mark.feature("more.projection")
def test_user_schema_prunes_and_orders_columns() -> None:
    rows = shaped(user_schema(offset='"long"', Value='"binary"'))
    assert rows.to_pydict() == {"offset": [7, 9], "Value": [None, b"\xff\xfe"]}


def test_constant_columns_alone_still_have_rows() -> None:
    rows = shaped(user_schema(partition='"integer"', topic='"string"'))
    assert rows.to_pydict() == {"partition": [3, 3], "topic": ["events", "events"]}


def test_constants_serve_batches_of_any_length() -> None:
    shaper = RowShaper(layout=layout_of(user_schema(topic='"string"', partition='"integer"')), partition=PARTITION)
    for length in (3, 1, 5, 0, 2):
        rows = shaper.shape(pa.RecordBatch.from_pydict({"offset": pa.array(range(length), pa.int64())}))
        assert rows.to_pydict() == {"topic": ["events"] * length, "partition": [3] * length}


@pytest.mark.feature("more.projection")
def test_timestamps_as_milliseconds() -> None:
    assert shaped(user_schema(timestamp='"long"')).to_pydict() == {"timestamp": [1_700_000_000_123, -1]}


@pytest.mark.parametrize("time_ms", [MAX_TIMESTAMP_MS + 1, -MAX_TIMESTAMP_MS - 1, 2**63 - 1, -(2**63)])
def test_times_that_spark_cannot_hold_are_an_error_only_as_timestamps(time_ms: int) -> None:
    schema = RECORDS.schema
    times = pa.array([0, time_ms], schema.field("timestamp").type)
    far = RECORDS.set_column(schema.get_field_index("timestamp"), "timestamp", times)
    assert shaped(user_schema(timestamp='"long"'), records=far).to_pydict() == {"timestamp": [0, time_ms]}
    expected = f"events-3: the record at offset 9 has the timestamp {time_ms} ms, .* column 'timestamp' .*bigint"
    with pytest.raises(TaskError, match=expected):
        shaped(user_schema(timestamp='"timestamp"'), records=far)


def test_the_largest_times_that_spark_can_hold() -> None:
    schema = RECORDS.schema
    times = pa.array([-MAX_TIMESTAMP_MS, MAX_TIMESTAMP_MS], schema.field("timestamp").type)
    far = RECORDS.set_column(schema.get_field_index("timestamp"), "timestamp", times)
    rows = shaped(user_schema(timestamp='"timestamp"'), records=far)
    micros = rows.column("timestamp").cast(pa.int64()).to_pylist()
    assert micros == [-MAX_TIMESTAMP_MS * 1000, MAX_TIMESTAMP_MS * 1000]


@pytest.mark.feature("more.strings")
@pytest.mark.parametrize(("invalid", "becomes"), [("replace", "\ufffd\ufffd"), ("null", None)])
def test_bytes_that_are_not_utf8(invalid: str, becomes: str | None) -> None:
    rows = shaped(user_schema(key='"string"', value='"string"'), invalid)
    assert rows.to_pydict() == {"key": ["k", None], "value": [None, becomes]}


@pytest.mark.feature("more.strings")
def test_bytes_kept_as_they_are_are_not_copied() -> None:
    """As CAST(value AS STRING)."""
    rows = shaped(user_schema(value='"string"'), "keep")
    assert rows.column("value").cast(pa.binary()).to_pylist() == [None, b"\xff\xfe"]
    data, decoded = rows.column("value").buffers()[2], RECORDS.column("value").buffers()[2]
    assert data is not None
    assert decoded is not None
    assert data.address == decoded.address


@pytest.mark.feature("more.strings")
@pytest.mark.parametrize(("column", "kind"), [("value", '"string"'), *[("headers", HEADER_SHAPES[n]) for n in (1, 3)]])
def test_bad_bytes_that_are_an_error_are_named(column: str, kind: str) -> None:
    bad = RECORDS.set_column(
        RECORDS.schema.get_field_index("headers"),
        "headers",
        pa.array(
            [[{"key": "a", "value": b"fine"}], [{"key": "a", "value": b"\xff"}]], RECORDS.schema.field("headers").type
        ),
    )
    expected = f"events-3: column '{column}' of the record at offset 9 is not UTF-8. Option 'invalidUtf8'"
    with pytest.raises(TaskError, match=expected):
        shaped(user_schema(**{column: kind}), "fail", bad)


SHAPES: list[tuple[str, Any]] = [
    (HEADER_SHAPES[0], [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]),
    (HEADER_SHAPES[1], [{"key": "a", "value": "1"}, {"key": "a", "value": None}]),
    (HEADER_SHAPES[2], [("a", None)]),
    (HEADER_SHAPES[3], [("a", None)]),
]


@pytest.mark.feature("more.projection")
@pytest.mark.parametrize(("shape", "second"), SHAPES)
def test_headers_have_the_shape_of_the_schema(shape: str, second: object) -> None:
    assert shaped(user_schema(headers=shape)).column("headers").to_pylist() == [None, second]
