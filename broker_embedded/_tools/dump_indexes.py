"""Dumps of the files beside a ``.log``: both indexes, compared with the log, aborted transactions, and producers."""

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

from broker_embedded._log.append.producer_snapshot import CorruptSnapshot, decode_entries
from broker_embedded._log.batches import batch_headers, batch_records
from broker_embedded._log.index import CorruptIndex, OffsetIndex, TimeIndex
from broker_embedded._log.transaction_index import TransactionIndex
from broker_embedded._platform.open_files import OpenFiles
from broker_embedded._platform.platform import File, RealFile, RealFileSystem
from broker_embedded._tools.dump_output import DumpOutput
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, complain
from spark_kafka_native._records.batch import NO_TIMESTAMP, BatchHeader, UnreadableBatch, increment_sequence

_ENTRIES_AT_ONCE: Final = 4096
_OPEN_FILES: Final = 4
_OFFSET_ENTRY: Final = OffsetIndex.entry
_NO_OFFSET: Final = -1


@dataclass(slots=True)
class IndexFindings:
    """What contradicts the logs in the indexes that were dumped, by file. A file has at most one finding per entry."""

    mismatches: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Offset of an entry of an ``.index``, and the last offset of the batch that it points to."""
    timestamps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Timestamp of an entry of a ``.timeindex``, and the largest of the batch that it points to."""
    out_of_order: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Timestamp of an entry of a ``.timeindex``, and that of the entry before, which is not smaller."""
    not_found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Offset of an entry of a ``.timeindex``, and that of the next batch's end; -1: there is no batch."""

    def report(self) -> None:
        """Print all of it as Apache Kafka does."""
        for path, pairs in self.mismatches.items():
            complain(f"Mismatches in :{path}")
            for entry, found in sorted(dict(pairs).items(), reverse=True):
                complain(f"  Index offset: {entry}, log offset: {found}")
        for path, pairs in self.timestamps.items():
            complain(f"Found timestamp mismatch in :{path}")
            for entry, found in pairs:
                complain(f"  Index timestamp: {entry}, log timestamp: {found}")
        for path, pairs in self.out_of_order.items():
            complain(f"Found out of order timestamp in :{path}")
            for entry, before in pairs:
                complain(f"  Index timestamp: {entry}, Previously indexed timestamp: {before}")
        for path, pairs in self.not_found.items():
            complain(f"The following indexed offsets are not found in :{path}")
            for entry, found in pairs:
                complain(f"Indexed offset: {entry}, found log offset: {found}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """``sanity_only``: check as a broker does at its start. ``verify_only``: compare with the log, print no entries."""

    sanity_only: bool
    verify_only: bool
    max_message_size: int


def base_offset(file: str) -> int:
    """The offset that a file is named after. Raises InvalidOption."""
    name = Path(file).name
    try:
        return int(name.partition(".")[0])
    except ValueError:
        raise InvalidOption(f"--files: {name} does not begin with an offset") from None


def dump_offset_index(file: str, options: IndexOptions, findings: IndexFindings, output: DumpOutput) -> None:
    """Print the entries of an ``.index``. Raises OSError, InvalidOption, ToolFailed: no batch is at a position."""
    base, log = base_offset(file), _open_log(file)
    size = Path(file).stat().st_size
    if size < _OFFSET_ENTRY.size:
        output.note(f"{file} is empty.")
        return
    if options.sanity_only:
        files = OpenFiles(_ReadOnlyFileSystem(), _OPEN_FILES)
        end = log.size()
        index = OffsetIndex(file, base, open_files=files, max_bytes=size, file_size=size, log_size=end)
        _check_sanity(file, index, size, output)
        return
    for relative, position in _entries(file, _OFFSET_ENTRY, offset_at=0):
        offset = base + relative
        header = _batch_at(file, log, position, options.max_message_size)
        if header.last_offset != offset:
            findings.mismatches.setdefault(os.path.abspath(file), []).append((offset, header.last_offset))
        if not options.verify_only:
            output.fields({"offset": offset, "position": position})


def dump_time_index(file: str, options: IndexOptions, findings: IndexFindings, output: DumpOutput) -> None:
    """Print the entries of a ``.timeindex``. Raises OSError, InvalidOption, ToolFailed: the log cannot be read."""
    base, log = base_offset(file), _open_log(file)
    if options.sanity_only:
        size = Path(file).stat().st_size
        files = OpenFiles(_ReadOnlyFileSystem(), _OPEN_FILES)
        _check_sanity(file, TimeIndex(file, base, open_files=files, max_bytes=size, file_size=size), size, output)
        return
    path, positions = os.path.abspath(file), _Positions(str(Path(file).with_suffix(".index")))
    before = NO_TIMESTAMP
    for timestamp, relative in _entries(file, TimeIndex.entry, offset_at=1):
        offset = base + relative
        try:
            found = _first_batch_ending_at(log, positions.lookup(relative), offset)
            if found is None or found[1].last_offset != offset:
                last_offset = _NO_OFFSET if found is None else found[1].last_offset
                findings.not_found.setdefault(path, []).append((offset, last_offset))
            else:
                largest = max((record.timestamp for record in batch_records(log, *found)), default=NO_TIMESTAMP)
                if largest != timestamp:
                    findings.timestamps.setdefault(path, []).append((timestamp, largest))
                if before >= timestamp:
                    findings.out_of_order.setdefault(path, []).append((timestamp, before))
        except UnreadableBatch as error:
            raise ToolFailed(f"{file}, offset {offset}: {error}") from error
        if not options.verify_only:
            output.fields({"timestamp": timestamp, "offset": offset})
        before = timestamp


def dump_transaction_index(file: str, output: DumpOutput) -> None:
    """Print the aborted transactions in a ``.txnindex``. Raises OSError, ToolFailed: an unknown version."""
    file_system = _ReadOnlyFileSystem()
    index = TransactionIndex(file, file_system, OpenFiles(file_system, _OPEN_FILES), exists=True)
    try:
        for entry in index.entries():
            output.fields(
                {
                    "version": 0,
                    "producerId": entry.producer_id,
                    "firstOffset": entry.first_offset,
                    "lastOffset": entry.last_offset,
                    "lastStableOffset": entry.last_stable_offset,
                }
            )
    except CorruptIndex as error:
        raise ToolFailed(str(error)) from error


def dump_producer_snapshot(file: str, output: DumpOutput) -> None:
    """Print the entries of a ``.snapshot``; a corrupt one is only reported. Raises OSError."""
    try:
        entries = decode_entries(Path(file).read_bytes())
    except CorruptSnapshot as error:
        complain(f"{file}: {error}")
        return
    for entry in entries:
        fields: dict[str, object] = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": entry.transaction_first_offset,
            "lastTimestamp": entry.seen_ms,
        }
        batches: list[dict[str, object]] = [
            {
                "firstSequence": increment_sequence(batch.last_sequence, -batch.offset_delta),
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
            for batch in entry.batches
        ]
        output.producer(fields, batches)


class _ReadOnlyFileSystem(RealFileSystem):
    """Opens files that the user may only read."""

    def open(self, path: str) -> File:
        """An existing file, for reading."""
        return RealFile(path, os.O_RDONLY)


class _Positions:
    """The entries of an ``.index``, to find positions in."""

    def __init__(self, file: str) -> None:
        self._data = Path(file).read_bytes()
        self._count = sum(1 for _ in _used(_unpacked(self._data, _OFFSET_ENTRY), 0))

    def lookup(self, relative_offset: int) -> int:
        """The position of the last indexed batch that ends at or before an offset, 0 if there is none."""
        found = bisect_right(range(self._count), relative_offset, key=lambda index: self._entry(index)[0])
        return self._entry(found - 1)[1] if found else 0

    def _entry(self, index: int) -> tuple[int, int]:
        relative_offset, position = _OFFSET_ENTRY.unpack_from(self._data, index * _OFFSET_ENTRY.size)
        return relative_offset, position


def _open_log(file: str) -> File:
    return RealFile(str(Path(file).with_suffix(".log")), os.O_RDONLY)


def _check_sanity(file: str, index: OffsetIndex | TimeIndex, size: int, output: DumpOutput) -> None:
    try:
        index.check_size(size)
        index.check()
    except CorruptIndex as error:
        raise ToolFailed(str(error)) from error
    output.note(f"{file} passed sanity check.")


def _batch_at(file: str, log: File, position: int, max_size: int) -> BatchHeader:
    end = min(log.size(), position + max_size)
    try:
        for _, header in batch_headers(log, max(0, position), end):
            return header
    except UnreadableBatch as error:
        raise ToolFailed(f"{file}: no batch of at most --max-message-size {max_size} bytes: {error}") from error
    raise ToolFailed(f"{file}: position {position} is not in {log.path}, which has {log.size()} bytes")


def _first_batch_ending_at(log: File, position: int, offset: int) -> tuple[int, BatchHeader] | None:
    """The first batch from a position on that ends at an offset or after it, with its position."""
    for at, header in batch_headers(log, position, log.size()):
        if header.last_offset >= offset:
            return at, header
    return None


def _entries(file: str, entry: struct.Struct, *, offset_at: int) -> Iterator[tuple[int, int]]:
    """The entries of an index file that are in use."""
    return _used(_all_entries(file, entry), offset_at)


def _used(entries: Iterator[tuple[int, int]], offset_at: int) -> Iterator[tuple[int, int]]:
    """Entries up to the first, but the very first, with the base offset: a crash may leave zeroes after the last."""
    yield from islice(entries, 1)
    yield from takewhile(lambda entry: entry[offset_at] != 0, entries)


def _all_entries(file: str, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    with Path(file).open("rb") as opened:
        while block := opened.read(entry.size * _ENTRIES_AT_ONCE):
            yield from _unpacked(block, entry)


def _unpacked(block: bytes, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    yield from entry.iter_unpack(block[: len(block) - len(block) % entry.size])
