"""Replacing segments by a compacted segment, in steps after each of which a crash leaves a valid log.

The names are Apache Kafka's; ``recovery`` handles them at the start:

1. The new segment is written under names that end in ``.cleaned``, its indexes completed, everything synced. Crash
   here: the start removes it, the originals stay.
2. Its files are renamed to ``.swap``, and the directory is synced. Crash here: while one file is still ``.cleaned`` the
   start removes the set, the originals stay. After the last rename the start completes the replacement.
3. The view of the readers gets the new segment. From now on no crash undoes step 2.
4. The originals are renamed to ``.deleted``, the oldest first. Crash here: the start removes all originals.
5. The new segment's files lose ``.swap``, the log first, and the directory is synced. Crash here: the start renames the
   other files, and rebuilds a missing index.
6. ``file.delete.delay.ms`` later ``remove_retired`` removes the originals. Crash here: the start removes them.

An error up to step 2 is undone, and the log is unchanged. An error after it takes the log offline, and opening the log
completes the replacement.

Offsets between compacted segments may be missing. The cleaner therefore checkpoints a recovery point after the
compacted part first, so that recovery does not take a gap for a loss.
"""

from collections.abc import Sequence

from broker_embedded._log.local_log import LocalLog
from broker_embedded._log.segment import LogSegment
from broker_embedded._log.segment_files import CLEANED, SWAP, deleted_suffix
from broker_embedded._platform.open_files import OUT_OF_DESCRIPTORS


class CleaningAborted(Exception):
    """A log under compaction was closed, deleted or truncated, or retention deleted its segments. Nothing changed."""


def begin_cleaned(log: LocalLog, base_offset: int) -> LogSegment:
    """A new segment under names that end in ``.cleaned``. Raises OSError, CleaningAborted: the log is offline."""
    with log.names_lock:
        _check_cleaning(log)
        return LogSegment.create(log.directory, base_offset, log.config, log.platform, suffix=CLEANED)


def replace_segments(log: LocalLog, originals: Sequence[LogSegment], cleaned: LogSegment) -> None:
    """Replace the originals by a compacted segment, complete and synced: steps 2 to 5 of the module.

    Raises CleaningAborted: the log is offline, or an original is not in it any more. OSError. After both nothing has
    changed. KafkaError KAFKA_STORAGE_ERROR: an error after step 2, the log is offline.
    """
    with log.names_lock:
        _check_cleaning(log, originals)
        _rename_to_swap(log, cleaned)
        log.replace_in_view(originals, cleaned)
        try:
            _rename_to_last(log, originals, cleaned)
        except OSError as error:
            for segment in originals:  # they are not in the view any more, and other files may get their names
                segment.close()
            log.go_offline("cannot finish a compaction", error)


def _check_cleaning(log: LocalLog, originals: Sequence[LogSegment] = ()) -> None:
    if log.offline is not None:
        raise CleaningAborted(f"{log}: {log.offline}")
    if not set(originals) <= set(log.view.segments[:-1]):
        raise CleaningAborted(f"{log}: segments under compaction are gone")


def _rename_to_swap(log: LocalLog, cleaned: LogSegment) -> None:
    try:
        cleaned.rename(SWAP)
        log.platform.file_system.sync_directory(log.directory)
    except OSError as error:
        try:
            cleaned.remove()
        except OSError:  # a later start would replace newer segments by it
            log.go_offline("cannot undo a compaction", error)
        log.names_changed = True
        raise


def _rename_to_last(log: LocalLog, originals: Sequence[LogSegment], cleaned: LogSegment) -> None:
    elapsed_ms = log.platform.clock.elapsed_ms()
    for segment in originals:
        segment.rename(deleted_suffix(log.platform.file_system, log.directory, segment.base_offset))
    cleaned.rename("")
    try:
        log.platform.file_system.sync_directory(log.directory)
    except OSError as error:
        if error.errno not in OUT_OF_DESCRIPTORS:
            raise
        log.names_changed = True  # the next flush syncs the directory
    log.retire(originals, elapsed_ms, snapshots=[segment.base_offset for segment in originals[1:]])
