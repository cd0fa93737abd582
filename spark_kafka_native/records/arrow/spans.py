"""Columns cut out of a payload: spans of bytes, copied once, in C."""

from typing import cast

import numpy as np
import pyarrow as pa

from spark_kafka_native.records.arrow.varint import I32, I64

MAX_PAYLOAD_BYTES = 2**31 - 1
"""Positions in a payload are int32 offsets of an Arrow array while spans are gathered."""


def gather(payload: pa.Buffer, starts: I64 | I32, lengths: I64 | I32) -> pa.BinaryArray:
    """Copy spans of ``payload`` into one array. ``starts``, ``lengths``: ints[n]; a length of -1 is null.

    Starts and ends, interleaved, are the offsets of 2n - 1 slots: the even ones are the spans, the odd ones the gaps
    between. So spans must ascend without overlap, as those of records do, and lie within MAX_PAYLOAD_BYTES.
    """
    count = len(starts)
    if count == 0:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count, dtype=np.int32)
    offsets[0::2] = starts
    nulls = lengths < 0
    if nulls.any():
        offsets[1::2] = starts + np.maximum(lengths, 0)
        wanted = pa.array(np.arange(0, 2 * count, 2), pa.int64(), mask=nulls)
    else:
        offsets[1::2] = starts + lengths
        wanted = pa.array(np.arange(0, 2 * count, 2), pa.int64())
    slots = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets.data), payload])
    return cast("pa.BinaryArray", slots.take(wanted))
