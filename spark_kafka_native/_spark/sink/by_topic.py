"""Spark's batches -> large batches of one topic each, with the columns that the producer takes."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_kafka_native._protocol.errors import counted
from spark_kafka_native._records.arrow.views import array_of, buffer_of, integers, nulls, validity
from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.gathering import gathered
from spark_kafka_native._spark.sink.rows import SinkRows

ROWS_PER_SEND: Final = 50_000
"""Spark passes at most 10,000 rows at a time (spark.sql.execution.arrow.maxRecordsPerBatch); larger batches take less
time per row, unless the rows are large."""

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


def by_topic(rows: SinkRows, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, pa.RecordBatch]]:
    """Spark's batches -> large batches, the rows of each by topic, in order and without the column topic.

    Raises PlanError: a row has no topic, a header has no name, or a timestamp is before 1970.
    """
    for large in gathered((_pick(rows.columns, batch) for batch in batches), ROWS_PER_SEND):
        if rows.topic is not None:
            yield {rows.topic: large}
        else:
            yield _split_by_topic(large)


def _pick(columns: Iterable[str], batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns to write, strings as binary; copies only headers that are a map."""
    wanted = {name: _ARROW_TYPES[name] for name in columns}
    arrays = [_as(arrow_type, batch.column(name)) for name, arrow_type in wanted.items()]
    if "timestamp" in wanted:
        at = list(wanted).index("timestamp")
        arrays[at] = _checked_times(arrays[at])
    picked = pa.RecordBatch.from_arrays(arrays, names=list(wanted))
    if "headers" in wanted:
        _check_header_names(picked)
    return picked


def _as(arrow_type: pa.DataType, column: "pa.Array[Any]") -> "pa.Array[Any]":
    """A column as ``arrow_type``; text as its bytes, without validation."""
    if column.type.equals(arrow_type):
        return column
    is_text = arrow_type == pa.binary() and column.type == pa.string()
    found: pa.Array[Any] = column.view(arrow_type) if is_text else column.cast(arrow_type)
    return found


def _check_header_names(rows: pa.RecordBatch) -> None:
    headers: Any = rows.column("headers")
    if headers.flatten().flatten()[0].null_count:
        raise PlanError("KAFKA_NULL_HEADER_KEY_IN_DATA", "column 'headers' has a header whose key is null")


def _checked_times(times: "pa.Array[Any]") -> "pa.Array[Any]":
    """Timestamps of records; null if a row has none."""
    micros = integers(times, missing=0)
    if not len(micros) or micros.min() >= 0:
        return times
    absent = micros == _NO_TIMESTAMP_MICROS
    earliest = int(micros.min(where=~absent, initial=0))
    if earliest < 0:
        raise PlanError(
            "PYKAFKA_NEGATIVE_TIMESTAMP_IN_DATA",
            f"column 'timestamp' has {_utc(earliest)}; Kafka has no times before 1970-01-01. "
            "Null means the time of writing",
        )
    missing = nulls(times)
    return pa.Array.from_buffers(
        times.type, len(times), [validity(absent if missing is None else absent | missing), buffer_of(micros)]
    )


def _utc(micros: int) -> str:
    try:
        return f"{datetime(1970, 1, 1) + timedelta(microseconds=micros)} UTC"
    except OverflowError:
        return f"a time before the year 1, {micros} microseconds from 1970"


def _split_by_topic(rows: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    topics = rows.column("topic")
    if topics.null_count:
        raise PlanError(
            "KAFKA_NULL_TOPIC_IN_DATA",
            f"column 'topic' is null in {topics.null_count} of {counted(rows.num_rows, 'row')}; "
            "the option 'topic' sets one for all rows",
        )
    records = rows.drop_columns(["topic"])
    encoded = topics.dictionary_encode()
    names = [str(name) for name in encoded.dictionary.to_pylist()]
    if len(names) == 1:
        return {names[0]: records}
    codes = integers(encoded.indices, missing=0)  # none is null
    sorted_records = records.take(array_of(np.argsort(codes, kind="stable"), pa.int64()))
    ends = np.cumsum(np.bincount(codes, minlength=len(names))).tolist()
    ranges = zip(names, [0, *ends], ends, strict=False)
    return {name: sorted_records.slice(start, end - start) for name, start, end in ranges}
