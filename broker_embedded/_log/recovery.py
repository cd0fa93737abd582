"""Recovery: load and repair a partition's directory.

The steps of loading a log. Each can be repeated, so that a crash in any of them leads back to the first.
``.kafka_cleanshutdown`` is deleted before them, see ``manager``.

1. Leftover files are removed: ``.deleted``, unfinished ``.cleaned``, ``.tmp``. A complete set of ``.swap`` files, which
   an interrupted compaction leaves, replaces the original segments. Index files without a ``.log`` are removed. So is
   an empty ``.log`` if the segment before it has records at or after its base offset: a roll failed, and the log
   continued in the segment before.
2. Segments are opened. If index files are missing or have an impossible size, they are rebuilt from the ``.log``. Their
   content is checked after an unclean shutdown, else with the first use, so that a start opens few files.
3. After an unclean shutdown the segments from the recovery point on are read from start to end. What was not flushed
   may be missing, incomplete, zeroes or older bytes. The log ends before the first batch that is incomplete or corrupt,
   or whose base offset is not the next offset: that file is truncated, durably, and later segments are deleted. Each
   loss is logged. Crash between truncating and deleting: the next start finds the gap and deletes the later segments.
4. After a clean shutdown only the end of the last segment is read, from its last index entry on.
5. A log that ends before its start offset has no readable record: it is emptied and starts at that offset.

A gap between flushed segments is ignored, because compaction leaves gaps. A gap between unflushed segments means that
the end of a file is lost although a later file is not, and the segments after the gap are deleted. Except in a topic
with ``cleanup.policy=compact``, where another broker may have compacted unflushed segments.
"""

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.batches import checked_batches, is_zeroes
from broker_embedded._log.index import MAX_RELATIVE_OFFSET, CorruptIndex
from broker_embedded._log.segment import LogSegment
from broker_embedded._log.segment_files import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SNAPSHOT,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    TXN_INDEX,
    SegmentFiles,
    segment_path,
)
from broker_embedded._platform.platform import DirectoryEntry, Platform
from spark_kafka_native._records.batch import BatchHeader, CorruptBatch, UnreadableBatch

logger = logging.getLogger(__name__)

_NAME: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.cleaned|\.swap)?")


@dataclass(slots=True)
class LoadedSegments:
    """The segments of a partition's directory, ready for use.

    ``snapshots``: offsets of the producer snapshots found. ``rebuilt``: base offsets of the segments whose indexes were
    rebuilt, the transaction index left empty, and whether ``LogSegment.end_rebuild`` must be durable.
    ``names_changed``: files were created, renamed or removed since the directory was synced.
    """

    segments: list[LogSegment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    snapshots: list[int] = field(default_factory=list)
    rebuilt: dict[int, bool] = field(default_factory=dict)
    names_changed: bool = False


class Recovery:
    """Loads one directory; used once.

    ``on_batch`` is called with the header of every valid batch of step 3.
    """

    def __init__(
        self, directory: str, config: LogConfig, platform: Platform, on_batch: Callable[[BatchHeader], None]
    ) -> None:
        self._directory = directory
        self._config = config
        self._platform = platform
        self._files = platform.file_system
        self._on_batch = on_batch
        self._rebuilt: dict[int, bool] = {}
        self._names_changed = False
        self._given_back = 0  # preallocated bytes of the last segment, which are not a loss

    def load(self, *, recovery_point: int, log_start_offset: int, clean_shutdown: bool) -> LoadedSegments:
        """Do all steps. Raises OSError."""
        found = self._remove_leftovers()
        bases = sorted(offset for offset, suffix in found if suffix == LOG)
        first = len(bases) if clean_shutdown else sum(1 for base in bases[1:] if base <= recovery_point)
        segments = [
            self._open_segment(
                found, base, check_sizes=index < first, check=not clean_shutdown or index == len(bases) - 1
            )
            for index, base in enumerate(bases)
        ]
        if not clean_shutdown:
            segments = self._recover_from(segments, first)
        log_end_offset = self._end_of(segments)
        if segments and log_end_offset < log_start_offset:
            self._delete(segments, f"it ends at offset {log_end_offset}, before the log's start {log_start_offset}")
            segments = []
        if not segments:
            segments = [LogSegment.create(self._directory, log_start_offset, self._config, self._platform)]
            log_end_offset = log_start_offset
            self._names_changed = True
        segments[-1].prepare()
        known = [log_end_offset] if clean_shutdown else [log_end_offset, recovery_point]
        return LoadedSegments(
            segments=segments,
            log_start_offset=max(log_start_offset, segments[0].base_offset),
            log_end_offset=log_end_offset,
            recovery_point=min([*known, *self._rebuilt]),
            snapshots=sorted(offset for (offset, suffix) in found if suffix == SNAPSHOT),
            rebuilt=self._rebuilt,
            names_changed=self._names_changed or not clean_shutdown,
        )

    # --- step 1 ------------------------------------------------------------------------------------------------------

    def _remove_leftovers(self) -> dict[tuple[int, str], int]:
        """Sizes of the files that remain, by offset and suffix."""
        entries = self._list_files()
        if any(entry.name.endswith((DELETED, TEMPORARY, CLEANED, SWAP)) for entry in entries):
            for entry in entries:
                if entry.name.endswith((DELETED, TEMPORARY)):
                    self._remove(entry.name)
            self._finish_swaps(entries)
            entries = self._list_files()
        found: dict[tuple[int, str], int] = {}
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match is not None and match[3] is None:
                found[int(match[1]), match[2]] = entry.size
            elif entry.name.endswith((LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)):
                logger.warning("%s/%s: not named after an offset, ignored", self._directory, entry.name)
        for offset, suffix in list(found):
            if suffix in {INDEX, TIME_INDEX, TXN_INDEX} and (offset, LOG) not in found:
                logger.warning("%s: an index without its log, removed", segment_path(self._directory, offset, suffix))
                self._remove(f"{offset:020d}{suffix}")
                del found[offset, suffix]
        self._remove_failed_rolls(found)
        return found

    def _remove_failed_rolls(self, found: dict[tuple[int, str], int]) -> None:
        before: int | None = None
        for offset in sorted(offset for offset, suffix in found if suffix == LOG):
            is_left = before is not None and self._is_empty(found, offset)
            if before is None or not is_left or not self._reaches(self._segment(found, before), offset):
                before = offset
                continue
            path = segment_path(self._directory, offset, LOG)
            logger.warning("%s: removing an empty segment, because the segment before it has later records", path)
            for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
                if found.pop((offset, suffix), None) is not None:
                    self._remove(f"{offset:020d}{suffix}")

    def _is_empty(self, found: dict[tuple[int, str], int], offset: int) -> bool:
        """Whether a segment has no record. Its file may be preallocated."""
        size = found[offset, LOG]
        return not size or (self._config.preallocate and is_zeroes(self._segment(found, offset).file(), 0, size))

    @staticmethod
    def _reaches(segment: LogSegment, offset: int) -> bool:
        """Whether a segment has a record at or after ``offset``. Step 3 handles one that cannot be read up to there."""
        try:
            return segment.locate(offset, segment.size) is not None
        except UnreadableBatch:
            return False

    def _list_files(self) -> list[DirectoryEntry]:
        return [entry for entry in self._files.list_directory(self._directory) if not entry.is_directory]

    def _finish_swaps(self, entries: Iterable[DirectoryEntry]) -> None:
        """Complete or undo the compaction that a crash interrupted.

        The cleaner renames complete files from .cleaned to .swap, the highest offset first, and then replaces the
        original segments. So a .swap at or after a .cleaned belongs to an incomplete set.
        """
        names = {entry.name: match for entry in entries if (match := _NAME.fullmatch(entry.name)) and match[3]}
        cleaned = [int(match[1]) for match in names.values() if match[3] == CLEANED]
        swaps = {}
        for name, match in names.items():
            if match[3] == CLEANED or (cleaned and int(match[1]) >= min(cleaned)):
                self._remove(name)
            else:
                swaps[name] = match
        if not swaps:
            return
        logger.warning("%s: finishing a compaction that was interrupted: %s", self._directory, ", ".join(swaps))
        logs = [int(match[1]) for match in swaps.values() if match[2] == LOG]
        if logs:
            self._remove_replaced(entries, min(logs), self._end_of_swap(max(logs)))
        for name in swaps:
            self._files.rename(f"{self._directory}/{name}", f"{self._directory}/{name.removesuffix(SWAP)}")
        self._files.sync_directory(self._directory)

    def _end_of_swap(self, base_offset: int) -> int:
        """The offset after the last valid batch of a .log.swap file."""
        end = base_offset
        file = self._files.open(segment_path(self._directory, base_offset, LOG + SWAP))
        try:
            for _, header in checked_batches(file, 0, file.size()):
                end = header.next_offset
        except CorruptBatch as error:
            logger.warning("%s", error)
        return end

    def _remove_replaced(self, entries: Iterable[DirectoryEntry], from_offset: int, until_offset: int) -> None:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match and match[3] is None and match[2] != SNAPSHOT and from_offset <= int(match[1]) < until_offset:
                self._remove(entry.name)

    def _remove(self, name: str) -> None:
        self._files.remove(f"{self._directory}/{name}")
        self._names_changed = True

    # --- step 2 ------------------------------------------------------------------------------------------------------

    def _open_segment(
        self, found: dict[tuple[int, str], int], offset: int, *, check_sizes: bool, check: bool
    ) -> LogSegment:
        """A segment. Its indexes are repaired, unless step 3 rebuilds them anyway. ``check`` reads them."""
        segment = self._segment(found, offset)
        problem = _index_problem(segment, _files_of(found, offset), check=check) if check_sizes else None
        if problem is not None:
            logger.warning("%s: rebuilding its indexes: %s", segment.path, problem)
            self._recover_segment(segment, offset, flushed=True)
        return segment

    def _segment(self, found: dict[tuple[int, str], int], offset: int) -> LogSegment:
        return LogSegment(self._directory, offset, self._config, self._platform, _files_of(found, offset))

    # --- step 3 ------------------------------------------------------------------------------------------------------

    def _recover_from(self, segments: list[LogSegment], first: int) -> list[LogSegment]:
        """Check every segment that may contain unflushed batches. Returns the segments that remain."""
        end: int | None = None
        for index, segment in enumerate(segments[first:], first):
            gap = end is not None and segment.base_offset != end
            if gap and not (self._config.compacts and segment.base_offset > (end or 0)):
                reason = f"it starts at offset {segment.base_offset}, the log before ends at {end}"
                self._delete(segments[index:], reason)
                return segments[:index]
            size = segment.size
            end = self._recover_segment(segment, segment.base_offset, flushed=False)
            if segment.size + self._given_back < size:
                self._delete(segments[index + 1 :], f"the log ends before it, at offset {end}")
                return segments[: index + 1]
        return segments

    def _recover_segment(self, segment: LogSegment, next_offset: int, *, flushed: bool) -> int:
        """Check every batch, rebuild the indexes, truncate after the last valid batch. Returns the offset after it.

        An unclean start does not check a ``flushed`` segment again, so its rebuild must survive a crash.
        """
        segment.begin_rebuild(durable=flushed)
        self._names_changed = True
        self._given_back = 0
        self._rebuilt[segment.base_offset] = flushed
        valid = 0
        try:
            for position, header in checked_batches(segment.file(), 0, segment.size):
                if header.base_offset < next_offset or header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
                    raise CorruptBatch(
                        f"a batch has offsets {header.base_offset} to {header.last_offset}, but {next_offset} is next",
                        position=position,
                        file=segment.path,
                    )
                segment.note_batch(position, header.size_in_bytes, header.last_offset, header.max_timestamp)
                self._on_batch(header)
                valid = position + header.size_in_bytes
                next_offset = header.next_offset
        except CorruptBatch as error:
            if self._config.preallocate and is_zeroes(segment.file(), valid, segment.size):
                self._given_back = segment.size - valid
                logger.info("%s: %d preallocated bytes are released", segment.path, self._given_back)
            else:
                lost = segment.size - valid
                logger.warning("%s: cut off at position %d, %d bytes dropped: %s", segment.path, valid, lost, error)
            segment.cut(valid)
        segment.finish()
        return next_offset

    # --- steps 4 and 5 -----------------------------------------------------------------------------------------------

    def _end_of(self, segments: list[LogSegment]) -> int:
        if not segments:
            return 0
        last = segments[-1]
        try:
            return last.next_offset()
        except (CorruptIndex, CorruptBatch) as error:
            logger.warning("%s: closed cleanly, but its end cannot be read: %s", last.path, error)
            return self._recover_segment(last, last.base_offset, flushed=True)

    def _delete(self, segments: Iterable[LogSegment], reason: str) -> None:
        for segment in segments:
            logger.warning("%s: deleted, %d bytes dropped: %s", segment.path, segment.size, reason)
            segment.rename_deleted()
            segment.remove()
            self._names_changed = True


def _files_of(found: dict[tuple[int, str], int], offset: int) -> SegmentFiles:
    return SegmentFiles(
        log=found[offset, LOG],
        index=found.get((offset, INDEX), -1),
        time_index=found.get((offset, TIME_INDEX), -1),
        txn_index=found.get((offset, TXN_INDEX), -1),
    )


def _index_problem(segment: LogSegment, files: SegmentFiles, *, check: bool) -> str | None:
    """The error of a segment's index files, or None. Without ``check`` only their sizes are checked.

    Raises OSError.
    """
    if files.index < 0 or files.time_index < 0:
        return "an index file is missing"
    try:
        segment.offset_index.check_size(files.index)
        segment.time_index.check_size(files.time_index)
        if check:
            segment.offset_index.check()
            segment.time_index.check()
        if not files.time_index and segment.first_timestamp() >= 0:  # correct only if no record has a timestamp
            return "the time index is empty, but the log is not"
    except (CorruptIndex, CorruptBatch) as error:
        return str(error)
    return None
