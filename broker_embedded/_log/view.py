"""The view of a log that readers use: an immutable value that appends, rolls and retention replace."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, cast

from broker_embedded._log.index import CorruptIndex
from broker_embedded._log.segment import LogSegment
from broker_embedded._log.timestamp_lookup import Lookup, first_at_or_after, first_of_largest
from broker_embedded._log.transaction_index import AbortedTransaction
from broker_embedded._platform.cancellation import Cancellation
from broker_embedded._platform.platform import File
from spark_kafka_native._protocol.wire import FileRegion
from spark_kafka_native._records.batch import BatchHeader, UnreadableBatch

_MAX_REGIONS: Final = 16
"""Upper bound of the segments that one read returns regions of."""


class FirstBatch(Enum):
    """How a read returns a first batch that is larger than its limit."""

    WHOLE = "whole"
    """Return it whole, however large it is (KIP-74)."""
    FITTING = "fitting"
    """Return nothing."""
    CUT = "cut"
    """Return its first bytes, as Fetch v0 to v2 do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """Batches to send: ``size`` bytes in files. The last batch may be cut off, as Kafka's clients expect.

    A region can be sent until the segment's files are removed, ``file.delete.delay.ms`` after it left the log.
    ``aborted`` are the aborted transactions with records in the range, if they were requested.
    """

    regions: tuple[FileRegion, ...]
    size: int
    aborted: tuple[AbortedTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """The segments, ascending, and the end of the last one for readers.

    ``end_position`` is the position of ``end_offset`` in the last segment. Bytes after it are not visible yet.
    """

    segments: tuple[LogSegment, ...]
    bases: tuple[int, ...]
    end_offset: int
    end_position: int

    @classmethod
    def of(cls, segments: tuple[LogSegment, ...], end_offset: int) -> "LogView":
        """The view of these segments, all of their bytes visible."""
        return cls(
            segments=segments,
            bases=tuple(segment.base_offset for segment in segments),
            end_offset=end_offset,
            end_position=segments[-1].size,
        )

    def extended(self, end_offset: int) -> "LogView":
        """The view after an append to the last segment."""
        return LogView(
            segments=self.segments, bases=self.bases, end_offset=end_offset, end_position=self.segments[-1].size
        )

    @property
    def active(self) -> LogSegment:
        """The segment that is appended to."""
        return self.segments[-1]

    def floor(self, offset: int) -> int:
        """Index of the last segment that starts at or before ``offset``, 0 if none does."""
        return max(0, bisect_right(self.bases, offset) - 1)

    def end_of(self, index: int) -> int:
        """The position where a segment ends for readers."""
        return self.end_position if index == len(self.segments) - 1 else self.segments[index].size

    def slice(self, offset: int, *, until_offset: int, max_bytes: int, first_batch: FirstBatch) -> LogSlice:
        """The batches from the one that contains ``offset`` on, none that ends after ``until_offset``.

        At most ``max_bytes``, unless ``first_batch`` is WHOLE and larger.

        Raises OSError. FileNotFoundError: retention removed the segment. UnreadableBatch.
        """
        found = self._find(offset) if offset < until_offset else None
        if found is None or (first_batch is FirstBatch.FITTING and found[2].size_in_bytes > max_bytes):
            return LogSlice(regions=(), size=0)
        index, position, header = found
        budget = max(max_bytes, header.size_in_bytes) if first_batch is FirstBatch.WHOLE else max_bytes
        regions = self._regions(index, position, budget, until_offset)
        return LogSlice(regions=regions, size=sum(map(len, regions)))

    def _find(self, offset: int) -> tuple[int, int, BatchHeader] | None:
        """Segment and position of the first batch that ends at or after ``offset``."""
        for index in range(self.floor(offset), len(self.segments)):
            located = self.segments[index].locate(offset, self.end_of(index))
            if located is not None:
                return index, *located
        return None

    def _regions(self, index: int, position: int, budget: int, until_offset: int) -> tuple[FileRegion, ...]:
        regions: list[FileRegion] = []
        last, last_end = self._position_of(until_offset)
        while budget > 0 and index <= last and len(regions) < _MAX_REGIONS:
            end = last_end if index == last else self.end_of(index)
            length = min(budget, end - position)
            if length > 0:
                regions.append(FileRegion(self.segments[index], position, length))
                budget -= length
            index, position = index + 1, 0
        return tuple(regions)

    def _position_of(self, offset: int) -> tuple[int, int]:
        """Segment and position of the batch that contains ``offset``, or of the end of the log."""
        if offset >= self.end_offset:
            return len(self.segments) - 1, self.end_position
        index = self.floor(offset)
        located = self.segments[index].locate(offset, self.end_of(index))
        return index, self.end_of(index) if located is None else located[0]

    def first_at_or_after(self, timestamp: int, from_offset: int, cancellation: Cancellation) -> Lookup:
        """The first record from ``from_offset`` on with that timestamp or a later one.

        A segment is searched only if its largest timestamp is not earlier. Raises OSError, UnreadableBatch,
        WorkCancelled.
        """
        for index in range(self.floor(from_offset), len(self.segments)):
            segment = self.segments[index]
            if segment.largest.timestamp >= timestamp:
                found = first_at_or_after(
                    segment, timestamp, from_offset=from_offset, end=self.end_of(index), cancellation=cancellation
                )
                if found is not None:
                    return found
        return None

    def largest(self, from_offset: int, cancellation: Cancellation) -> Lookup:
        """The first record from ``from_offset`` on with the largest timestamp in the segments.

        As with Apache Kafka, DeleteRecords may have hidden it. Raises as ``first_at_or_after``.
        """
        index = max(range(len(self.segments)), key=lambda index: self.segments[index].largest.timestamp)
        return first_of_largest(
            self.segments[index], from_offset=from_offset, end=self.end_of(index), cancellation=cancellation
        )

    def offsets_before(self, timestamp: int | None, log_start_offset: int) -> list[int]:
        """Base offsets of the last segment written at or before a time, None for now, and of those before it.

        The latest first, none before ``log_start_offset``. Raises OSError.
        """
        count = len(self.segments)
        if timestamp is not None:
            while count and self.segments[count - 1].modified_ms() > timestamp:
                count -= 1
        return [max(base, log_start_offset) for base in reversed(self.bases[:count])]

    def aborted_transactions(
        self, from_offset: int, until_offset: int, regions: Sequence[FileRegion] = ()
    ) -> list[AbortedTransaction]:
        """The aborted transactions with records in a range, which ends after ``regions``, those of a slice if given.

        Some may begin after the regions, none at or after ``until_offset``. Raises OSError, CorruptIndex.
        """
        if not any(segment.transaction_index.exists for segment in self.segments[self.floor(from_offset) :]):
            return []
        until_offset = min(until_offset, self._offset_after(regions))
        aborted: list[AbortedTransaction] = []
        for segment in self.segments[self.floor(from_offset) :]:
            found, complete = segment.transaction_index.overlapping(from_offset, until_offset)
            aborted += found
            if complete:
                break
        return aborted

    def _offset_after(self, regions: Sequence[FileRegion]) -> int:
        """An offset after all batches in the regions of a slice, and maybe after some further batches."""
        if not regions:
            return self.end_offset
        last = regions[-1]
        index = next(index for index, segment in enumerate(self.segments) if segment is last.owner)
        indexed = _offset_from(self.segments[index], last.position + last.length, self.end_of(index))
        if indexed is not None:
            return indexed + 1
        return self.bases[index + 1] if index + 1 < len(self.bases) else self.end_offset


def _offset_from(segment: LogSegment, position: int, end: int) -> int | None:
    """The last offset of an indexed batch at or soon after a position; None if none is indexed there.

    The entry is compared with the log, so that a damaged index gives no offset. Raises OSError.
    """
    try:
        indexed = segment.offset_index.first_from(position)
        if indexed is None or not position <= indexed.position < end:
            return None
        _, header = next(segment.headers(indexed.position, end))
    except (CorruptIndex, UnreadableBatch):
        return None
    return header.last_offset if header.last_offset == indexed.offset else None


def bytes_of(regions: Iterable[FileRegion]) -> bytes:
    """The bytes of a slice's regions. Raises OSError."""
    return b"".join(cast("File", region.owner.file()).read_at(region.position, region.length) for region in regions)
