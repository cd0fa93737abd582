"""One compaction of one log, segment by segment.

1. The last offset of each key of the dirty part is put into a map, up to the capacity of the map.
2. The segments from the log's start to the end of the map's range are copied, without the records that `batch_cleaner`
   drops. Consecutive segments are merged if they fit into one, so that segments do not become ever smaller.
3. Each copy replaces its originals; see ``replacement`` for the steps, and for the state after a crash.

Runs in a thread at the same time as appends, reads, retention and flushes: it reads the complete segments of a view,
which do not change, and only step 3 takes locks. ``CleaningAborted`` ends it; segments replaced so far stay replaced.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.cleaner.batch_cleaner import BatchCleaner, CleanedBatch, Rules, control_type_of, keyed_offsets
from broker_embedded._log.cleaner.cleanable import CleanableRange
from broker_embedded._log.cleaner.cleaned_transactions import CleanedTransactions
from broker_embedded._log.cleaner.offset_map import OffsetMap
from broker_embedded._log.cleaner.replacement import begin_cleaned, replace_segments
from broker_embedded._log.index import MAX_RELATIVE_OFFSET
from broker_embedded._log.log import Log
from broker_embedded._log.segment import LogSegment, PlacedBatch
from broker_embedded._log.transaction_index import AbortedTransaction
from broker_embedded._log.view import LogView
from broker_embedded._platform.platform import FileSystem, Platform
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._records.batch import BatchHeader, IncompleteBatch, UnreadableBatch
from spark_kafka_native._records.formats import check_any_crc, read_any

logger = logging.getLogger(__name__)

_SMALLEST_BUFFER: Final = 4096
_BYTES_BETWEEN_RESTS: Final = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerLimits:
    """The limits and callbacks of a compaction.

    ``max_keys`` is the capacity of the map, filled up to ``load_factor``. ``buffer_bytes`` are read and written at a
    time. ``spend`` is called with the bytes read and written: it may wait, or raise CleaningAborted. ``rest`` is called
    every millisecond or so, so that other threads get the interpreter.
    """

    max_keys: int
    load_factor: float
    buffer_bytes: int
    spend: Callable[[int], None]
    rest: Callable[[], None]


@dataclass(slots=True, kw_only=True)
class CleanerStats:
    """The result of a compaction. The next one starts at ``until_offset``."""

    from_offset: int
    until_offset: int = 0
    map_keys: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    segments_after: int = 0


class Cleaner:
    """Compacts one log once. Raises OSError, UnreadableBatch, CorruptIndex, KafkaError, CleaningAborted."""

    def __init__(self, log: Log, dirty: CleanableRange, limits: CleanerLimits, platform: Platform) -> None:
        self._log = log
        self._view: LogView = log.local.view
        self._config: LogConfig = log.config
        self._dirty = dirty
        self._limits = limits
        self._files: FileSystem = platform.file_system
        self._now_ms = platform.clock.now_ms()
        self._buffer_bytes = max(_SMALLEST_BUFFER, limits.buffer_bytes)
        self._has_aborted = any(segment.transaction_index.exists for segment in self._view.segments)
        self.report = CleanerStats(from_offset=dirty.from_offset)

    def run(self) -> CleanerStats:
        """Compact the log."""
        offsets, latest_offset = self._map_keys()
        self.report.map_keys = len(offsets)
        self.report.until_offset = latest_offset + 1
        segments = [segment for segment in self._view.segments[:-1] if segment.base_offset <= latest_offset]
        transactions = CleanedTransactions()
        old_horizon_ms = self._old_horizon_ms()
        for group in group_segments(segments, self._config, until_offset=self._dirty.until_offset):
            rules = Rules(
                now_ms=self._now_ms,
                delete_retention_ms=self._config.delete_retention_ms,
                latest_offset=latest_offset,
                until_offset=self._dirty.until_offset,
                last_records=self._log.last_records_of_producers(),
                old_horizon_ms=old_horizon_ms,
            )
            self._clean_group(group, BatchCleaner(offsets, transactions, rules), transactions)
        return self.report

    # --- the map -----------------------------------------------------------------------------------------------------

    def _map_keys(self) -> tuple[OffsetMap, int]:
        """The last offset of each key in the dirty part, and the last offset that was read."""
        first, until = self._dirty.from_offset, self._dirty.until_offset
        segments = self._view.segments[self._view.floor(first) : self._view.floor(until)]
        positions = [segment.position_before(first) for segment in segments]
        offsets = OffsetMap(self._keys_wanted(segments, positions), self._limits.load_factor)
        transactions = CleanedTransactions()
        transactions.expect(self._aborted(first, until))
        latest = first - 1
        for index, segment in enumerate(segments):
            for header, data in self._batches(segment, positions[index]):
                if header.is_control:
                    transactions.may_drop(header, control_type_of(data, header))
                elif not transactions.is_aborted(header):
                    last_taken = offsets.put_all(keyed_offsets(data, header, first))
                    if last_taken is not None:
                        return offsets, max(latest, last_taken)
                latest = max(latest, header.last_offset)
            latest = (segments[index + 1].base_offset if index + 1 < len(segments) else until) - 1
        return offsets, latest

    def _keys_wanted(self, segments: Sequence[LogSegment], positions: Sequence[int]) -> int:
        """The number of records by the headers, at most ``max_keys``, so that a small log gets a small map."""
        count = 0
        for segment, position in zip(segments, positions, strict=True):
            for _, header in segment.headers(position, segment.size):
                if (
                    header.records_count < 0
                ):  # a message of an old format: its number of records is unknown before it is decompressed
                    return self._limits.max_keys
                count += header.records_count
            if count >= self._limits.max_keys:
                return self._limits.max_keys
        return count

    # --- the copies --------------------------------------------------------------------------------------------------

    def _clean_group(
        self, group: Sequence[LogSegment], cleaner: BatchCleaner, transactions: CleanedTransactions
    ) -> None:
        cleaned = begin_cleaned(self._log.local, group[0].base_offset)
        try:
            changed = self._copy(group, cleaned, cleaner, transactions)
            if not changed and len(group) == 1:
                cleaned.remove()
            else:
                cleaned.finish()
                cleaned.sync(indexes=True)
                self._files.set_modified_ms(cleaned.path, group[-1].modified_ms())
                replace_segments(self._log.local, group, cleaned)
        except KafkaError:
            raise  # the new segment is in place, under its temporary name
        except Exception:  # after any error the incomplete segment is removed
            _discard(cleaned)
            raise
        self.report.segments_after += 1
        self.report.records_read += cleaner.records_read

    def _copy(
        self,
        group: Sequence[LogSegment],
        cleaned: LogSegment,
        cleaner: BatchCleaner,
        transactions: CleanedTransactions,
    ) -> bool:
        """Fill the new segment; whether it differs from the originals."""
        out = _Writer(cleaned, self._buffer_bytes, self._spend_written)
        changed = False
        for segment in group:
            next_base = self._view.bases[self._view.floor(segment.base_offset) + 1]
            transactions.expect(self._aborted(segment.base_offset, next_base))
            cleaner.at_segment(modified_ms=segment.modified_ms())
            for header, data in self._batches(segment, 0):
                kept = cleaner.clean(data, header)
                changed = changed or kept is None or kept.data is not data
                if kept is not None:
                    out.write(kept)
                    self.report.records_kept += kept.records_kept
            out.flush()
            for entry in transactions.take_index_entries():
                cleaned.transaction_index.append(entry)
        return changed

    def _aborted(self, from_offset: int, until_offset: int) -> list[AbortedTransaction]:
        return self._view.aborted_transactions(from_offset, until_offset) if self._has_aborted else []

    def _old_horizon_ms(self) -> int:
        """Tombstones of old formats are dropped from segments last written before this time."""
        clean = [segment for segment in self._view.segments if segment.base_offset < self._dirty.from_offset]
        return clean[-1].modified_ms() - self._config.delete_retention_ms if clean else 0

    # --- reading and writing -----------------------------------------------------------------------------------------

    def _batches(self, segment: LogSegment, position: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Each batch from a position on, with its bytes, whose CRC is correct."""
        wanted, unrested = self._buffer_bytes, 0
        while position < segment.size:
            block = segment.file().read_at(position, min(wanted, segment.size - position))
            self._limits.spend(len(block))
            self.report.bytes_read += len(block)
            at, wanted = 0, self._buffer_bytes
            while at < len(block):
                try:
                    header = read_any(block, at)
                    data = block[at : at + header.size_in_bytes]
                    check_any_crc(data, 0, header)
                except IncompleteBatch as error:
                    if at:
                        break  # the next read returns the complete batch
                    wanted = next(segment.headers(position, segment.size))[1].size_in_bytes
                    if len(block) >= min(wanted, segment.size - position):
                        raise error.placed(start=position, file=segment.path) from None
                    break
                except UnreadableBatch as error:
                    raise error.placed(start=position, file=segment.path) from None
                yield header, data
                at += header.size_in_bytes
                unrested += header.size_in_bytes
                if unrested > _BYTES_BETWEEN_RESTS:
                    self._limits.rest()
                    unrested = 0
            position += at

    def _spend_written(self, size: int) -> None:
        self.report.bytes_written += size
        self._limits.spend(size)


class _Writer:
    """Buffers batches and appends them to a segment many at a time."""

    def __init__(self, segment: LogSegment, buffer_bytes: int, spend: Callable[[int], None]) -> None:
        self._segment = segment
        self._buffer_bytes = buffer_bytes
        self._spend = spend
        self._data = bytearray()
        self._placed: list[PlacedBatch] = []

    def write(self, batch: CleanedBatch) -> None:
        self._placed.append(
            PlacedBatch(
                position=len(self._data),
                size=len(batch.data),
                last_offset=batch.last_offset,
                max_timestamp=batch.max_timestamp,
            )
        )
        self._data += batch.data
        if len(self._data) >= self._buffer_bytes:
            self.flush()

    def flush(self) -> None:
        if self._data:
            self._segment.append(self._data, self._placed)
            self._spend(len(self._data))
            self._data, self._placed = bytearray(), []


def group_segments(
    segments: Sequence[LogSegment], config: LogConfig, *, until_offset: int
) -> list[tuple[LogSegment, ...]]:
    """Groups of consecutive segments that fit into one segment and its indexes.

    ``until_offset`` is the end of the last segment.
    """
    groups: list[list[LogSegment]] = []
    log_bytes = index_bytes = time_index_bytes = 0
    for index, segment in enumerate(segments):
        log_bytes += segment.size
        index_bytes += segment.offset_index.size_in_bytes
        time_index_bytes += segment.time_index.size_in_bytes
        end = segments[index + 1].base_offset if index + 1 < len(segments) else until_offset
        if (
            groups
            and log_bytes <= config.segment_bytes
            and max(index_bytes, time_index_bytes) <= config.segment_index_bytes
            and (segment.size == 0 or end - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            log_bytes, index_bytes = segment.size, segment.offset_index.size_in_bytes
            time_index_bytes = segment.time_index.size_in_bytes
    return [tuple(group) for group in groups]


def _discard(cleaned: LogSegment) -> None:
    try:
        cleaned.remove()
    except OSError as error:
        logger.warning("%s cannot be removed before the next start: %s", cleaned.path, error)
