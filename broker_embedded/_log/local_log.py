"""The files of one partition: its segments, the view that readers use, and the flushed offset.

The steps of a flush, after which everything before an offset survives a crash:

1. Every segment since the last flush is synced, and the index files of those that are complete; then the producers'
   snapshots, the leader epochs, and the directory if it has new names. Crash here: nothing has changed.
2. The recovery point moves to the start of the segment that was active. Everything before the recovery point is on the
   disk, indexes included. It takes effect when the manager writes it to a checkpoint.

Complete segments are flushed soon after they were rolled, independently of ``flush.messages`` and ``flush.ms``, so that
recovery after a crash reads little more than the active segment.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn
from uuid import UUID

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.append.producer_store import ProducerStore
from broker_embedded._log.leader_epochs import LeaderEpochFileCache
from broker_embedded._log.recovery import LoadedSegments
from broker_embedded._log.segment import LogSegment, PlacedBatch, UncutTail
from broker_embedded._log.view import LogView
from broker_embedded._platform.open_files import OUT_OF_DESCRIPTORS
from broker_embedded._platform.platform import Buffer, FileSystem, Platform, remove_if_exists
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import UnreadableBatch

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogParts:
    """The parts of a log, as read from the disk and repaired."""

    directory: str
    partition: TopicPartition
    topic_id: UUID | None
    loaded: LoadedSegments
    epochs: LeaderEpochFileCache
    producers: ProducerStore


class LocalLog:
    """The segments of one partition. It knows the producers' snapshots and the leader epochs as files to flush.

    Locks are taken in this order: ``flush_lock``, ``names_lock``, ``lock``. ``lock`` is held while the log's state
    changes, appends included, and never while waiting for the disk to sync. ``names_lock`` is held while files of
    segments are renamed.

    ``view`` is a value that is replaced as a whole under ``lock``; readers take it without a lock. ``offline`` is the
    error that took the log offline, or None. ``names_changed``: files were created, renamed or removed since
    the directory was synced.

    Everything before ``flushed_offset`` survives a crash. Everything before ``recovery_point`` is on the disk, indexes
    included; it may be written to a checkpoint.
    """

    def __init__(self, parts: LogParts, config: LogConfig, platform: Platform) -> None:
        loaded = parts.loaded
        self.partition = parts.partition
        self.directory = parts.directory
        self.config = config
        self.platform = platform
        self.view = LogView.of(tuple(loaded.segments), loaded.log_end_offset)
        self.offline: str | None = None
        self.flushed_offset = loaded.recovery_point
        self.recovery_point = loaded.recovery_point
        self.names_changed = loaded.names_changed
        self.flush_lock = threading.RLock()
        self.names_lock = threading.RLock()
        self.lock = threading.RLock()
        self._producers = parts.producers
        self._epochs = parts.epochs
        self._last_flush_ms = platform.clock.elapsed_ms()
        self._retired = RetiredSegments(platform.file_system)

    def __str__(self) -> str:
        return str(self.partition)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all ``.log`` files."""
        return sum(segment.size for segment in self.view.segments)

    # --- errors ------------------------------------------------------------------------------------------------------

    def check_online(self) -> None:
        """Raise KafkaError KAFKA_STORAGE_ERROR if the log is offline."""
        if self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} is offline: {self.offline}")

    def fail(self, what: str, error: Exception) -> NoReturn:
        """Log an error and raise it as KafkaError: CORRUPT_MESSAGE for an UnreadableBatch, else KAFKA_STORAGE_ERROR."""
        logger.error("%s: %s: %s", self, what, error)
        code = ErrorCode.CORRUPT_MESSAGE if isinstance(error, UnreadableBatch) else ErrorCode.KAFKA_STORAGE_ERROR
        raise KafkaError(code, f"{self}: {what}: {error}") from error

    def go_offline(self, what: str, error: Exception) -> NoReturn:
        """As ``fail``, and the log is offline until it is opened again, which recovers it."""
        self.offline = f"{what}: {error}"
        self.fail(f"{what}, and goes offline", error)

    # --- growing -----------------------------------------------------------------------------------------------------

    def append(self, data: Buffer, batches: Iterable[PlacedBatch]) -> None:
        """Write batches to the active segment. Readers see them once ``view`` is replaced. The caller holds ``lock``.

        Raises KafkaError KAFKA_STORAGE_ERROR: nothing was appended.
        """
        try:
            self.view.segments[-1].append(data, batches)
        except UncutTail as error:
            self.go_offline("cannot cut off the bytes of a failed append", error)
        except OSError as error:
            self.fail("cannot append", error)

    def roll(self) -> None:
        """Start a new segment, unless the active one is empty. Raises KafkaError; nothing has changed then."""
        with self.lock:
            self.check_online()
            try:
                self.start_segment()
            except OSError as error:
                self.fail("cannot start a new segment", error)

    def start_segment(self) -> None:
        """As ``roll``, but raises OSError. The caller holds ``lock``."""
        view = self.view
        if view.active.size:
            view.active.finish()
            self._producers.take(view.end_offset)
            segment = LogSegment.create(self.directory, view.end_offset, self.config, self.platform)
            self.names_changed = True
            self.view = LogView.of((*view.segments, segment), view.end_offset)

    # --- flushing ----------------------------------------------------------------------------------------------------

    @property
    def unflushed(self) -> int:
        """Offsets between ``flushed_offset`` and the end of the log."""
        return self.view.end_offset - self.flushed_offset

    def flush_due(self, elapsed_ms: int) -> bool:
        """Whether a flush is due by ``flush.ms`` or ``flush.messages``."""
        unflushed, waited = self.unflushed, elapsed_ms - self._last_flush_ms
        return unflushed >= self.config.flush_messages or (unflushed > 0 and waited >= self.config.flush_ms)

    def flush(self) -> None:
        """Return once everything appended before the call survives a crash. May run beside appends and reads.

        Raises KafkaError KAFKA_STORAGE_ERROR. The log is offline then, because the system may have dropped unwritten
        pages, except if a file could not be opened for lack of descriptors.
        """
        with self.flush_lock:
            self.check_online()
            view = self.view
            self._sync(view, until=len(view.segments), complete=view.active.base_offset)
            with self.lock:
                self.recovery_point = max(self.recovery_point, view.active.base_offset)
                self._last_flush_ms = self.platform.clock.elapsed_ms()

    def flush_rolled(self) -> bool:
        """As ``flush``, for every segment but the active one. Returns whether a flush was necessary."""
        if self.recovery_point >= self.view.bases[-1]:
            return False
        with self.flush_lock:
            self.check_online()
            view = self.view
            self._sync(view, until=len(view.segments) - 1, complete=view.active.base_offset)
            with self.lock:
                self.recovery_point = max(self.recovery_point, view.active.base_offset)
        return True

    def _sync(self, view: LogView, *, until: int, complete: int) -> None:
        """Sync the unflushed ones of the first ``until`` segments of a view, the snapshots and the leader epochs.

        Indexes are synced for segments before the offset ``complete``.
        """
        with self.lock:
            snapshots = self._producers.unsynced()
            names_changed, self.names_changed = self.names_changed, False
        try:
            for segment in view.segments[view.floor(min(self.recovery_point, self.flushed_offset)) : until]:
                self._sync_segment(segment, indexes=segment.base_offset < complete)
            self._producers.sync(snapshots)
            names_changed = self._epochs.save_if_changed() or names_changed
            if names_changed:
                self.platform.file_system.sync_directory(self.directory)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                self.go_offline("cannot flush", error)
            with self.lock:  # no file was opened, so no write was lost, and a later flush can repeat it
                self._producers.not_synced(snapshots)
                self.names_changed = self.names_changed or names_changed
            self.fail("cannot flush", error)
        end_offset = view.end_offset if until == len(view.segments) else view.bases[until]
        with self.lock:
            self.flushed_offset = max(self.flushed_offset, end_offset)

    def _sync_segment(self, segment: LogSegment, *, indexes: bool) -> None:
        try:
            segment.sync(indexes=indexes)
        except FileNotFoundError:
            if segment in self.view.segments:
                raise
            # Retention or the cleaner has removed it in the meantime.

    # --- shrinking ---------------------------------------------------------------------------------------------------

    def drop_first(self, count: int) -> tuple[LogSegment, ...]:
        """Remove the first segments from the view, and return them for ``delete_segments``. The caller holds ``lock``.

        At least one segment must be left.
        """
        dropped, kept = self.view.segments[:count], self.view.segments[count:]
        self.view = LogView.of(kept, self.view.end_offset)
        return dropped

    def delete_segments(self, dropped: Iterable[LogSegment]) -> None:
        """Rename the files of segments that are no longer in the view to ``.deleted``, and ``retire`` them.

        The caller holds ``names_lock``.
        """
        for segment in dropped:
            segment.rename_deleted()
            with self.lock:
                self.names_changed = True
                self.retire([segment], self.platform.clock.elapsed_ms(), snapshots=[segment.base_offset])

    def retire(self, segments: Iterable[LogSegment], elapsed_ms: int, *, snapshots: Iterable[int]) -> None:
        """Let ``remove_retired`` remove the segments' files after ``file.delete.delay.ms``, counted from a time.

        The producers' snapshots at the offsets ``snapshots`` are removed at once.
        """
        with self.lock:
            self._retired.add(segments, elapsed_ms + self.config.file_delete_delay_ms)
            self._producers.remove(snapshots)

    def remove_retired(self, elapsed_ms: int) -> int:
        """Remove the files of retired segments that are due; how many."""
        with self.lock:
            due = self._retired.take_due(elapsed_ms)
        return self._retired.remove(due)

    def truncate_to(self, offset: int) -> int:
        """Steps 1 and 2 of ``Log.truncate_to``. Returns the new end offset. The caller holds all locks.

        Raises OSError, UnreadableBatch, CorruptIndex.
        """
        view = self.view
        index = view.floor(offset)
        for segment in reversed(view.segments[index + 1 :]):
            segment.rename_deleted()
            segment.remove()
        self.platform.file_system.sync_directory(self.directory)
        kept = view.segments[: index + 1]
        end_offset = kept[-1].truncate_to(offset)
        self.view = LogView.of(kept, end_offset)
        self.flushed_offset = min(self.flushed_offset, end_offset)
        self.recovery_point = min(self.recovery_point, kept[-1].base_offset)
        return end_offset

    def replace_in_view(self, originals: Sequence[LogSegment], cleaned: LogSegment) -> None:
        """Replace the original segments in the view by the compacted one."""
        with self.lock:
            kept = [segment for segment in self.view.segments if segment not in originals]
            segments = sorted([*kept, cleaned], key=lambda segment: segment.base_offset)
            self.view = LogView.of(tuple(segments), self.view.end_offset)

    # --- closing -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush everything, indexes and producers included, and close the files. A second call does nothing.

        1. The active segment's index files are completed, a snapshot of the producers is written.
        2. All is synced. Crash before this returns: recovery, as after any crash.

        From then on the recovery point is the end of the log. The manager writes it to the checkpoint, and then
        ``.kafka_cleanshutdown``, without which the next start runs recovery.

        Raises KafkaError KAFKA_STORAGE_ERROR: the log is closed, but not cleanly.
        """
        with self.flush_lock, self.names_lock, self.lock:
            if self.offline is not None:
                return
            try:
                self._close(self.view)
            finally:
                self.offline = self.offline or "it is closed"
                self._close_files()

    def _close(self, view: LogView) -> None:
        if self.unflushed == 0 and not self.names_changed and self.recovery_point >= view.end_offset:
            return
        try:
            view.active.finish()
            if view.end_offset > max(self._producers.snapshots, default=0):
                self._producers.take(view.end_offset)
                self.names_changed = True
        except OSError as error:
            self.go_offline("cannot close", error)
        self._sync(view, until=len(view.segments), complete=view.end_offset + 1)
        self.recovery_point = view.end_offset

    def delete(self, directory: str) -> None:
        """Set the log offline, and rename its directory. Raises OSError: the directory has its old name.

        No rename or sync of the log's files is in progress when this returns, and none begins later. Responses that
        contain regions of the log can be sent until the directory is removed.
        """
        self.offline = self.offline or "it was deleted"  # at once, for a cleaning in progress
        with self.flush_lock, self.names_lock, self.lock:
            segments = (*self.view.segments, *self._retired.segments)
            parts = [part for segment in segments for _, part in segment.parts()]
            self.platform.open_files.rename_directory(self.directory, directory, parts)

    def abandon(self) -> None:
        """Set the log offline, and close its files without writing anything."""
        self.offline = self.offline or "it was abandoned"
        with self.flush_lock, self.names_lock, self.lock:
            self._close_files()

    def _close_files(self) -> None:
        """Close all segments. Unsent regions cannot be sent any more, because another topic may get the file names."""
        for segment in self.view.segments:
            segment.close()
        self._retired.close()


class RetiredSegments:
    """Deleted segments of a log, and the time at which their files may be removed.

    Times are those of ``Clock.elapsed_ms``, so that setting the system's clock changes no delay. After a crash the next
    start removes the files.
    """

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._waiting: list[tuple[int, LogSegment]] = []

    @property
    def segments(self) -> list[LogSegment]:
        """The segments whose files are not removed yet."""
        return [segment for _, segment in self._waiting]

    def add(self, segments: Iterable[LogSegment], due_ms: int) -> None:
        """Remove the files of these segments from ``due_ms`` on."""
        self._waiting += [(due_ms, segment) for segment in segments]

    def take_due(self, elapsed_ms: int) -> list[LogSegment]:
        """The segments that are due; the caller passes them to ``remove``."""
        due = [segment for due_ms, segment in self._waiting if due_ms <= elapsed_ms]
        self._waiting = [(due_ms, segment) for due_ms, segment in self._waiting if due_ms > elapsed_ms]
        return due

    def remove(self, segments: Iterable[LogSegment]) -> int:
        """Remove the files of segments; how many. A file that cannot be removed stays until the next start.

        Connections whose responses still contain regions of the files are closed.
        """
        removed = 0
        for segment in segments:
            paths = segment.paths()
            segment.close()
            for path in paths:
                try:
                    removed += remove_if_exists(self._file_system, path)
                except OSError as error:
                    logger.warning("%s cannot be removed: %s", path, error)
        return removed

    def close(self) -> None:
        """Close the segments without removing files."""
        for _, segment in self._waiting:
            segment.close()
