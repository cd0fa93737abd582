"""The sparse indexes of a segment: offset -> position, and timestamp -> offset.

Both are files of fixed-size, ascending, big-endian entries, as Apache Kafka writes them::

    .index      entry = relative_offset int32, position int32
    .timeindex  entry = timestamp int64, relative_offset int32

Offsets are relative to the segment's base offset. An ``.index`` entry: the batch at ``position`` ends with that
offset. A ``.timeindex`` entry: ``timestamp`` is the largest up to that offset, and the batch that ends with the offset
is the first one with that timestamp.

An index never has entries that the log does not have, and is rebuilt from the log after a crash. New entries are
therefore buffered in memory and written many at a time. Lookups search the buffer, and read single entries of the file.
The file is not mapped into memory, so that a truncated file raises ``CorruptIndex`` instead of SIGBUS, and an unused
index takes no memory.

One thread appends while other threads look up. The state that they share is replaced as one tuple.
"""

import struct
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple

from broker_embedded._log.checkpoints import CorruptFile
from broker_embedded._platform.open_files import OpenFiles
from spark_kafka_native._records.batch import NO_TIMESTAMP, BatchHeader

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_MAX_OVERSTATED: Final = 4096
"""Upper bound of the batches of one segment in `OverstatedTimestamps`."""
_BLOCK_ENTRIES: Final = 512
"""Entries that are read at once. The last steps of a binary search are in one block."""
_PENDING_ENTRIES: Final = 4096
"""Entries buffered in memory before they are written: a write per 16 MiB of log with default settings."""


class CorruptIndex(CorruptFile):
    """An index file contradicts itself or its log."""


class OffsetPosition(NamedTuple):
    """Where in the ``.log`` the batch that ends with ``offset`` starts."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """A largest timestamp so far, and the last offset of the first batch that had it."""

    timestamp: int
    offset: int


class _SparseIndex(ABC):
    """Entries of two integers, in the file or in the buffer."""

    __slots__ = ("_max_entries", "_open_files", "_state", "_unchecked", "base_offset", "path")

    entry: ClassVar[struct.Struct]

    def __init__(
        self, path: str, base_offset: int, *, open_files: OpenFiles, max_bytes: int, file_size: int = 0
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self._open_files = open_files
        self._max_entries = max_bytes // self.entry.size
        self._state = (file_size // self.entry.size, bytearray())  # number of entries in the file, buffered entries
        self._unchecked = file_size > 0

    def __len__(self) -> int:
        in_file, pending = self._state
        return in_file + len(pending) // self.entry.size

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all entries, buffered ones included."""
        return len(self) * self.entry.size

    def reset(self) -> None:
        """Forget every entry; the file follows with ``finish``."""
        self._state = (0, bytearray())
        self._unchecked = False

    def write_pending_if_many(self) -> None:
        """Write the buffered entries if there are `_PENDING_ENTRIES`. Raises OSError: they stay in the buffer."""
        if len(self._state[1]) >= _PENDING_ENTRIES * self.entry.size:
            self._write_pending()

    def finish(self) -> None:
        """Write all buffered entries and truncate the file to them. Raises OSError; may be called again."""
        self._write_pending()
        file = self._open_files.of(self)
        size = len(self) * self.entry.size
        if file.size() != size:
            file.truncate(size)

    def sync(self) -> None:
        """Force the file to the disk. Raises OSError."""
        self._open_files.of(self).sync()

    def check_size(self, file_size: int) -> None:
        """Raise CorruptIndex unless the file's size is a multiple of the entry size."""
        if file_size % self.entry.size:
            raise CorruptIndex(self.path, f"{file_size} bytes are not a multiple of {self.entry.size}")

    def check(self) -> None:
        """Check the first and the last entry now instead of with the first lookup. Raises OSError, CorruptIndex."""
        self._check_ends(*self._reader())
        self._unchecked = False

    @abstractmethod
    def _check_ends(self, count: int, read: Callable[[int], tuple[int, int]]) -> None:
        """Raise CorruptIndex if the first and the last entry cannot be those of this index."""

    def _checked_reader(self) -> tuple[int, Callable[[int], tuple[int, int]]]:
        if self._unchecked:
            self.check()
        return self._reader()

    def _write_pending(self) -> None:
        in_file, pending = self._state
        if pending:
            self._open_files.of(self).write_at(in_file * self.entry.size, bytes(pending))
            self._state = (in_file + len(pending) // self.entry.size, bytearray())

    def _append(self, first: int, second: int) -> None:
        self._state[1].extend(self.entry.pack(first, second))

    def _reader(self) -> tuple[int, Callable[[int], tuple[int, int]]]:
        """The present number of entries, and a function that reads one of them, a block of the file at a time."""
        in_file, pending = self._state
        size, unpack = self.entry.size, self.entry.unpack_from
        count = in_file + len(pending) // size
        start, block = 0, b""

        def read(index: int) -> tuple[int, int]:
            nonlocal start, block
            if index >= in_file:
                first, second = unpack(pending, (index - in_file) * size)
                return first, second
            if not 0 <= index - start < len(block) // size:
                start = index - index % _BLOCK_ENTRIES
                block = self._open_files.of(self).read_at(start * size, min(_BLOCK_ENTRIES, in_file - start) * size)
                if index - start >= len(block) // size:
                    raise CorruptIndex(self.path, f"ends before entry {index} of {count}")
            first, second = unpack(block, (index - start) * size)
            return first, second

        return count, read

    def _last(self) -> tuple[int, int] | None:
        count, read = self._checked_reader()
        return read(count - 1) if count else None

    def _floor(self, key: int) -> tuple[int, int] | None:
        """The last entry whose first integer is at most ``key``. Raises OSError, CorruptIndex."""
        count, read = self._checked_reader()
        found = bisect_right(range(count), key, key=lambda index: read(index)[0])
        return read(found - 1) if found else None

    def _keep_below(self, relative_offset: int, column: int) -> None:
        """Drop the entries from an offset on, in the file too. Raises OSError, CorruptIndex."""
        count, read = self._checked_reader()
        keep = bisect_left(range(count), relative_offset, key=lambda index: read(index)[column])
        in_file, pending = self._state
        self._state = (min(keep, in_file), pending[: max(0, keep - in_file) * self.entry.size])
        self.finish()


class OffsetIndex(_SparseIndex):
    """``{base_offset:020d}.index``. An existing file must fit a log of ``log_size`` bytes."""

    __slots__ = ("_log_size",)

    entry = struct.Struct(">ii")

    def __init__(
        self,
        path: str,
        base_offset: int,
        *,
        open_files: OpenFiles,
        max_bytes: int,
        file_size: int = 0,
        log_size: int = 0,
    ) -> None:
        super().__init__(path, base_offset, open_files=open_files, max_bytes=max_bytes, file_size=file_size)
        self._log_size = log_size

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another entry."""
        return len(self) >= self._max_entries

    def append(self, offset: int, position: int) -> None:
        """Add an entry: the batch at ``position`` ends with ``offset``. Ignored if the index is full.

        Both must be larger than in the last entry.
        """
        if not self.is_full:
            self._append(offset - self.base_offset, position)

    def lookup(self, offset: int) -> int:
        """The position of the last indexed batch that ends at or before ``offset``, 0 if there is none.

        Raises OSError, CorruptIndex.
        """
        found, last = self._floor(min(offset - self.base_offset, MAX_RELATIVE_OFFSET)), self._last()
        if found is None:
            return 0
        if last is None or not 0 < found[1] <= last[1]:
            entry = (self.base_offset + found[0], found[1])
            raise CorruptIndex(self.path, f"entry {entry} is not before the last one, {last}")
        return found[1]

    def first_from(self, position: int) -> OffsetPosition | None:
        """The entry of the first indexed batch at or after a position. Raises OSError, CorruptIndex."""
        count, read = self._checked_reader()
        found = bisect_left(range(count), position, key=lambda index: read(index)[1])
        if found == count:
            return None
        relative_offset, indexed = read(found)
        return OffsetPosition(self.base_offset + relative_offset, indexed)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries from ``offset`` on. Raises OSError, CorruptIndex."""
        self._keep_below(offset - self.base_offset, 0)

    def last(self) -> OffsetPosition | None:
        """The last entry. Raises OSError, CorruptIndex."""
        found = self._last()
        return None if found is None else OffsetPosition(self.base_offset + found[0], found[1])

    def _check_ends(self, count: int, read: Callable[[int], tuple[int, int]]) -> None:
        """Entries of zeroes, which a crash may leave, are found because the batch at position 0 is never indexed."""
        if count:
            relative_offset, position = read(count - 1)
            if relative_offset < 0 or not 0 < position < self._log_size:
                last = (self.base_offset + relative_offset, position)
                raise CorruptIndex(self.path, f"last entry {last} is outside a log of {self._log_size} bytes")


class TimeIndex(_SparseIndex):
    """``{base_offset:020d}.timeindex``."""

    __slots__ = ("_last_entry",)

    entry = struct.Struct(">qi")

    def __init__(
        self, path: str, base_offset: int, *, open_files: OpenFiles, max_bytes: int, file_size: int = 0
    ) -> None:
        super().__init__(path, base_offset, open_files=open_files, max_bytes=max_bytes, file_size=file_size)
        self._last_entry: TimestampOffset | None = None

    def reset(self) -> None:
        """Forget every entry; the file follows with ``finish``."""
        super().reset()
        self._last_entry = None

    @property
    def is_full(self) -> bool:
        """Whether only the entry that is reserved for the close of the segment is free."""
        return len(self) >= self._max_entries - 1

    def maybe_append(self, largest: TimestampOffset, *, closing: bool = False) -> None:
        """Add an entry with the largest timestamp so far, unless the last entry has it or the index is full.

        ``closing`` uses the entry that is reserved for the close of the segment. Raises OSError, CorruptIndex; not
        after ``last`` was called.
        """
        if (not self.is_full or closing) and largest.timestamp > self.last().timestamp:
            self._append(largest.timestamp, largest.offset - self.base_offset)
            self._last_entry = largest

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or before ``timestamp``, or (NO_TIMESTAMP, base offset). Raises OSError, CorruptIndex."""
        return self._named(self._floor(timestamp))

    def truncate_to(self, offset: int) -> None:
        """Drop the entries from ``offset`` on. Raises OSError, CorruptIndex."""
        self._keep_below(offset - self.base_offset, 1)
        self._last_entry = None

    def last(self) -> TimestampOffset:
        """The last entry, or (NO_TIMESTAMP, base offset). Raises OSError, CorruptIndex."""
        if self._last_entry is None:
            self._last_entry = self._named(self._last())
        return self._last_entry

    def _check_ends(self, count: int, read: Callable[[int], tuple[int, int]]) -> None:
        if not count:
            return
        first, last = read(0), read(count - 1)
        if last[1] < 0 or (count > 1 and last[0] <= first[0]):
            raise CorruptIndex(self.path, f"last entry {last} does not follow the first, {first}")

    def _named(self, found: tuple[int, int] | None) -> TimestampOffset:
        if found is None:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(found[0], self.base_offset + found[1])


class OverstatedTimestamps:
    """The batches of a segment whose header has a larger max timestamp than their records. In memory only.

    A producer may write any max timestamp into the header. A batch is identified by base offset and CRC, because a
    lookup may end after its batch was truncated and another batch has got the offset. Safe to call from any thread.
    """

    __slots__ = ("_largest",)

    def __init__(self) -> None:
        self._largest: dict[tuple[int, int], int] = {}

    def largest_in(self, header: BatchHeader) -> int:
        """The largest timestamp in a batch if it is known, else that of its header, which may be too large."""
        return min(self._largest.get((header.base_offset, header.crc), header.max_timestamp), header.max_timestamp)

    def remember(self, header: BatchHeader, largest: int) -> None:
        """Remember the largest timestamp of a batch's records if it is less than that of its header.

        If there are more than `_MAX_OVERSTATED` such batches, the oldest is forgotten.
        """
        if largest < header.max_timestamp:
            self._largest[header.base_offset, header.crc] = largest
            for oldest in list(self._largest)[:-_MAX_OVERSTATED]:
                self._largest.pop(oldest, None)
