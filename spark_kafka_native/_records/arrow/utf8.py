"""Bytes to text, whole columns at a time, with a choice of what bytes that are not UTF-8 become."""

import re
from array import array
from typing import Any, Final

import pyarrow as pa

REPLACE: Final = "replace"
NULL: Final = "null"
FAIL: Final = "fail"
KEEP: Final = "keep"
"""Values of option ``invalidUtf8``: U+FFFD for each malformed sequence as in Java; null; an error; the same bytes."""

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""An encoded surrogate, whole or cut off. Java replaces it by one U+FFFD, Python by one for each byte."""
_ONE_BAD_BYTE: Final = b"\xff"

_REPAIRED_TOGETHER: Final = 1 << 14
"""Rows that are Python objects at a time: as such they take many times their bytes."""

_FEW_ROWS: Final = 256
"""Ranges of at most this many rows are checked row by row; larger ones with a bad row are halved."""


class NotUtf8(ValueError):
    """A row is not UTF-8, and ``invalidUtf8`` is FAIL; ``row`` counts from the column's first."""

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(f"row {row} is not UTF-8")


def decode_utf8(column: "pa.Array[Any]", invalid: str) -> "pa.Array[Any]":
    """A column of ``binary`` as ``string``; without a copy if all of it is UTF-8 or ``invalid`` is KEEP.

    Raises NotUtf8: a row is not, and ``invalid`` is FAIL.
    """
    text: pa.Array[Any] = column.view(pa.string())
    if invalid == KEEP or _is_valid(text):
        return text
    bad = _bad_rows(column)
    if invalid == FAIL:
        raise NotUtf8(bad[0])
    import pyarrow.compute as pc  # noqa: PLC0415  # slow to import, as pandas by `pa.array`; text is mostly UTF-8

    instead: pa.Array[Any] = pa.nulls(len(bad), pa.binary())
    if invalid == REPLACE:
        parts = [bad[start : start + _REPAIRED_TOGETHER] for start in range(0, len(bad), _REPAIRED_TOGETHER)]
        instead = pa.concat_arrays([_repaired_rows(column, rows) for rows in parts])
    replaced: Any = pc.replace_with_mask(column, _mask(len(column), bad), instead)
    repaired_text: pa.Array[Any] = replaced.view(pa.string())
    return repaired_text


def _mask(length: int, rows: "array[int]") -> "pa.Array[Any]":
    """Booleans, true in ``rows``."""
    bits = bytearray((length + 7) // 8)
    for row in rows:
        bits[row >> 3] |= 1 << (row & 7)
    return pa.Array.from_buffers(pa.bool_(), length, [None, pa.py_buffer(bits)])


def _repaired_rows(column: "pa.Array[Any]", rows: "array[int]") -> "pa.Array[Any]":
    values: list[bytes] = column.take(pa.array(rows, pa.int64())).to_pylist()  # type: ignore[assignment]  # a null is not bad
    return pa.array([repaired(value) for value in values], pa.binary())


def repaired(value: bytes) -> bytes:
    """``new String(value, UTF_8)`` of Java, in UTF-8."""
    return _SURROGATE.sub(_ONE_BAD_BYTE, value).decode("utf-8", errors="replace").encode()


def _bad_rows(column: "pa.Array[Any]") -> "array[int]":
    """Numbers of the rows that are not UTF-8, ascending."""
    found = array("q")
    waiting = [(0, len(column))]
    while waiting:
        start, end = waiting.pop()
        part = column.slice(start, end - start)
        if len(part) <= _FEW_ROWS:
            found.extend(start + row for row, value in enumerate(part.to_pylist()) if not _is_utf8(value))
        elif not _is_valid(part.view(pa.string())):
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
    return found


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_valid(text: "pa.Array[Any]") -> bool:
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
