"""Record headers as one Arrow column: ``list<struct<key: string, value: binary>>``, null where a record has none."""

from typing import Any

import numpy as np
import pyarrow as pa

from spark_kafka_native.records.arrow.fields import Fields
from spark_kafka_native.records.arrow.spans import gather
from spark_kafka_native.records.arrow.utf8 import REPLACE, decode_utf8
from spark_kafka_native.records.arrow.varint import I32, I64, U8, read_varints, require
from spark_kafka_native.records.errors import BadRecord
from spark_kafka_native.records.record import read_varint

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))

_NULL_KEY = "a header without a key"
_BAD_LENGTH = "a header's value has an impossible length"
_WRONG_END = "its headers do not end where it ends"
_FEW_RECORDS = 8  # that have so many headers are not worth a numpy pass for each further header


def read_headers(data: U8, payload: pa.Buffer, fields: Fields) -> "pa.Array[Any]":
    """The headers of every record of ``fields``; ``payload`` is the Arrow view of ``data``.

    A key that is not UTF-8 is repaired as Java does. Raises BadRecord: a length beyond the record, a null key, bytes
    left after the last header.
    """
    counts = fields.headers_counts
    if not counts.any():
        return pa.nulls(len(counts), HEADERS)
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    key_starts, key_lengths, value_starts, value_lengths = _read_spans(data, fields, offsets, int(offsets[-1]))
    keys = gather(payload, key_starts, key_lengths)
    values = pa.StructArray.from_arrays(
        [decode_utf8(keys, REPLACE), gather(payload, value_starts, value_lengths)], fields=list(HEADER)
    )
    starts = pa.array(offsets, pa.int32())
    return pa.ListArray.from_arrays(starts, values, type=HEADERS, mask=pa.array(counts == 0))


def _read_spans(data: U8, fields: Fields, slots: I64, total: int) -> I32:
    """int32[4, total]: key starts, key lengths, value starts, value lengths; a record's first header at its slot.

    int32, as positions in a payload are: a header may have taken only two bytes of it.
    """
    spans = np.empty((4, total), dtype=np.int32)
    rows = np.flatnonzero(fields.headers_counts)
    position = fields.headers_starts[rows]
    index = 0
    while len(rows) > _FEW_RECORDS:
        position = _read_one_each(data, position, rows, spans, slots[rows] + index)
        index += 1
        last = fields.headers_counts[rows] == index
        wrong = position[last] != fields.ends[rows[last]]
        if wrong.any():
            raise BadRecord(int(rows[last][wrong.argmax()]), _WRONG_END)
        rows, position = rows[~last], position[~last]
    for row, start in zip(rows.tolist(), position.tolist(), strict=True):
        _read_rest(data.data, fields, row, start, spans[:, int(slots[row]) + index : int(slots[row + 1])])
    return spans


def _read_one_each(data: U8, position: I64, rows: I64, spans: I32, slots: I64) -> I64:
    """Read the next header of each of ``rows`` at ``position`` into ``slots``; returns the positions behind them."""
    try:
        key_lengths, key_starts = read_varints(data, position)
        require(key_lengths >= 0, _NULL_KEY)
        value_lengths, value_starts = read_varints(data, key_starts + key_lengths)
        require(value_lengths >= -1, _BAD_LENGTH)
    except BadRecord as error:
        raise BadRecord(int(rows[error.index]), error.detail) from None
    for column, found in zip(spans, (key_starts, key_lengths, value_starts, value_lengths), strict=True):
        column[slots] = found
    return value_starts + np.maximum(value_lengths, 0)


def _read_rest(view: memoryview, fields: Fields, row: int, position: int, spans: I32) -> None:
    """Read all headers of one record from ``position`` on into ``spans``: int32[4, n], in plain ints."""
    end = int(fields.ends[row])
    key_starts, key_lengths, value_starts, value_lengths = (memoryview(span) for span in spans)
    for index in range(spans.shape[1]):
        key_length, key_start = read_varint(view, position, end, row)
        if key_length < 0:
            raise BadRecord(row, _NULL_KEY)
        value_length, value_start = read_varint(view, key_start + key_length, end, row)
        if value_length < -1:
            raise BadRecord(row, _BAD_LENGTH)
        key_starts[index], key_lengths[index] = key_start, key_length
        value_starts[index], value_lengths[index] = value_start, value_length
        position = value_start + max(value_length, 0)
    if position != end:
        raise BadRecord(row, _WRONG_END)
