"""From fetched records of one partition to the batches for Spark."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.schema import I64
from spark_kafka_native._records.arrow.utf8 import NotUtf8, decode_utf8
from spark_kafka_native._records.arrow.views import array_of, buffer_of, integers
from spark_kafka_native._spark.errors import TaskError
from spark_kafka_native._spark.source.layout import CONSTANT, RECORD_FIELD, Layout, SourceColumn

_MICROS_PER_MS: Final = 1000
MAX_TIMESTAMP_MS: Final = (2**63 - 1) // _MICROS_PER_MS
"""The largest timestamp in microseconds in an int64."""

Convert = Callable[["pa.Array[Any]"], "pa.Array[Any]"]
"""Converts header values, a binary column, to the type of the schema."""


@dataclass(slots=True, kw_only=True)
class RowShaper:
    """Converts decoded records of one partition to batches of a layout, for one task."""

    layout: Layout
    partition: TopicPartition
    _schema: pa.Schema = field(init=False)
    _constants: "dict[str, pa.Array[Any]]" = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._schema = self.layout.arrow_schema

    def shape(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Records with the columns ``layout.record_fields`` -> the batch for Spark, mostly without copies.

        Raises TaskError: text is not UTF-8 and option ``invalidUtf8`` is ``fail``; a timestamp is out of range.
        """
        arrays = [self._column(column, records) for column in self.layout.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, column: SourceColumn, records: pa.RecordBatch) -> "pa.Array[Any]":
        if column.source in CONSTANT:
            return self._constant(column, records.num_rows)
        array = records.column(RECORD_FIELD.get(column.source, column.source))
        if array.type.equals(column.arrow_type):
            return array
        match column.source:
            case "timestamp":
                return self._times(column, array, records)
            case "headers":
                return self._headers(column, array, records)
            case _:
                return self._text(column, array, records)

    def _times(self, column: SourceColumn, times: "pa.Array[Any]", records: pa.RecordBatch) -> "pa.Array[Any]":
        """Milliseconds as bigint, or as Spark's timestamp in microseconds, which has a smaller range."""
        if pa.types.is_int64(column.arrow_type):
            return times.view(pa.int64())
        in_ms = integers(times, missing=0)  # no time is null
        if len(in_ms) and (in_ms.max() > MAX_TIMESTAMP_MS or in_ms.min() < -MAX_TIMESTAMP_MS):
            row = int(np.flatnonzero((in_ms > MAX_TIMESTAMP_MS) | (in_ms < -MAX_TIMESTAMP_MS))[0])
            offset = records.column("offset")[row].as_py()
            raise TaskError(
                f"{self.partition}: the record at offset {offset} has the timestamp {in_ms[row]} ms, which column "
                f"'{column.name}' of type timestamp cannot hold; a schema with the column as bigint reads milliseconds"
            )
        return array_of(in_ms * _MICROS_PER_MS, column.arrow_type)

    def _text(self, column: SourceColumn, array: "pa.Array[Any]", records: pa.RecordBatch) -> "pa.Array[Any]":
        try:
            return decode_utf8(array, self.layout.invalid_utf8)
        except NotUtf8 as error:
            raise self._not_utf8(column, records, error.row) from None

    def _headers(self, column: SourceColumn, array: "pa.Array[Any]", records: pa.RecordBatch) -> "pa.Array[Any]":
        def convert(values: "pa.Array[Any]") -> "pa.Array[Any]":
            return decode_utf8(values, self.layout.invalid_utf8) if column.has_text_values else values

        try:
            return shape_headers(array, column.arrow_type, convert)
        except NotUtf8 as error:
            # Only the last header of each key was converted for a map, so the row is searched here.
            row = next(row for row in range(len(array)) if not _has_text_headers(array[row].as_py()))
            raise self._not_utf8(column, records, row) from error

    def _not_utf8(self, column: SourceColumn, records: pa.RecordBatch, row: int) -> TaskError:
        offset = records.column("offset")[row].as_py()
        return TaskError(
            f"{self.partition}: column '{column.name}' of the record at offset {offset} is not UTF-8. Option "
            "'invalidUtf8' set to replace, null or keep continues; a schema with the column as binary reads the bytes"
        )

    def _constant(self, column: SourceColumn, length: int) -> "pa.Array[Any]":
        """One value, ``length`` times; a slice of the array for the longest batch so far."""
        known = self._constants.get(column.source)
        if known is None or len(known) < length:
            if column.source == "topic":
                known = _repeated_text(self.partition.topic, length)
            else:
                known = array_of(np.full(length, self.partition.partition, np.int32), column.arrow_type)
            self._constants[column.source] = known
        return known.slice(0, length)


def _repeated_text(text: str, length: int) -> "pa.Array[Any]":
    """An array of ``text``, which is not empty, ``length`` times."""
    value = text.encode()
    offsets = np.arange(length + 1, dtype=np.int32) * np.int32(len(value))
    buffers = [None, buffer_of(offsets), pa.py_buffer(value * length)]
    return pa.Array.from_buffers(pa.string(), length, buffers, null_count=0)


def _has_text_headers(headers: list[dict[str, Any]] | None) -> bool:
    for header in headers or ():
        try:
            (header["value"] or b"").decode()
        except UnicodeDecodeError:
            return False
    return True


def shape_headers(headers: "pa.Array[Any]", arrow_type: pa.DataType, convert: Convert) -> "pa.Array[Any]":
    """``list<struct<key: string, value: binary>>`` as ``arrow_type``, a list or a map with string keys.

    A record without headers is null. A map has the last header of each key, as ``Headers.lastHeader`` in Kafka.
    """
    lists: Any = headers
    offsets: I64 = np.asarray(lists.offsets, dtype=np.int64)
    pairs = lists.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    offsets = offsets - offsets[0]
    keys, values = pairs.field(0), pairs.field(1)
    missing = lists.is_null()
    wanted: Any = arrow_type
    shaped: pa.Array[Any]
    make_map: Any = pa.MapArray.from_arrays
    if pa.types.is_map(arrow_type):
        last = _last_of_each_key(keys, offsets)
        if last is not None:
            keys, values = keys.take(pa.array(last)), values.take(pa.array(last))
            offsets = np.searchsorted(last, offsets)
        # The mask has one more element, for the offset after the last row.
        starts = pa.array(offsets, pa.int32(), mask=np.append(np.asarray(missing), False))
        shaped = make_map(starts, keys, convert(values), type=wanted)
        return shaped
    struct = pa.StructArray.from_arrays([keys, convert(values)], fields=list(wanted.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), struct, type=wanted, mask=missing)


def _last_of_each_key(keys: Any, offsets: I64) -> I64 | None:
    """Indexes of the last header of each key in each record, ascending; None: all headers."""
    if not len(keys):
        return None
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    codes = np.asarray(keys.dictionary_encode().indices, dtype=np.int64)
    marks = rows * (int(codes.max()) + 1) + codes
    # np.unique returns the first index of each mark; in the reversed array that is the last one.
    _, indexes = np.unique(marks[::-1], return_index=True)
    if len(indexes) == len(marks):
        return None
    last: I64 = np.sort(len(marks) - 1 - indexes)
    return last
