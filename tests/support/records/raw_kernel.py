"""The compiled kernel by itself, in memory with guarded surroundings."""

import ctypes
import mmap
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

from spark_kafka_native._records._kernel import decode
from spark_kafka_native._records.arrow.schema import ALL

_AROUND = 64
_UNTOUCHED = b"\xa5"


class NoMemory(Exception):
    """The error that `Memory` raises on request."""


class Memory:
    """Makes memory as the kernel asks for it, and knows afterwards whether the kernel kept within.

    The ``fails``-th time it raises NoMemory, the ``short``-th time the memory is a byte too small.
    """

    def __init__(self, *, fails: int = -1, short: int = -1) -> None:
        self._fails, self._short = fails, short
        self._made: list[tuple[bytearray, int]] = []

    @property
    def calls(self) -> int:
        return len(self._made)

    def allocate(self, size: int) -> memoryview:
        """Memory of ``size`` bytes, which are not zero."""
        if self.calls == self._fails:
            raise NoMemory
        size -= self.calls == self._short
        memory = bytearray(_UNTOUCHED) * (size + 2 * _AROUND)
        self._made.append((memory, size))
        return memoryview(memory)[_AROUND : _AROUND + size]

    def check(self) -> None:
        """Assert that what is around is as it was."""
        for memory, size in self._made:
            assert memory[:_AROUND] == memory[_AROUND + size :] == _UNTOUCHED * _AROUND


def amid(content: bytes | bytearray, around: bytes) -> memoryview:
    """``content`` with many of ``around`` on both sides."""
    return memoryview(b"".join((around * _AROUND, content, around * _AROUND)))[_AROUND : _AROUND + len(content)]


SURROUNDINGS = (b"\x00", b"\x01", b"\x80", b"\xff")
"""After the end of the buffer are varints that end, or continue."""


class Edges:
    """A page of memory with none before or after it: a read one byte too far ends the process."""

    def __init__(self) -> None:
        page = mmap.PAGESIZE
        self._pages = mmap.mmap(-1, 3 * page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        for guard in (address, address + 2 * page):
            if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0):
                raise OSError(ctypes.get_errno(), "a page cannot be protected")
        self._page = memoryview(self._pages)[page : 2 * page]

    def at_the_end(self, content: bytes | bytearray) -> memoryview:
        """``content`` in the last bytes there are, until the next call."""
        view = self._page[len(self._page) - len(content) :]
        view[:] = content
        return view

    def at_the_beginning(self, content: bytes | bytearray) -> memoryview:
        """``content`` in the first bytes there are, until the next call."""
        view = self._page[: len(content)]
        view[:] = content
        return view


class RawBatch(NamedTuple):
    """A batch as the kernel has it listed."""

    length: int
    records: int = 1
    start: int = 0
    is_in_scratch: bool = False
    base_offset: int = 0
    last_offset_delta: int = 0
    base_time: int = 0
    time_type: int = 0


def listed(*batches: RawBatch) -> "array[int]":
    numbers = array("q")
    for batch in batches:
        numbers.extend((batch.is_in_scratch, batch.start, batch.length, *batch[1:2], *batch[4:], 0))
    return numbers


def decode_raw(
    payload: Any,
    *batches: RawBatch,
    scratch: Any = b"",
    columns: tuple[str, ...] = ALL,
    allocate: Callable[[int], Any] = bytearray,
) -> dict[str, Any] | None:
    """What the kernel makes of it, as plain bytes; None if it refuses."""
    rows = decode.decode(payload, scratch, listed(*batches), 0, 2**62, columns, allocate)
    return None if rows is None else _plain(rows, ("count", *columns))


_PARTS = ("validity", "offsets", "data", "nulls", "count", "keys", "values")


def _plain(rows: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _plain_value(getattr(rows, name)) for name in names if hasattr(rows, name)}


def _plain_value(value: Any) -> Any:
    if value is None or isinstance(value, int):
        return value
    return _plain(value, _PARTS) if hasattr(value, "nulls") else bytes(value)
