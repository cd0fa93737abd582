"""Reads and validates the columns that a user wants to write."""

from typing import Any, cast

import numpy as np
import pyarrow as pa

from spark_kafka_native._records.arrow.columns import Columns, Headers, Spans
from spark_kafka_native._records.arrow.schema import I64, Column
from spark_kafka_native._records.arrow.views import buffer_of, has_offsets, integers, nulls, offsets, validity

COLUMNS = ("key", "value", "headers", "timestamp")

_MS_PER_UNIT = {"s": 1000, "ms": 1}
_UNITS_PER_MS = {"us": 1000, "ns": 1_000_000}
_INT64_MAX = 2**63 - 1


def read_columns(records: pa.RecordBatch, default_timestamp_ms: int) -> Columns:
    """The columns of ``records``, any of which may be missing; a row without timestamp gets the default.

    Raises ValueError: an unknown column, a type that cannot be sent, a header without a key (naming the row), a time
    that milliseconds in an int64 cannot hold.
    """
    if unknown := [name for name in records.schema.names if name not in COLUMNS]:
        raise ValueError(f"no record has a column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    if len(set(records.schema.names)) < len(records.schema.names):
        raise ValueError(f"a column appears twice: {', '.join(records.schema.names)}")
    found = {name: records.column(name) for name in records.schema.names}
    return Columns(
        keys=_bytes_column("key", found.get("key")),
        values=_bytes_column("value", found.get("value")),
        headers=_headers(found.get("headers")),
        timestamps=_timestamps(found.get("timestamp"), records.num_rows, default_timestamp_ms),
    )


def _bytes_column(name: str, column: "Column | None") -> Spans | None:
    if column is None or column.null_count == len(column):
        return None
    return _spans(name, column)


def _spans(name: str, column: Column) -> Spans:
    kind = column.type
    is_view = pa.types.is_binary_view(kind) or pa.types.is_string_view(kind)
    if not (has_offsets(kind) or is_view or pa.types.is_fixed_size_binary(kind)):
        raise ValueError(f"column {name!r} must be binary or string, it is {kind}")
    if not has_offsets(kind):
        column = column.cast(pa.large_binary())
    bounds, absent = offsets(column), nulls(column)
    lengths = np.diff(bounds)
    if absent is not None:
        lengths[absent] = -1
    buffers = [validity(absent), buffer_of(bounds), column.buffers()[2]]
    return Spans(cast("pa.LargeBinaryArray", pa.Array.from_buffers(pa.large_binary(), len(column), buffers)), lengths)


def _headers(column: "Column | None") -> Headers | None:
    """Headers as list<struct<key, value>> or map<key, value>, null and empty ones being none."""
    if column is None or column.null_count == len(column):
        return None
    if pa.types.is_map(column.type):
        column = column.cast(pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])))
    if not _is_headers(column.type):
        raise ValueError(
            "column 'headers' must be list<struct<key: string, value: binary>> or map<string, binary>, "
            f"it is {column.type}"
        )
    counts, absent = np.diff(offsets(column)), nulls(column)
    if absent is not None:
        counts[absent] = 0
    lists: Any = column  # the stubs do not know it for a list of unknown type
    entries = lists.flatten()
    if len(entries) == 0:
        return None
    fields = dict(zip((field.name for field in entries.type), entries.flatten(), strict=True))
    headers = Headers(
        counts=counts,
        keys=_spans("headers.key", fields["key"]),
        values=_spans("headers.value", fields["value"]),
    )
    nameless = headers.keys.lengths < 0
    if nameless.any():
        row = int(np.cumsum(counts).searchsorted(nameless.argmax(), side="right"))
        raise ValueError(f"row {row} has a header whose key is null")
    return headers


def _is_headers(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    name = fields.get("key", pa.null())
    is_string = pa.types.is_string(name) or pa.types.is_large_string(name) or pa.types.is_string_view(name)
    return set(fields) == {"key", "value"} and is_string


def _timestamps(column: "Column | None", rows: int, default_timestamp_ms: int) -> I64:
    if column is None:
        return np.full(rows, default_timestamp_ms, dtype=np.int64)
    if pa.types.is_timestamp(column.type):
        times = integers(column, missing=0)
        unit = column.type.unit
        if unit in _UNITS_PER_MS:
            times = times // _UNITS_PER_MS[unit]
        elif rows and max(abs(int(times.min())), abs(int(times.max()))) > _INT64_MAX // _MS_PER_UNIT[unit]:
            raise ValueError("column 'timestamp' has a time that milliseconds in an int64 cannot hold")
        else:
            times = times * _MS_PER_UNIT[unit]
    elif pa.types.is_integer(column.type):
        times = integers(column, missing=0)
    else:
        raise ValueError(f"column 'timestamp' must be a timestamp or integer milliseconds, it is {column.type}")
    absent = nulls(column)
    return times if absent is None else np.where(absent, default_timestamp_ms, times)
