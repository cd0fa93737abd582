"""Types of the numpy arrays and Arrow columns here, and record batches of some of the columns."""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I64: TypeAlias = npt.NDArray[np.int64]
U8: TypeAlias = npt.NDArray[np.uint8]
Column: TypeAlias = "pa.Array[Any]"

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))
"""A record's headers; null where it has none."""
TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
    "timestamp_type": pa.int32(),
    "headers": HEADERS,
}
RECORD_FIELDS = pa.schema(TYPES)
"""Every column ``decode`` can build."""
ALL: tuple[str, ...] = tuple(TYPES)


@cache
def schema_of(names: tuple[str, ...]) -> pa.Schema:
    """The schema of record batches of these columns, of which there are as many as users' choices."""
    return pa.schema([RECORD_FIELDS.field(name) for name in names])


def record_batch(columns: Sequence[Column], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Like ``RecordBatch.from_arrays``, which has no rows where there are no columns."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(cast("pa.StructArray", pa.Array.from_buffers(pa.struct([]), rows, [None])))
