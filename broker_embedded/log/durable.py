"""Bringing a log to the disk, and letting go of it.

Flushing makes everything before an offset survive a crash:

1. Every segment since the last flush is synced, and the index files of those that are complete; then the producers'
   snapshots, the leader epochs, and the directory if it has new names. Crash here: as if it had not begun.
2. The recovery point moves to the start of what was the active segment. It never says more than that all before it is
   on the disk, indexes included; the manager writes it to a checkpoint, before which it counts for nothing.

Complete segments are flushed soon after they were rolled, whatever ``flush.messages`` and ``flush.ms`` say, so that a
crash costs the recovery of little more than the active one.
"""

import threading

from broker_embedded.config.log_config import LogConfig
from broker_embedded.log.opening import LogParts
from broker_embedded.log.readable import ReadableLog
from broker_embedded.log.retired import RetiredSegments
from broker_embedded.log.segment import LogSegment
from broker_embedded.log.view import LogView
from broker_embedded.platform.descriptors import OUT_OF_DESCRIPTORS
from broker_embedded.platform.platform import Platform


class DurableLog(ReadableLog):
    """How far a log is on the disk. Locks are taken in this order: flush, names, the log's own.

    The log's own lock is held while its state changes, appends included, and never while waiting for the disk to sync.
    The lock of names is held while files of segments get other names.
    """

    def __init__(self, parts: LogParts, config: LogConfig, platform: Platform) -> None:
        super().__init__(parts, config, platform)
        self._flushed_offset = parts.loaded.recovery_point
        self._recovery_point = parts.loaded.recovery_point
        self._last_flush_ms = platform.clock.elapsed_ms()
        self._names_changed = parts.loaded.names_changed
        self._retired = RetiredSegments(platform.file_system)
        self._flush_lock = threading.RLock()
        self._names_lock = threading.RLock()
        self._lock = threading.RLock()

    @property
    def recovery_point(self) -> int:
        """Everything before this offset is on the disk, indexes included: what a checkpoint may say."""
        return self._recovery_point

    @property
    def flushed_offset(self) -> int:
        """Everything before this offset survives a crash."""
        return self._flushed_offset

    # --- flushing ----------------------------------------------------------------------------------------------------

    def _unflushed(self) -> int:
        return self._view.end_offset - self._flushed_offset

    def flush_due(self, elapsed_ms: int) -> bool:
        """Whether ``flush.ms`` or ``flush.messages`` asks for a flush now."""
        unflushed, waited = self._unflushed(), elapsed_ms - self._last_flush_ms
        return unflushed >= self.config.flush_messages or (unflushed > 0 and waited >= self.config.flush_ms)

    def flush(self) -> None:
        """Return once everything appended before the call survives a crash. May run beside appends and reads.

        Raises KafkaError KAFKA_STORAGE_ERROR. The log is offline then, because the system may have dropped what it
        could not write, except if a file could not be opened for lack of descriptors.
        """
        with self._flush_lock:
            self._check_online()
            view = self._view
            self._sync(view, until=len(view.segments), complete=view.active.base_offset)
            with self._lock:
                self._recovery_point = max(self._recovery_point, view.active.base_offset)
                self._last_flush_ms = self._platform.clock.elapsed_ms()

    def flush_rolled(self) -> bool:
        """Make every segment but the active one survive a crash; whether there was anything to do. As ``flush``."""
        if self._recovery_point >= self._view.bases[-1]:
            return False
        with self._flush_lock:
            self._check_online()
            view = self._view
            self._sync(view, until=len(view.segments) - 1, complete=view.active.base_offset)
            with self._lock:
                self._recovery_point = max(self._recovery_point, view.active.base_offset)
        return True

    def _sync(self, view: LogView, *, until: int, complete: int) -> None:
        """Sync what is not on the disk yet of a view's first segments; indexes of those before the offset ``complete``.

        ``until`` counts the segments.
        """
        with self._lock:
            snapshots = self._producers.unsynced()
            names_changed, self._names_changed = self._names_changed, False
        try:
            for segment in view.segments[view.floor(min(self._recovery_point, self._flushed_offset)) : until]:
                self._sync_segment(segment, indexes=segment.base_offset < complete)
            self._producers.sync(snapshots)
            names_changed = self._epochs.save_if_changed() or names_changed
            if names_changed:
                self._platform.file_system.sync_directory(self.directory)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                self._go_offline("cannot flush", error)
            with self._lock:  # no file was opened, so no write was lost: a later flush can repeat all of it
                self._producers.not_synced(snapshots)
                self._names_changed = self._names_changed or names_changed
            self._fail("cannot flush", error)
        end_offset = view.end_offset if until == len(view.segments) else view.bases[until]
        with self._lock:
            self._flushed_offset = max(self._flushed_offset, end_offset)

    def _sync_segment(self, segment: LogSegment, *, indexes: bool) -> None:
        try:
            segment.sync(indexes=indexes)
        except FileNotFoundError:
            if segment in self._view.segments:
                raise
            # Retention or the cleaner has taken it in the meantime.

    # --- letting go --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Make everything durable, indexes and producers included, and let go of the files. A second call does nothing.

        1. The active segment's index files are completed, a snapshot of the producers is written.
        2. All is synced. Crash before this returns: recovery, as after any crash.

        From then on the recovery point is the end of the log. The manager writes it down, and then that the shutdown
        was clean, which alone spares the next start the recovery.

        Raises KafkaError KAFKA_STORAGE_ERROR: the log is closed, but not cleanly.
        """
        with self._flush_lock, self._names_lock, self._lock:
            if self._offline is not None:
                return
            try:
                self._close(self._view)
            finally:
                self._offline = self._offline or "it is closed"
                self._let_go()

    def _close(self, view: LogView) -> None:
        if self._unflushed() == 0 and not self._names_changed and self._recovery_point >= view.end_offset:
            return
        try:
            view.active.finish()
            if view.end_offset > max(self._producers.snapshots, default=0):
                self._producers.take(view.end_offset)
                self._names_changed = True
        except OSError as error:
            self._go_offline("cannot close", error)
        self._sync(view, until=len(view.segments), complete=view.end_offset + 1)
        self._recovery_point = view.end_offset

    def delete(self, directory: str) -> None:
        """Take the log out of use, and rename its directory. Raises OSError: the directory has its old name.

        No rename or sync of the log's files is in progress when this returns, and none begins later. Responses that
        contain regions of the log can be sent until the directory is removed.
        """
        self._offline = self._offline or "it was deleted"  # at once, for a cleaning in progress
        with self._flush_lock, self._names_lock, self._lock:
            segments = (*self._view.segments, *self._retired.segments)
            parts = [part for segment in segments for part in segment.parts()]
            self._platform.open_files.rename_directory(self.directory, directory, parts)

    def abandon(self) -> None:
        """Take the log out of use, and close its files without writing anything."""
        self._offline = self._offline or "it was abandoned"
        with self._flush_lock, self._names_lock, self._lock:
            self._let_go()

    def _let_go(self) -> None:
        """Close all segments. Regions that were not sent cannot be sent: another topic may get the files' names."""
        for segment in self._view.segments:
            segment.close()
        self._retired.close()

    # --- files of the past -------------------------------------------------------------------------------------------

    def remove_retired(self, elapsed_ms: int) -> int:
        """Remove the files whose time has come; how many."""
        with self._lock:
            due = self._retired.take_due(elapsed_ms)
        return self._retired.remove(due)

    def use_producer_id_expiration(self, expiration_ms: int) -> None:
        """Forget idempotent producers after this time from now on."""
        with self._lock:
            self._producers.states.expiration_ms = expiration_ms

    def expire_producers(self, now_ms: int) -> int:
        """Forget the idempotent producers that were silent for too long; how many."""
        with self._lock:
            return self._producers.states.expire(now_ms)
