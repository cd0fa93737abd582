"""Hashes of record keys, one by one or for a column: murmur2 as Kafka's Java producer has it, CRC-32 and FNV-1a.

``string_hash_column`` and ``bytes_hash_column`` are absolute values of Java's hashes, with which producers of Kafka 0.7
(strings) and 0.8.2 chose partitions. Those of 0.8.0 and 0.8.1 have ``hash & 0x7fffffff`` instead (KAFKA-1469).

Every producer of a topic must compute the same numbers, so that the records of a key have one partition.
"""

import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafka_native._records.arrow import kernel
from spark_kafka_native._records.arrow.views import byte_spans, nulls

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
_JAVA_FACTOR: Final = 31
"""Of Java's hash codes of strings and arrays."""
_CONTINUATION: Final = (0xC0, 0x80)
"""Mask and value of the second and further bytes of a character in UTF-8."""
_FOUR_BYTES: Final = 0xF0
"""The least first byte of a character that takes four bytes in UTF-8, and two units in UTF-16."""


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


def bytes_hash_column(keys: "pa.LargeBinaryArray") -> U32:
    """Java's ``Arrays.hashCode`` of every key's bytes, made positive: uint32[n]. What a null row gets means nothing."""
    data, lengths = _gathered(keys)
    return _java_hashes(data.view(np.int8).astype(np.uint32), lengths, first=1)


def string_hash_column(keys: "pa.LargeBinaryArray") -> U32:
    """Java's ``String.hashCode`` of every key as text, made positive: uint32[n]. What a null row gets means nothing.

    Keys are UTF-8. Bytes that are not count as U+FFFD, as in Java's StringDeserializer.
    """
    data, lengths = _gathered(keys)
    if not len(data) or data.max() < 1 << 7:
        return _java_hashes(data.astype(np.uint32), lengths, first=0)
    units, counts = _utf16(data, lengths)
    return _java_hashes(units.astype(np.uint32), counts, first=0)


def _gathered(keys: "pa.LargeBinaryArray") -> tuple[npt.NDArray[np.uint8], I64]:
    """The bytes of all keys, one after the other, and the length of each; null is empty."""
    data, starts, lengths = byte_spans(keys)
    if (absent := nulls(keys)) is not None:
        lengths = np.where(absent, 0, lengths)
    ends = starts + lengths
    if len(starts) and (starts[1:] == ends[:-1]).all():
        return data[starts[0] : ends[-1]], lengths
    firsts = np.cumsum(lengths) - lengths
    return data[np.repeat(starts - firsts, lengths) + np.arange(int(lengths.sum()))], lengths


def _utf16(data: npt.NDArray[np.uint8], lengths: I64) -> tuple[npt.NDArray[np.uint16], I64]:
    """Texts in UTF-8, one after the other, as units of UTF-16, and the number of units of each."""
    ends = np.cumsum(lengths)
    mask, value = _CONTINUATION
    continues = (data & mask) == value
    starts = (ends - lengths)[lengths > 0]
    try:
        if continues[starts].any():
            raise UnicodeError  # the bytes together could be UTF-8 although those of a key are not
        units = data.tobytes().decode().encode("utf-16-le")
    except UnicodeError:
        bounds = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
        texts = [data[start:end].tobytes().decode(errors="replace").encode("utf-16-le") for start, end in bounds]
        return np.frombuffer(b"".join(texts), "<u2"), np.array([len(text) // 2 for text in texts], np.int64)
    before = np.append(0, np.cumsum(~continues + (data >= _FOUR_BYTES).astype(np.int64)))
    return np.frombuffer(units, "<u2"), before[ends] - before[ends - lengths]


def _java_hashes(units: U32, lengths: I64, first: int) -> U32:
    """``first`` and then each unit u as h = 31 h + u, modulo 2^32, as ``Utils.abs`` of Kafka 0.8.2 makes it positive.

    A row's hash is a sum of units times powers of 31, so that the sums of all rows are differences of one running sum.
    """
    ends = np.cumsum(lengths)
    longest = int(lengths.max()) if len(lengths) else 0
    powers = np.append(np.uint32(1), np.cumprod(np.full(longest, _JAVA_FACTOR, np.uint32), dtype=np.uint32))
    exponents = np.repeat(ends, lengths) - 1 - np.arange(len(units))
    sums = np.append(np.uint32(0), np.cumsum(units * powers[exponents], dtype=np.uint32))
    hashes: I32 = (sums[ends] - sums[ends - lengths] + np.uint32(first) * powers[lengths]).view(np.int32)
    hashes[hashes == np.iinfo(np.int32).min] = 0
    return np.abs(hashes).view(np.uint32)
