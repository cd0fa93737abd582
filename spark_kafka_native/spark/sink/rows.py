"""Rows of the sink: their columns, and large batches of one topic each from Spark's small batches.

=========  =========================================  ==========================================================
Column     Type                                       Meaning
=========  =========================================  ==========================================================
value      string or binary                           required; null is a tombstone
key        string or binary                           optional
topic      string                                     required unless the option ``topic`` is set, which wins
partition  int                                        optional; null leaves the choice to the partitioner
headers    array<struct<key:string,value:binary>> or  optional; null and empty are the same; the order of an array or
           map<string,string> or map<string,binary>   a map is kept
timestamp  timestamp                                  written only with ``includeTimestamp`` = true; null, and the
                                                      -1 ms that records without a time are read with, is the time
                                                      at which the row is written
=========  =========================================  ==========================================================

Names are matched exactly; other columns are not written.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from spark_kafka_native.spark.errors import PlanError
from spark_kafka_native.spark.gathering import gathered

ROWS_PER_SEND: Final = 50_000
"""Spark passes at most 10,000 rows at a time (spark.sql.execution.arrow.maxRecordsPerBatch); larger batches take less
time per row, unless the rows are large."""

_TEXT: Final = "a string or binary"
_TIME: Final = "a timestamp while option 'includeTimestamp' is true"
_HEADERS: Final = "an array<struct<key:string,value:binary>> or a map<string,string> or map<string,binary>"
_ARROW_TYPES: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_NO_TIMESTAMP_MICROS: Final = -1000
"""The timestamp of the source for a record without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRows:
    """The columns and the topic of a query's rows; frozen and pickled to the tasks."""

    columns: tuple[str, ...]
    """Columns that are written, in the order of the table above."""
    topic: str | None
    """Topic of every row; None: that in the column."""

    def by_topic(self, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, pa.RecordBatch]]:
        """Spark's batches -> large batches, the rows of each by topic, in order and without the column topic.

        Raises PlanError: a row has no topic, or a header has no name.
        """
        for rows in gathered((self._pick(batch) for batch in batches), ROWS_PER_SEND):
            if self.topic is not None:
                yield {self.topic: rows}
            else:
                yield _split_by_topic(rows)

    def _pick(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns to write, strings as binary; copies only headers that are a map."""
        wanted = {name: _ARROW_TYPES[name] for name in self.columns}
        arrays = [_as(arrow_type, batch.column(name)) for name, arrow_type in wanted.items()]
        if "timestamp" in wanted:
            at = list(wanted).index("timestamp")
            arrays[at] = _checked_times(arrays[at])
        picked = pa.RecordBatch.from_arrays(arrays, names=list(wanted))
        if "headers" in wanted:
            _check_header_names(picked)
        return picked


def sink_rows(schema: StructType, topic: str | None, *, include_timestamp: bool = False) -> SinkRows:
    """Validate a query's columns. Raises PlanError naming the column, before any task runs."""
    names = [column.name for column in schema.fields]
    types = {column.name: column.dataType for column in schema.fields}
    if "value" not in types:
        raise _bad_column(f"column 'value' is required, and must be {_TEXT}; {_columns_of(schema)}")
    if topic is None and "topic" not in types:
        raise _bad_column(
            f"set the option 'topic', or give rows a column 'topic' of type string; {_columns_of(schema)}"
        )
    used = ["value", *(name for name in ("key", "partition", "headers") if name in types)]
    if topic is None:
        used.append("topic")
    if include_timestamp and "timestamp" in types:
        used.append("timestamp")
    for name in used:
        if names.count(name) > 1:
            raise _bad_column(f"column '{name}' appears {names.count(name)} times; {_columns_of(schema)}")
        _check_type(name, types[name])
    return SinkRows(columns=tuple(name for name in _ARROW_TYPES if name in used), topic=topic)


def _columns_of(schema: StructType) -> str:
    columns = (f"{column.name} {column.dataType.simpleString().upper()}" for column in schema.fields)
    return f"the query's columns are {', '.join(columns)}"


def _check_type(name: str, given: DataType) -> None:
    match name:
        case "key" | "value":
            fits, wanted = isinstance(given, StringType | BinaryType), _TEXT
        case "topic":
            fits, wanted = isinstance(given, StringType), "a string"
        case "partition":
            fits, wanted = isinstance(given, IntegerType), "an int"
        case "timestamp":
            fits, wanted = isinstance(given, TimestampType), _TIME
        case _:
            fits, wanted = _are_headers(given), _HEADERS
    if not fits:
        raise _bad_column(f"column '{name}' must be {wanted}, not {given.simpleString().upper()}")


def _are_headers(given: DataType) -> bool:
    if isinstance(given, MapType):
        return isinstance(given.keyType, StringType) and isinstance(given.valueType, StringType | BinaryType)
    if not isinstance(given, ArrayType) or not isinstance(given.elementType, StructType):
        return False
    fields = given.elementType.fields
    return (
        [header.name for header in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )


def _bad_column(text: str) -> PlanError:
    return PlanError("PYKAFKA_SINK_SCHEMA", text)


def _as(arrow_type: pa.DataType, column: "pa.Array[Any]") -> "pa.Array[Any]":
    """A column as ``arrow_type``; text as its bytes, without validation."""
    is_text = arrow_type == pa.binary() and column.type == pa.string()
    found: pa.Array[Any] = column.view(arrow_type) if is_text else column.cast(arrow_type)
    return found


def _check_header_names(rows: pa.RecordBatch) -> None:
    names = pc.struct_field(pc.list_flatten(rows.column("headers")), "key")
    if names.null_count:
        raise PlanError("KAFKA_NULL_HEADER_KEY_IN_DATA", "column 'headers' has a header whose key is null")


def _checked_times(times: "pa.Array[Any]") -> "pa.Array[Any]":
    """Timestamps of records; null if a row has none."""
    micros: Any = times.cast(pa.int64())
    if (pc.min(micros).as_py() or 0) >= 0:
        return times
    micros = pc.if_else(
        pc.equal(micros, pa.scalar(_NO_TIMESTAMP_MICROS, pa.int64())), pa.scalar(None, pa.int64()), micros
    )
    if (pc.min(micros).as_py() or 0) < 0:
        earliest = pc.min(micros).cast(pa.timestamp("us")).as_py()
        raise PlanError(
            "PYKAFKA_NEGATIVE_TIMESTAMP_IN_DATA",
            f"column 'timestamp' has {earliest} UTC; Kafka has no times before 1970-01-01. Null means the time of "
            "writing",
        )
    checked: pa.Array[Any] = micros.cast(times.type)
    return checked


def _split_by_topic(rows: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    topics = rows.column("topic")
    if topics.null_count:
        raise PlanError(
            "KAFKA_NULL_TOPIC_IN_DATA",
            f"{topics.null_count} of {rows.num_rows} rows have a null topic; the option 'topic' sets one for all rows",
        )
    records = rows.drop_columns(["topic"])
    encoded = topics.dictionary_encode()
    names = [str(name) for name in encoded.dictionary.to_pylist()]
    if len(names) == 1:
        return {names[0]: records}
    codes = np.asarray(encoded.indices)
    sorted_records = records.take(np.argsort(codes, kind="stable"))
    ends = np.cumsum(np.bincount(codes, minlength=len(names))).tolist()
    ranges = zip(names, [0, *ends], ends, strict=False)
    return {name: sorted_records.slice(start, end - start) for name, start, end in ranges}
