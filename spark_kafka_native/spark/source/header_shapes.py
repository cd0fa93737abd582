"""The headers of records as an array of key and value, or as a map, whichever a user schema has.

Kafka allows several headers with the same key. An array has all of them in order; a map has the last one, as
``Headers.lastHeader`` in Kafka.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from spark_kafka_native.records.arrow.schema import I64

Convert = Callable[["pa.Array[Any]"], "pa.Array[Any]"]
"""Converts header values, a binary column, to the type of the schema."""


def shape_headers(headers: "pa.Array[Any]", arrow_type: pa.DataType, convert: Convert) -> "pa.Array[Any]":
    """``list<struct<key: string, value: binary>>`` as ``arrow_type``, a list or a map with string keys.

    A record without headers is null.
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
        starts = pa.array(offsets, pa.int32(), mask=_without_end(missing))
        shaped = make_map(starts, keys, convert(values), type=wanted)
        return shaped
    struct = pa.StructArray.from_arrays([keys, convert(values)], fields=list(wanted.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), struct, type=wanted, mask=missing)


def _without_end(missing: Any) -> Any:
    """The null rows, with one more element for the offset after the last row."""
    return np.append(np.asarray(missing), False)


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
