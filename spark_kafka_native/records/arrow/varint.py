"""Zig-zag varints, many at once: the integers inside records.

A varint is seven bits a byte, lowest first, the high bit set on all bytes but the last; zig-zag maps 0, -1, 1, -2 to
0, 1, 2, 3, so that small negative numbers stay short. An int32 takes at most 5 bytes, an int64 at most 10. Each
function handles a whole column, one numpy pass per byte of the longest varint in it.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from spark_kafka_native.records.errors import BadRecord
from spark_kafka_native.records.record import VARINT_BYTES, VARLONG_BYTES

I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
U8: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]

_LAST_BYTE_MAX = {VARINT_BYTES: 0x0F, VARLONG_BYTES: 0x01}  # what 32 and 64 bits leave for the fifth and tenth byte
_FEW = 8  # below one in so many, index the rows that go on rather than pass over all
_SMALL = np.arange(256, dtype=np.int64)
_UNZIGZAG_BYTE: I64 = (_SMALL >> 1) ^ -(_SMALL & 1)
# A zig-zagged value below 2**7 takes one byte, below 2**14 two ...; nine borders for at most ten bytes.
_SIZE_BORDERS = np.array([1 << bits for bits in range(7, 64, 7)], dtype=np.uint64)


def require(good: Bools, detail: str) -> None:
    """Raise BadRecord naming the first record that is not ``good``: bool[n]."""
    if not good.all():
        raise BadRecord(int(good.argmin()), detail)


def read_varints(data: U8, positions: I64, max_bytes: int = VARINT_BYTES) -> tuple[I64, I64]:
    """The varints at ``positions`` and the positions behind them, both int64[n].

    Positions outside ``data`` read its nearest byte, so callers check where they end up, once, at the end. ``data``
    must not be empty.

    Raises BadRecord: longer than ``max_bytes`` or beyond int32, or int64 with VARLONG_BYTES; index counts positions.
    """
    byte = data.take(positions, mode="clip")
    following = positions + 1
    more = byte >= 0x80
    if not more.any():
        return _UNZIGZAG_BYTE.take(byte), following
    value = (byte & 0x7F).astype(np.uint64)
    rows: I64 | None = None  # all of them, else the few that go on
    for index in range(1, max_bytes):
        if rows is None and np.count_nonzero(more) * _FEW < len(more):
            rows = np.flatnonzero(more)
        if rows is None:
            byte = data.take(following, mode="clip") * more.view(np.uint8)
            value |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
            following += more
        else:
            byte = data.take(following[rows], mode="clip")
            value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
            following[rows] += 1
        more = byte >= 0x80
        if index == max_bytes - 1:
            break
        if not more.any():
            return unzigzag(value), following
        if rows is not None:
            rows = rows[more]
    bad = byte > _LAST_BYTE_MAX[max_bytes]
    if bad.any():
        first = int(bad.argmax())
        raise BadRecord(
            first if rows is None else int(rows[first]), f"a varint is longer than {max_bytes} bytes or out of range"
        )
    return unzigzag(value), following


def unzigzag(value: npt.NDArray[np.uint64]) -> I64:
    """uint64[n] as read from the wire to the int64[n] it stands for."""
    half: I64 = (value >> np.uint64(1)).view(np.int64)
    half ^= -(value & np.uint64(1)).view(np.int64)
    return half


def zigzag(value: I64) -> npt.NDArray[np.uint64]:
    """int64[n] to the uint64[n] that goes to the wire seven bits at a time."""
    folded: npt.NDArray[np.uint64] = ((value << 1) ^ (value >> 63)).view(np.uint64)
    return folded


def varint_sizes(zigzagged: npt.NDArray[np.uint64]) -> I64:
    """Bytes each of ``zigzagged``: uint64[n] takes as a varint."""
    if len(zigzagged) == 0:
        return np.zeros(0, dtype=np.int64)
    smallest, largest = _SIZE_BORDERS.searchsorted([zigzagged.min(), zigzagged.max()], side="right")
    sizes = np.full(len(zigzagged), smallest + 1, dtype=np.int64)
    for border in _SIZE_BORDERS[smallest:largest]:
        sizes += zigzagged >= border
    return sizes


def write_varints(out: U8, positions: I64, zigzagged: npt.NDArray[np.uint64], sizes: I64) -> None:
    """Write ``zigzagged`` as varints to ``out`` at ``positions``; ``sizes`` are theirs, from ``varint_sizes``."""
    if len(sizes) == 0:
        return
    rows: slice | I64 = slice(None)
    for index in range(int(sizes.max())):
        more = sizes[rows] > index + 1
        byte = (zigzagged[rows] >> np.uint64(7 * index)).astype(np.uint8) & 0x7F
        out[positions[rows] + index] = byte | (more.view(np.uint8) << 7)
        if not more.all():
            rows = np.flatnonzero(more) if isinstance(rows, slice) else rows[more]
