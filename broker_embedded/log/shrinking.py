"""Making a log smaller: retention, DeleteRecords, truncation, and compacted segments in place of what they came from.

Putting a compacted segment in place of its originals, in an order in which every crash leaves a log that opens; the
names are those that Apache Kafka gives, and what the start makes of them is in ``recovery``:

1. The new segment is written under names that end in ``.cleaned``, its indexes completed, everything synced. Crash
   here: the start removes it, the originals stand.
2. Its files are renamed to ``.swap``, and the directory is synced. Crash here: while one file is still ``.cleaned`` the
   start removes the set, the originals stand. With the last rename the new segment counts: the start does the rest.
3. The view that readers get holds the new segment. No crash undoes step 2 any more.
4. The originals are renamed to ``.deleted``, the oldest first. Crash here: the start removes all that the new segment
   stands for.
5. The new segment's files lose ``.swap``, the log first, and the directory is synced. Crash here: the start renames the
   others, and makes an index anew that went missing.
6. ``file.delete.delay.ms`` later ``remove_retired`` removes the originals. Crash here: the start removes them.

An error up to step 2 is undone, and the log is as it was. Behind it the log goes offline, and opening it does the rest.

Between compacted segments offsets are missing, as between any two records there. The cleaner sees to it that the
recovery point, on the disk, is behind what it compacts, so that recovery does not take a gap for a loss.
"""

import logging
from collections.abc import Sequence

from broker_embedded.log.append.producer_state import LastRecord
from broker_embedded.log.durable import DurableLog
from broker_embedded.log.index import CorruptIndex
from broker_embedded.log.retention import count_deletable
from broker_embedded.log.segment import LogSegment
from broker_embedded.log.segment_files import CLEANED, SWAP
from broker_embedded.log.view import LogView
from broker_embedded.platform.descriptors import OUT_OF_DESCRIPTORS
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.records.batch import UnreadableBatch

logger = logging.getLogger(__name__)


class CleaningAborted(Exception):
    """A log under compaction was closed, deleted or cut, or retention took what was compacted. Nothing has changed."""


class ShrinkingLog(DurableLog):
    """What takes records out of a log, and begins segments, which retention needs."""

    @property
    def starts_within_segment(self) -> bool:
        """Whether DeleteRecords has hidden part of the first segment, so that only a checkpoint knows the start."""
        return self._log_start_offset > self._view.bases[0]

    # --- rolling -----------------------------------------------------------------------------------------------------

    def roll(self) -> None:
        """Start a new segment, unless the active one is empty. Raises KafkaError; nothing has changed then."""
        with self._lock:
            self._check_online()
            try:
                self._roll()
            except OSError as error:
                self._fail("cannot start a new segment", error)

    def _roll(self) -> None:
        view = self._view
        if view.active.size:
            view.active.finish()
            self._producers.take(view.end_offset)
            segment = LogSegment.create(self.directory, view.end_offset, self.config, self._platform)
            self._names_changed = True
            self._view = LogView.of((*view.segments, segment), view.end_offset)

    # --- retention ---------------------------------------------------------------------------------------------------

    def delete_old_segments(self) -> int:
        """Let go of the segments that retention has no use for; how many.

        1. If the active segment is one of them, a new one is started, or if it cannot be, the active one stays: a full
           disk must not keep the others from going. Crash here: as in appending.
        2. The log start offset moves behind them, readers no longer find them. Who has a file open goes on reading.
        3. Their files are renamed to ``.deleted``, the oldest first. Crash here: those not renamed, or whose renaming
           is lost, are back and go the next time; the others are removed at the start.
        4. ``file.delete.delay.ms`` later ``remove_retired`` removes the files. Crash here: removed at the start.

        Raises KafkaError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        with self._names_lock:
            with self._lock:
                self._check_online()
                now_ms = self._platform.clock.now_ms()
                retired = self._take_old(now_ms)
            self._retire(retired)
        return len(retired)

    def _take_old(self, now_ms: int) -> tuple[LogSegment, ...]:
        """Steps 1 and 2: the segments that are in the view no more."""
        view = self._view
        try:
            count, reason = count_deletable(
                view.segments, self.config, log_start_offset=self._log_start_offset, now_ms=now_ms
            )
        except (OSError, UnreadableBatch) as error:
            self._fail("cannot look for old segments", error)
        if count == len(view.segments):
            try:
                self._roll()
            except OSError as error:
                logger.warning("%s: the active segment stays though %s: %s", self, reason, error)
                count -= 1
        if not count:
            return ()
        retired, kept = self._view.segments[:count], self._view.segments[count:]
        logger.info("%s: %d segments up to offset %d go: %s", self, count, kept[0].base_offset, reason)
        self._set_log_start_offset(max(self._log_start_offset, kept[0].base_offset))
        self._view = LogView.of(kept, self._view.end_offset)
        return retired

    def _retire(self, retired: Sequence[LogSegment]) -> None:
        for segment in retired:
            segment.rename_deleted()
            with self._lock:
                self._names_changed = True
                self._retired.add([segment], self._platform.clock.elapsed_ms() + self.config.file_delete_delay_ms)
                self._producers.remove([segment.base_offset])

    # --- DeleteRecords -----------------------------------------------------------------------------------------------

    def delete_records(self, before_offset: int) -> int:
        """Hide the records before an offset, -1 for all; the log start offset that results (KIP-107).

        Whole segments go with the next ``delete_old_segments``. It survives a restart once the manager has written the
        checkpoint of log start offsets.

        Raises KafkaError: POLICY_VIOLATION, ``cleanup.policy`` is ``compact`` alone. OFFSET_OUT_OF_RANGE: the log ends
        before that.
        """
        with self._lock:
            self._check_online()
            if self.config.compacts and not self.config.deletes:
                policy = ",".join(self.config.cleanup_policy)
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION, f"{self}: records cannot be deleted under cleanup.policy={policy}"
                )
            end = self.high_watermark
            offset = end if before_offset == -1 else before_offset
            if not 0 <= offset <= end:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self}: offset {offset} is not between 0 and {end}")
            self._set_log_start_offset(max(self._log_start_offset, offset))
            return self._log_start_offset

    def _set_log_start_offset(self, offset: int) -> None:
        if offset > self._log_start_offset:
            self._log_start_offset = offset
            self._epochs.truncate_from_start(offset)

    # --- truncation --------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Drop the batch that holds ``offset`` and all behind it; the offset that the log now ends at.

        1. Later segments go, the last first, and the directory is synced. Crash here: some of them are gone.
        2. The segment that holds the offset is cut and synced. Crash here: done.
        3. The producers are restored as of the new end.

        A recovery point checkpointed before may lie behind the new end: write the checkpoint before appending again.

        Raises KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR; in the latter case the log is offline.
        """
        with self._flush_lock, self._names_lock, self._lock:
            self._check_online()
            view = self._view
            self._check_range(offset, view)
            if offset == view.end_offset:
                return offset
            try:
                return self._truncate(view, offset)
            except (OSError, UnreadableBatch, CorruptIndex) as error:
                self._go_offline("cannot truncate", error)

    def _truncate(self, view: LogView, offset: int) -> int:
        index = view.floor(offset)
        for segment in reversed(view.segments[index + 1 :]):
            segment.rename_deleted()
            segment.remove()
        self._platform.file_system.sync_directory(self.directory)
        kept = view.segments[: index + 1]
        end_offset = kept[-1].truncate_to(offset)
        self._view = LogView.of(kept, end_offset)
        self._log_start_offset = min(self._log_start_offset, end_offset)
        self._flushed_offset = min(self._flushed_offset, end_offset)
        self._recovery_point = min(self._recovery_point, kept[-1].base_offset)
        self._epochs.truncate_from_end(end_offset)
        self._producers.load(kept, self._producers.snapshots, end_offset=end_offset)
        return end_offset

    # --- compaction --------------------------------------------------------------------------------------------------

    @property
    def view(self) -> LogView:
        """The segments as they are now, for a cleaner."""
        return self._view

    def last_records_of_producers(self) -> dict[int, LastRecord]:
        """What compaction must not take of the producers that are remembered, by producer id."""
        with self._lock:
            return self._producers.states.last_records()

    def begin_cleaned(self, base_offset: int) -> LogSegment:
        """A new segment under names that nobody reads yet. Raises OSError, CleaningAborted: the log is offline."""
        with self._names_lock:
            self._check_cleaning()
            return LogSegment.create(self.directory, base_offset, self.config, self._platform, suffix=CLEANED)

    def replace_segments(self, originals: Sequence[LogSegment], cleaned: LogSegment) -> None:
        """Put a compacted segment, complete and synced, in place of those it was made of; see the module.

        Raises CleaningAborted: the log is offline, or one of the originals is not in it any more. OSError: the disk
        fails. Either way nothing has changed. KafkaError KAFKA_STORAGE_ERROR: it failed midway, the log is offline.
        """
        with self._names_lock:
            self._check_cleaning(originals)
            self._rename_to_swap(cleaned)
            with self._lock:
                kept = [segment for segment in self._view.segments if segment not in originals]
                segments = sorted([*kept, cleaned], key=lambda segment: segment.base_offset)
                self._view = LogView.of(tuple(segments), self._view.end_offset)
            try:
                self._rename_to_last(originals, cleaned)
            except OSError as error:
                for segment in originals:  # nothing owns their files any more, and other files may get the names
                    segment.close()
                self._go_offline("cannot finish a compaction", error)

    def _check_cleaning(self, originals: Sequence[LogSegment] = ()) -> None:
        if self._offline is not None:
            raise CleaningAborted(f"{self}: {self._offline}")
        if not set(originals) <= set(self._view.segments[:-1]):
            raise CleaningAborted(f"{self}: segments under compaction are gone")

    def _rename_to_swap(self, cleaned: LogSegment) -> None:
        try:
            cleaned.rename(SWAP)
            self._platform.file_system.sync_directory(self.directory)
        except OSError as error:
            try:
                cleaned.remove()
            except OSError:  # were it left, a later start would put it in place of what has replaced it by then
                self._go_offline("cannot undo a compaction", error)
            self._names_changed = True
            raise

    def _rename_to_last(self, originals: Sequence[LogSegment], cleaned: LogSegment) -> None:
        elapsed_ms = self._platform.clock.elapsed_ms()
        for segment in originals:
            segment.rename(segment.deleted_suffix())
        cleaned.rename("")
        try:
            self._platform.file_system.sync_directory(self.directory)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
            self._names_changed = True  # the next flush syncs the directory
        with self._lock:
            self._retired.add(originals, elapsed_ms + self.config.file_delete_delay_ms)
            self._producers.remove([segment.base_offset for segment in originals[1:]])
