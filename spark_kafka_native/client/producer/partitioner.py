"""Which partition a record goes to: exactly as Kafka's Java producer decides it.

A record with a key goes where murmur2 of the key says, so every producer of a topic must compute the same number.
Records without a key stick to one partition until a batch is full and then move on (KIP-480, KIP-794).
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafka_native.records.arrow import kernel

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes | memoryview) -> int:
    """The 32-bit murmur2 hash of ``data``, signed as in Java."""
    length = len(data)
    h = _SEED ^ length
    tail = length & ~3
    for at in range(0, tail, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> _R) * _M & _MASK
        h = h * _M & _MASK ^ k
    if tail < length:
        h = (h ^ int.from_bytes(data[tail:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def murmur2_column(keys: "pa.Array[Any]") -> I32:
    """murmur2 of every key of a binary, string or large_* array: int32[n]. What a null row gets means nothing."""
    data, starts, lengths = spans_of(keys)
    if (compiled := kernel.murmur2(data, starts, lengths)) is not None:
        return compiled
    spans = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
    return np.array([murmur2(data[start:end].tobytes()) for start, end in spans], np.int32)


class StickyPartitioner:
    """Spreads records without keys: as many as fit into a batch to one partition, then the same to the next."""

    def __init__(self, batch_bytes: int, first: int) -> None:
        """``batch_bytes``: of the records of a batch. ``first`` is the turn to begin with; producers should differ."""
        self._batch_bytes = batch_bytes
        self._turn = first
        self._filled = 0

    def assign(self, sizes: I64, available: Sequence[int]) -> I32:
        """Partitions for records of these sizes in bytes, in order: int32[n], each out of ``available``.

        A record that is larger than a batch has a turn of its own.
        """
        rows = len(sizes)
        chosen = np.empty(rows, np.int32)
        ends = np.cumsum(sizes)
        first = before = 0
        while first < rows:
            end = int(ends.searchsorted(before + self._batch_bytes - self._filled, side="right"))
            if end == first and not self._filled:
                end += 1
            chosen[first:end] = available[self._turn % len(available)]
            if end == rows:
                self._filled += int(ends[-1]) - before
                break
            self._turn, self._filled = self._turn + 1, 0
            first, before = end, int(ends[end - 1]) if end else 0
        return chosen


def spans_of(keys: "pa.Array[Any]") -> tuple[npt.NDArray[np.uint8], I64, I64]:
    """An array's bytes, and where each value starts and how long it is: uint8[b], int64[n], int64[n]."""
    large = pa.types.is_large_binary(keys.type) or pa.types.is_large_string(keys.type)
    if not large and not pa.types.is_binary(keys.type) and not pa.types.is_string(keys.type):
        raise TypeError(f"keys must be binary or string, not {keys.type}")
    _, offset_buffer, data_buffer = keys.buffers()
    if not len(keys) or offset_buffer is None:
        return np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    width = np.dtype(np.int64) if large else np.dtype(np.int32)
    every_offset: npt.NDArray[Any] = np.frombuffer(memoryview(offset_buffer), width)
    offsets: I64 = every_offset[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(memoryview(data_buffer), np.uint8)
    return data, offsets[:-1], np.diff(offsets)
