import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.sink import by_topic as module
from spark_kafka_native._spark.sink.by_topic import by_topic
from spark_kafka_native._spark.sink.rows import SinkRows, sink_rows

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in columns.items()])


def parts(rows: SinkRows, *batches: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    return [part for large in by_topic(rows, batches) for part in large.items()]


def written(rows: SinkRows, *batches: pa.RecordBatch) -> list[tuple[str, list[Any]]]:
    return [(topic, records.to_pylist()) for topic, records in parts(rows, *batches)]


def address(batch: pa.RecordBatch) -> int:
    data = batch.column("value").buffers()[2]
    assert data is not None
    return data.address


@pytest.mark.feature("sink.extraColumns")
def test_columns_that_are_written() -> None:
    everything = schema(
        offset=LongType(),
        value=StringType(),
        key=BinaryType(),
        topic=StringType(),
        headers=HEADERS,
        partition=IntegerType(),
    )
    rows = sink_rows(everything, None)
    assert rows.columns == ("key", "value", "topic", "partition", "headers")
    # The option wins; then the column is not even looked at.
    assert sink_rows(schema(value=BinaryType(), topic=LongType()), "out") == SinkRows(columns=("value",), topic="out")
    assert pickle.loads(pickle.dumps(rows)) == rows


def test_duplicate_column_is_refused_if_it_is_written() -> None:
    twice = StructType([StructField(name, StringType()) for name in ("value", "other", "value", "other")])
    with pytest.raises(PlanError, match="column 'value' appears 2 times; the query's columns are value"):
        sink_rows(twice, "t")
    assert sink_rows(StructType(twice.fields[1:]), "t").columns == ("value",)


@pytest.mark.feature("sink.types")
@pytest.mark.parametrize(
    ("columns", "topic", "complaint"),
    [
        (
            {"key": StringType(), "x": LongType()},
            "t",
            "column 'value' is required, and must be a string or binary; the query's columns are key STRING, x BIGINT",
        ),
        ({"VALUE": StringType()}, "t", "column 'value' is required"),
        ({"value": StringType()}, None, "a column 'topic' of type string; the query's columns are value"),
        ({"value": IntegerType()}, "t", "column 'value' must be a string or binary, not INT"),
        ({"value": StringType(), "key": LongType()}, "t", "column 'key' must be a string or binary, not BIGINT"),
        ({"value": StringType(), "topic": BinaryType()}, None, "column 'topic' must be a string, not BINARY"),
        ({"value": StringType(), "partition": LongType()}, "t", "column 'partition' must be an int, not BIGINT"),
        (
            {"value": StringType(), "headers": MapType(StringType(), IntegerType())},
            "t",
            "or a map<string,string> or map<string,binary>, not MAP<STRING,INT>",
        ),
        ({"value": StringType(), "headers": MapType(LongType(), BinaryType())}, "t", "not MAP<BIGINT,BINARY>"),
        ({"value": StringType(), "headers": ArrayType(StringType())}, "t", "column 'headers' must be an array<struct"),
        ({"value": StringType(), "timestamp": LongType()}, "t", "column 'timestamp' must be a timestamp"),
        (
            {"value": StringType(), "timestamp": TimestampNTZType()},
            "t",
            "must be a timestamp while option 'includeTimestamp' is true",
        ),
    ],
)
def test_bad_columns_are_named_before_any_task_runs(
    columns: dict[str, DataType], topic: str | None, complaint: str
) -> None:
    with pytest.raises(PlanError) as caught:
        sink_rows(schema(**columns), topic, include_timestamp=True)
    assert caught.value.code == "PYKAFKA_SINK_SCHEMA"
    assert complaint in caught.value.message


def test_rows_of_one_topic_pass_as_they_are() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "offset": pa.array([1, 2], pa.int64()),
            "value": pa.array(["a", None], pa.string()),
            "partition": pa.array([None, 1], pa.int32()),
        }
    )
    rows = sink_rows(schema(value=StringType(), partition=IntegerType()), "out")
    ((topic, records),) = parts(rows, batch)
    assert topic == "out"
    assert records.schema.names == ["value", "partition"]
    assert records.schema.types == [pa.binary(), pa.int32()]
    assert records.to_pylist() == [{"value": b"a", "partition": None}, {"value": None, "partition": 1}]
    assert address(records) == address(batch)


def test_rows_are_grouped_by_topic_in_order() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"value": pa.array([b"%d" % n for n in range(6)]), "topic": ["x", "y", "x", "z", "y", "x"]}
    )
    rows = sink_rows(schema(value=BinaryType(), topic=StringType()), None)
    assert written(rows, batch) == [
        ("x", [{"value": b"0"}, {"value": b"2"}, {"value": b"5"}]),
        ("y", [{"value": b"1"}, {"value": b"4"}]),
        ("z", [{"value": b"3"}]),
    ]


def test_topic_column_with_one_topic() -> None:
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"0", b"1"]), "topic": ["x", "x"]})
    rows = sink_rows(schema(value=BinaryType(), topic=StringType()), None)
    assert written(rows, batch) == [("x", [{"value": b"0"}, {"value": b"1"}])]


def test_null_topic_is_an_error() -> None:
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"0", b"1"]), "topic": ["x", None]})
    rows = sink_rows(schema(value=BinaryType(), topic=StringType()), None)
    with pytest.raises(PlanError, match="column 'topic' is null in 1 of 2 rows; the option 'topic'") as caught:
        list(by_topic(rows, [batch]))
    assert caught.value.code == "KAFKA_NULL_TOPIC_IN_DATA"


def test_headers_as_spark_hands_them_over() -> None:
    spark_type = pa.list_(
        pa.field(
            "element",
            pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.binary(), False)]),
            nullable=False,
        )
    )
    headers = pa.array([[{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}], []], spark_type)
    batch = pa.RecordBatch.from_arrays([pa.array([b"0", b"1"]), headers], names=["value", "headers"])
    ((_, records),) = parts(sink_rows(schema(value=BinaryType(), headers=HEADERS), "t"), batch)
    assert records.column("headers").type == pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    assert records.select(["headers"]).to_pylist() == batch.select(["headers"]).to_pylist()


@pytest.mark.parametrize("bad", [[{"key": None, "value": b"1"}], [None]])
def test_header_without_a_name_is_an_error(bad: Sequence[object]) -> None:
    headers = pa.array([None, [], bad], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    batch = pa.RecordBatch.from_arrays([pa.array([b"0"] * 3), headers], names=["value", "headers"])
    rows = sink_rows(schema(value=BinaryType(), headers=HEADERS), "t")
    with pytest.raises(PlanError, match="a header whose key is null"):
        list(by_topic(rows, [batch]))


def test_sparks_small_batches_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_PER_SEND", 25)
    batches = [
        pa.RecordBatch.from_pydict({"value": pa.array([b"%d" % (10 * n + i) for i in range(10)])}) for n in range(7)
    ]
    empty = pa.RecordBatch.from_pydict({"value": pa.array([], pa.binary())})
    rows = sink_rows(schema(value=BinaryType()), "t")
    sent = [records for _, records in parts(rows, empty, *batches, empty)]
    assert [records.num_rows for records in sent] == [30, 30, 10]
    assert [value for records in sent for value in records.column(0).to_pylist()] == [b"%d" % n for n in range(70)]


def test_batches_of_large_rows_are_not_joined() -> None:
    small, large = (pa.RecordBatch.from_pydict({"value": pa.array([b"x" * size] * 3)}) for size in (100, 1_000_000))
    rows = sink_rows(schema(value=BinaryType()), "t")
    sent = [records.num_rows for _, records in parts(rows, large, large, small, small, large)]
    assert sent == [3, 3, 6, 3]


def test_a_slice_of_a_batch_is_written_as_that_slice() -> None:
    whole = pa.RecordBatch.from_pydict({"value": pa.array([b"%d" % n for n in range(9)]), "topic": ["x", "y", "x"] * 3})
    rows = sink_rows(schema(value=BinaryType(), topic=StringType()), None)
    assert written(rows, whole.slice(4, 3)) == [("y", [{"value": b"4"}]), ("x", [{"value": b"5"}, {"value": b"6"}])]


def test_no_rows_give_no_batches() -> None:
    assert written(sink_rows(schema(value=BinaryType()), "t")) == []


# --- headers as a map, times


def map_batch(values: list[Any], value_type: pa.DataType) -> pa.RecordBatch:
    headers = pa.array(values, pa.map_(pa.string(), value_type))
    return pa.RecordBatch.from_arrays([pa.array([b"v"] * len(values)), headers], names=["value", "headers"])


@pytest.mark.feature("sink.headersMap")
@pytest.mark.parametrize(
    ("spark_type", "arrow_type", "value"), [(BinaryType(), pa.binary(), b"1"), (StringType(), pa.string(), "1")]
)
def test_headers_may_be_a_map_whose_order_is_kept(spark_type: DataType, arrow_type: pa.DataType, value: object) -> None:
    batch = map_batch([[("z", value)], [("b", value), ("a", None)], None, []], arrow_type)
    rows = sink_rows(schema(value=BinaryType(), headers=MapType(StringType(), spark_type)), "t")
    ((_, records),) = parts(rows, batch.slice(1))
    expected = [[{"key": "b", "value": b"1"}, {"key": "a", "value": None}], None, []]
    assert records.column("headers").to_pylist() == expected


WITH_TIME = schema(value=BinaryType(), timestamp=TimestampType())


def time_batch(*micros: int | None, zone: str = "UTC") -> pa.RecordBatch:
    times = pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz=zone))
    return pa.RecordBatch.from_arrays([pa.array([b"v"] * len(micros)), times], names=["value", "timestamp"])


def times(rows: SinkRows, batch: pa.RecordBatch) -> list[int | None]:
    ((_, records),) = parts(rows, batch)
    found: list[int | None] = records.column("timestamp").cast(pa.int64()).to_pylist()
    return found


@pytest.mark.feature("sink.timestamp")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_timestamps_do_not_depend_on_the_session_time_zone(zone: str) -> None:
    rows = sink_rows(WITH_TIME, "t", include_timestamp=True)
    assert rows.columns == ("value", "timestamp")
    assert times(rows, time_batch(0, 1_700_000_000_123_456, None, zone=zone)) == [0, 1_700_000_000_123_456, None]


@pytest.mark.feature("sink.timestamp")
def test_timestamp_of_records_without_one_is_null() -> None:
    assert times(sink_rows(WITH_TIME, "t", include_timestamp=True), time_batch(-1000, 5000)) == [None, 5000]
    assert times(sink_rows(WITH_TIME, "t", include_timestamp=True), time_batch(-1000, None)) == [None, None]


@pytest.mark.feature("sink.timestamp")
@pytest.mark.parametrize(
    ("micros", "time"),
    [
        (-2_000_000, "1969-12-31 23:59:58 UTC"),
        (-(2**63), f"a time before the year 1, {-(2**63)} microseconds from 1970"),
    ],
)
def test_timestamps_before_1970_are_refused(micros: int, time: str) -> None:
    with pytest.raises(PlanError, match=f"{time}; Kafka has no times before 1970") as caught:
        times(sink_rows(WITH_TIME, "t", include_timestamp=True), time_batch(-1000, 7, micros))
    assert caught.value.code == "PYKAFKA_NEGATIVE_TIMESTAMP_IN_DATA"


@pytest.mark.feature("sink.timestamp")
def test_column_timestamp_needs_include_timestamp() -> None:
    assert sink_rows(schema(value=BinaryType(), timestamp=LongType()), "t").columns == ("value",)
