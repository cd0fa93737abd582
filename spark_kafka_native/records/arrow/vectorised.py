"""Records of format v2, and of the old formats, to Arrow in numpy and pyarrow: a pass over all records for each step.

The walk over lengths (``walk``), the fields (``fields``), and of these the columns that were asked for. Only as far as
the fields have messages of the old formats v0 and v1 a way of their own (``legacy_walk``). This is what decides which
bytes are records, and the one that says what is wrong with others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafka_native.records.arrow.fields import Fields, read_fields
from spark_kafka_native.records.arrow.headers import read_headers
from spark_kafka_native.records.arrow.legacy_walk import Messages, message_spans, read_message_fields
from spark_kafka_native.records.arrow.schema import RECORD_FIELDS, Column, record_batch
from spark_kafka_native.records.arrow.scratch import Scratch
from spark_kafka_native.records.arrow.selected import Columns, Limits, Part
from spark_kafka_native.records.arrow.spans import gather
from spark_kafka_native.records.arrow.varint import I64, U8, require
from spark_kafka_native.records.arrow.walk import Region, walk
from spark_kafka_native.records.batch import TimestampType
from spark_kafka_native.records.errors import BadRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The wanted records of all batches, which are rows ``first`` and following of those that were walked.

    ``counts``: how many are from each of ``batches``, int64[len(batches)]. ``offsets``: int64[n].
    """

    data: U8
    fields: Fields
    offsets: I64
    first: int
    batches: Columns
    counts: I64

    def spread(self, values: I64) -> I64:
        """A value for each batch to one for each record, int64[n]."""
        return np.repeat(values, self.counts)


def read_batches(view: memoryview, memory: Scratch, part: Part, limits: Limits, schema: pa.Schema) -> pa.RecordBatch:
    """The wanted records of a ``part``.

    Raises BadRecord: anything no writer would write; its index counts the records of the whole part.
    """
    batches = part.columns()
    data, regions = _lay_out(view, memory, batches)
    if part.is_old:
        fields = _message_fields(data, regions, batches, part.messages)
    else:
        fields = read_fields(data, walk(data, regions))
    rows = _trim(data, fields, batches, limits)
    try:
        return record_batch([_COLUMNS[name](rows) for name in schema.names], schema, len(rows.offsets))
    except BadRecord as error:
        raise BadRecord(rows.first + error.index, error.detail) from None


def _lay_out(view: memoryview, memory: Scratch, batches: Columns) -> tuple[U8, list[Region]]:
    """One stretch of bytes that has all payloads in it, and where."""
    starts, ends = batches.start, batches.start + batches.length
    if not batches.is_in_scratch.any():
        data = np.frombuffer(view[starts[0] : ends[-1]], dtype=np.uint8)
        starts = starts - starts[0]
    elif batches.is_in_scratch.all():
        data = memory.data
    else:
        sources = (view, memory.data.data)
        spans = zip(batches.is_in_scratch.tolist(), starts.tolist(), ends.tolist(), strict=True)
        data = np.frombuffer(b"".join(sources[source][start:end] for source, start, end in spans), dtype=np.uint8)
        starts = np.cumsum(batches.length) - batches.length
    rows = np.cumsum(batches.records) - batches.records
    places = zip(*(column.tolist() for column in (rows, starts, starts + batches.length, batches.records)), strict=True)
    return data, [Region(*place) for place in places]


def _message_fields(data: U8, regions: list[Region], batches: Columns, messages: Sequence[Messages]) -> Fields:
    spans = [(region.start, region.end) for region in regions]
    return read_message_fields(
        data,
        *message_spans(messages, spans),
        magics=np.repeat(batches.time_type != TimestampType.NO_TIMESTAMP_TYPE, batches.records).astype(np.int64),
        offset_deltas=np.concatenate(
            [np.array(group.offsets, dtype=np.int64) - group.offsets[0] for group in messages]
        ),
    )


def _trim(data: U8, fields: Fields, batches: Columns, limits: Limits) -> _Rows:
    """Records from ``from_offset`` until ``until_offset``. Raises BadRecord: offsets that do not ascend."""
    counts = batches.records
    ends = np.cumsum(counts)
    offsets = _offsets(fields, batches, ends - counts)
    first, end = offsets.searchsorted([limits.from_offset, limits.until_offset]).tolist()
    return _Rows(
        data=data,
        fields=fields.rows(first, end),
        offsets=offsets[first:end],
        first=first,
        batches=batches,
        counts=ends.clip(first, end) - (ends - counts).clip(first, end),
    )


def _offsets(fields: Fields, batches: Columns, firsts: I64) -> I64:
    deltas = fields.offset_deltas
    ascending = np.empty(len(deltas), dtype=np.bool_)
    ascending[1:] = deltas[1:] > deltas[:-1]
    ascending[firsts] = deltas[firsts] >= 0
    require(ascending, "its offset is not behind the one before it")
    lasts = firsts + batches.records - 1
    within = deltas[lasts] <= batches.last_offset_delta
    if not within.all():
        raise BadRecord(int(lasts[within.argmin()]), "its offset is behind the last one of the batch")
    return np.repeat(batches.base_offset, batches.records) + deltas


def _keys(rows: _Rows) -> Column:
    return gather(pa.py_buffer(rows.data.data), rows.fields.key_starts, rows.fields.key_lengths)


def _values(rows: _Rows) -> Column:
    return gather(pa.py_buffer(rows.data.data), rows.fields.value_starts, rows.fields.value_lengths)


def _headers(rows: _Rows) -> Column:
    return read_headers(rows.data, pa.py_buffer(rows.data.data), rows.fields)


def _offset_column(rows: _Rows) -> Column:
    return _without_copy(pa.int64(), rows.offsets)


def _timestamp_types(rows: _Rows) -> Column:
    return _without_copy(pa.int32(), rows.spread(rows.batches.time_type).astype(np.int32))


def _timestamps(rows: _Rows) -> Column:
    """Milliseconds. Sums wrap around, as Java's do, and so did the differences that the writer made."""
    deltas = rows.fields.timestamp_deltas
    by_broker = rows.batches.time_type == TimestampType.LOG_APPEND_TIME
    if by_broker.any():
        deltas = np.where(np.repeat(by_broker, rows.counts), 0, deltas)
    return _without_copy(RECORD_FIELDS.field("timestamp").type, rows.spread(rows.batches.base_time) + deltas)


def _without_copy(data_type: pa.DataType, values: npt.NDArray[Any]) -> Column:
    """``values`` as an Arrow array of the same width, sharing their memory."""
    return pa.Array.from_buffers(data_type, len(values), [None, pa.py_buffer(values.data)])


_COLUMNS: dict[str, Callable[[_Rows], Column]] = {
    "key": _keys,
    "value": _values,
    "offset": _offset_column,
    "timestamp": _timestamps,
    "timestamp_type": _timestamp_types,
    "headers": _headers,
}
