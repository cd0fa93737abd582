"""Arrow arrays as numpy arrays and back, by their buffers.

pyarrow's conversions (``to_numpy``, ``pa.array``, ``pa.scalar``, ``fill_null``, ``take`` with a numpy array) import
pandas where it is installed, and ``cast`` imports ``pyarrow.compute``. That takes a quarter of a second of a worker's
start.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafka_native._records.arrow.schema import I64, U8, Column

BOOL = npt.NDArray[np.bool_]

_INT64_MAX = 2**63 - 1


def has_offsets(kind: pa.DataType) -> bool:
    """Whether a type is binary or string, or their large forms, whose values are between two offsets."""
    return (
        pa.types.is_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_large_string(kind)
    )


def offsets(column: Column) -> I64:
    """Where the values of a binary, string or list array start and end: int64[n + 1]. May be read-only."""
    kind = column.type
    large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_large_list(kind)
    buffer = column.buffers()[1]
    if not len(column) or buffer is None:
        return np.zeros(1, np.int64)
    found = _view(buffer, np.int64 if large else np.int32, column.offset, len(column) + 1)
    return found.astype(np.int64, copy=False)


def byte_spans(column: Column) -> tuple[U8, I64, I64]:
    """The bytes of a binary or string array, and each value's start and length: uint8[b], int64[n], int64[n].

    The span of a null value has no meaning. Raises TypeError: another type.
    """
    if not has_offsets(column.type):
        raise TypeError(f"an array must be binary or string, not {column.type}")
    bounds = offsets(column)
    data = column.buffers()[2]
    return _view(data, np.uint8, 0, 0 if data is None else data.size), bounds[:-1], np.diff(bounds)


def integers(column: Column, *, missing: int) -> I64:
    """The values of an array of integers, timestamps or nulls, ``missing`` for null: int64[n]. May be read-only.

    Raises ValueError: a number that an int64 cannot hold.
    """
    if column.null_count == len(column):
        return np.full(len(column), missing, np.int64)
    kind = np.dtype(str(column.type)) if pa.types.is_integer(column.type) else np.dtype(np.int64)
    values = _view(column.buffers()[1], kind, column.offset, len(column))
    absent = nulls(column)
    if absent is not None:
        values = np.where(absent, kind.type(0), values)
    if kind == np.uint64 and len(values) and values.max() > _INT64_MAX:
        raise ValueError(f"{values.max()} is greater than the largest int64")
    found: I64 = values.astype(np.int64, copy=False)
    return found if absent is None else np.where(absent, missing, found)


def nulls(column: Column) -> BOOL | None:
    """Which values are null: bool[n]; None: none is."""
    if not column.null_count:
        return None
    bitmap = column.buffers()[0]
    if bitmap is None:
        return np.ones(len(column), np.bool_)  # an array of type null
    first = column.offset // 8
    bits = _view(bitmap, np.uint8, first, (column.offset + len(column) + 7) // 8 - first)
    start = column.offset - 8 * first
    absent: BOOL = np.unpackbits(bits, bitorder="little")[start : start + len(column)] == 0
    return absent


def validity(absent: BOOL | None) -> "pa.Buffer | None":
    """The bitmap of an array with nulls where ``absent``."""
    return None if absent is None else buffer_of(np.packbits(~absent, bitorder="little"))


def array_of(values: "npt.NDArray[Any]", arrow_type: pa.DataType) -> Column:
    """An Arrow array of numbers in contiguous memory, without a copy."""
    return pa.Array.from_buffers(arrow_type, len(values), [None, buffer_of(values)], null_count=0)


def buffer_of(values: "npt.NDArray[Any]") -> pa.Buffer:
    """The memory of numbers in contiguous memory, without a copy."""
    memory: Any = values  # the stubs do not know that it is a buffer
    return pa.py_buffer(memory)


def _view(buffer: "pa.Buffer | None", kind: Any, start: int, count: int) -> "npt.NDArray[Any]":
    if buffer is None or not count:
        return np.empty(0, kind)
    memory: Any = buffer  # the stubs do not know that it is a buffer
    return np.frombuffer(memory, kind, count, start * np.dtype(kind).itemsize)
