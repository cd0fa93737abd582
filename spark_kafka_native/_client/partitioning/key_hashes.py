"""Hashes of record keys, one by one or for a column: murmur2 as Kafka's Java producer has it, CRC-32 and FNV-1a.

Every producer of a topic must compute the same numbers, so that the records of a key have one partition.
"""

import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafka_native._records.arrow import kernel
from spark_kafka_native._records.arrow.views import byte_spans

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]

_FEW_ROWS: Final = 12
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
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
    data, starts, lengths = byte_spans(keys)
    if (compiled := kernel.murmur2(data, starts, lengths)) is not None:
        return compiled
    spans = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
    return np.array([murmur2(data[start:end].tobytes()) for start, end in spans], np.int32)


def crc32_column(keys: "pa.LargeBinaryArray") -> U32:
    """The CRC-32 of every key: uint32[n]. What a null row gets means nothing."""
    data, starts, lengths = byte_spans(keys)
    view = memoryview(data.data)
    ends = starts + lengths
    found = [zlib.crc32(view[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return np.array(found, np.uint32)


def fnv1a(data: bytes | memoryview, state: int = _FNV_OFFSET) -> int:
    """The 32-bit FNV-1a hash of ``data``, unsigned; ``state`` is that of the bytes before."""
    for byte in data:
        state = (state ^ byte) * _FNV_PRIME & _MASK
    return state


def fnv1a_column(keys: "pa.LargeBinaryArray") -> U32:
    """FNV-1a of every key, as a signed number made positive, which is how Sarama and librdkafka use it: uint32[n]."""
    data, starts, lengths = byte_spans(keys)
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    state = np.full(len(starts), _FNV_OFFSET, np.uint32)
    # Round i mixes byte i into all rows that have one; the last few rows, which may be long, are hashed one by one.
    longest = int(lengths[0]) if len(lengths) else 0
    rows_with = np.searchsorted(-lengths, -np.arange(longest), side="left")
    rounds = int((rows_with > _FEW_ROWS).sum())
    for at, rows in enumerate(rows_with[:rounds].tolist()):
        state[:rows] ^= data[starts[:rows] + at]
        state[:rows] *= np.uint32(_FNV_PRIME)
    for row in range(int(rows_with[rounds]) if rounds < longest else 0):
        rest = data[starts[row] + rounds : starts[row] + lengths[row]].tobytes()
        state[row] = fnv1a(rest, int(state[row]))
    hashes = np.empty_like(state)
    hashes[order] = np.abs(state.view(np.int32).astype(np.int64)).astype(np.uint32)
    return hashes
