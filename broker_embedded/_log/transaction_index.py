"""The transaction index: aborted transactions, which a read_committed consumer skips.

``{base_offset:020d}.txnindex`` exists only beside a ``.log`` that holds abort markers. It is a file of entries, one per
marker, in the markers' order, as Apache Kafka writes them::

    entry = version int16 (0), producer_id int64, first_offset int64, last_offset int64, last_stable_offset int64

``first_offset`` is that of the transaction's first record, which may be in an earlier segment. ``last_offset`` is that
of the marker. ``last_stable_offset`` is the one after the marker.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from broker_embedded._log.index import CorruptIndex
from broker_embedded._platform.open_files import OpenFiles
from broker_embedded._platform.platform import File, FileSystem, remove_if_exists

_ENTRY: Final = struct.Struct(">hqqqq")
_BLOCK_ENTRIES: Final = 1024


class AbortedTransaction(NamedTuple):
    """The records of ``producer_id`` between two offsets, both included, were aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """One ``.txnindex`` file. The first entry creates it."""

    __slots__ = ("_file_system", "_open_files", "exists", "path")

    def __init__(self, path: str, file_system: FileSystem, open_files: OpenFiles, *, exists: bool = False) -> None:
        self.path = path
        self._file_system = file_system
        self._open_files = open_files
        self.exists = exists
        """Whether there is a file."""

    def file(self) -> File:
        """The file, open, created if there is none. Raises OSError."""
        if not self.exists:
            self._open_files.create(self.path)
            self.exists = True
        return self._open_files.of(self)

    def append(self, aborted: AbortedTransaction, file: File | None = None) -> None:
        """Add an entry, to ``file`` if it was opened before. Raises OSError."""
        file = file or self.file()
        size = file.size()
        file.write_at(size - size % _ENTRY.size, _ENTRY.pack(0, *aborted))

    def reset(self) -> None:
        """Drop every entry, and the file. Raises OSError."""
        self._open_files.forget(self.path)
        remove_if_exists(self._file_system, self.path)
        self.exists = False

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of markers from ``offset`` on. Raises OSError, CorruptIndex."""
        if self.exists:
            keep = sum(1 for entry in self.entries() if entry.last_offset < offset)
            self._open_files.of(self).truncate(keep * _ENTRY.size)

    def sync(self) -> None:
        """Force the file, if there is one, to the disk. Raises OSError."""
        if self.exists:
            self.file().sync()

    def entries(self) -> list[AbortedTransaction]:
        """Every entry, in order. Raises OSError. CorruptIndex: an unknown version."""
        return list(self._entries_from(0)) if self.exists else []

    def _entries_from(self, index: int) -> Iterator[AbortedTransaction]:
        file = self._open_files.of(self)
        while True:
            data = file.read_at(index * _ENTRY.size, _BLOCK_ENTRIES * _ENTRY.size)
            whole = len(data) - len(data) % _ENTRY.size
            if not whole:
                return
            for version, *rest in _ENTRY.iter_unpack(data[:whole]):
                if version != 0:
                    raise CorruptIndex(self.path, f"version {version} of an entry is not known")
                yield AbortedTransaction(*rest)
            index += whole // _ENTRY.size

    def overlapping(self, from_offset: int, until_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions with records in a range, and whether later segments need not be searched.

        Only the entries of the range are read. Raises OSError, CorruptIndex.
        """
        found: list[AbortedTransaction] = []
        if not self.exists:
            return found, False
        file = self._open_files.of(self)

        def last_offset(index: int) -> int:
            last: int = _ENTRY.unpack(file.read_at(index * _ENTRY.size, _ENTRY.size))[3]
            return last

        start = bisect_left(range(file.size() // _ENTRY.size), from_offset, key=last_offset)
        for entry in self._entries_from(start):
            if entry.first_offset < until_offset:
                found.append(entry)
            if entry.last_stable_offset >= until_offset:
                return found, True
        return found, False
