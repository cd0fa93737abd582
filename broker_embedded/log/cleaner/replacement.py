"""Putting a compacted segment in place of its originals, in an order in which every crash leaves a log that opens.

The names are those that Apache Kafka gives, and what the start makes of them is in ``recovery``:

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

from collections.abc import Sequence

from broker_embedded.log.local_log import LocalLog
from broker_embedded.log.segment import LogSegment
from broker_embedded.log.segment_files import CLEANED, SWAP
from broker_embedded.platform.open_files import OUT_OF_DESCRIPTORS


class CleaningAborted(Exception):
    """A log under compaction was closed, deleted or truncated, or retention deleted its segments. Nothing changed."""


def begin_cleaned(log: LocalLog, base_offset: int) -> LogSegment:
    """A new segment under names that end in ``.cleaned``. Raises OSError, CleaningAborted: the log is offline."""
    with log.names_lock:
        _check_cleaning(log)
        return LogSegment.create(log.directory, base_offset, log.config, log.platform, suffix=CLEANED)


def replace_segments(log: LocalLog, originals: Sequence[LogSegment], cleaned: LogSegment) -> None:
    """Put a compacted segment, complete and synced, in place of those it was made of: steps 2 to 5 of the module.

    Raises CleaningAborted: the log is offline, or one of the originals is not in it any more. OSError: the disk
    fails. Either way nothing has changed. KafkaError KAFKA_STORAGE_ERROR: it failed midway, the log is offline.
    """
    with log.names_lock:
        _check_cleaning(log, originals)
        _rename_to_swap(log, cleaned)
        log.replace_in_view(originals, cleaned)
        try:
            _rename_to_last(log, originals, cleaned)
        except OSError as error:
            for segment in originals:  # nothing owns their files any more, and other files may get the names
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
        except OSError:  # if it stayed, a later start would put it in place of the segments that replaced it by then
            log.go_offline("cannot undo a compaction", error)
        log.names_changed = True
        raise


def _rename_to_last(log: LocalLog, originals: Sequence[LogSegment], cleaned: LogSegment) -> None:
    elapsed_ms = log.platform.clock.elapsed_ms()
    for segment in originals:
        segment.rename(segment.deleted_suffix())
    cleaned.rename("")
    try:
        log.platform.file_system.sync_directory(log.directory)
    except OSError as error:
        if error.errno not in OUT_OF_DESCRIPTORS:
            raise
        log.names_changed = True  # the next flush syncs the directory
    log.retire(originals, elapsed_ms, snapshots=[segment.base_offset for segment in originals[1:]])
