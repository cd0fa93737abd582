"""A user's columns as the encoders take them: spans of bytes, counts, milliseconds."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_native.records.arrow.schema import I64, Column

COLUMNS = ("key", "value", "headers", "timestamp")

_MS_PER_UNIT = {"s": 1000, "ms": 1}
_UNITS_PER_MS = {"us": 1000, "ns": 1_000_000}
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Spans:
    """A column of byte strings: ``content`` is large_binary, ``lengths`` int64[n] with -1 for null."""

    content: pa.LargeBinaryArray
    lengths: I64

    @property
    def sizes(self) -> I64:
        """Bytes of each, int64[n]; a null has none."""
        return np.maximum(self.lengths, 0)


@dataclass(frozen=True, slots=True)
class Headers:
    """All headers of all records, in order; ``counts``: int64[n] is how many each record has."""

    counts: I64
    keys: Spans
    values: Spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The records to encode. None for a column that is null throughout; ``timestamps``: int64[n] in ms."""

    keys: Spans | None
    values: Spans | None
    headers: Headers | None
    timestamps: I64


@dataclass(frozen=True, slots=True)
class Payload:
    """The records' bytes, with space for a header before each batch, and where each record begins.

    ``begins`` is int64[n + 1]; the last one is the end.

    ``data`` may be read-only.
    """

    data: memoryview
    begins: I64


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
    is_bytes = pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_fixed_size_binary(kind)
    is_large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not (is_bytes or is_large or pa.types.is_binary_view(kind) or pa.types.is_string_view(kind)):
        raise ValueError(f"column {name!r} must be binary or string, it is {kind}")
    content = cast("pa.LargeBinaryArray", column.cast(pa.large_binary()))
    return Spans(content, _ints(pc.binary_length(content), missing=-1))


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
    lists: Any = column  # the stubs know neither of the two for a list of unknown type
    counts = _ints(pc.list_value_length(lists), missing=0)
    entries = lists.flatten()
    if len(entries) == 0:
        return None
    headers = Headers(
        counts=counts,
        keys=_spans("headers.key", pc.struct_field(entries, "key")),
        values=_spans("headers.value", pc.struct_field(entries, "value")),
    )
    nulls = headers.keys.lengths < 0
    if nulls.any():
        row = int(np.cumsum(counts).searchsorted(nulls.argmax(), side="right"))
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
        times = _ints(column.cast(pa.int64()), missing=0)
        unit = column.type.unit
        if unit in _UNITS_PER_MS:
            times = times // _UNITS_PER_MS[unit]
        elif rows and max(abs(int(times.min())), abs(int(times.max()))) > _INT64_MAX // _MS_PER_UNIT[unit]:
            raise ValueError("column 'timestamp' has a time that milliseconds in an int64 cannot hold")
        else:
            times = times * _MS_PER_UNIT[unit]
    elif pa.types.is_integer(column.type):
        times = _ints(column.cast(pa.int64()), missing=0)
    else:
        raise ValueError(f"column 'timestamp' must be a timestamp or integer milliseconds, it is {column.type}")
    if column.null_count:
        times = np.where(column.is_null().to_numpy(zero_copy_only=False), default_timestamp_ms, times)
    return times


def _ints(column: Column, missing: int) -> I64:
    filled = column.fill_null(missing) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)
