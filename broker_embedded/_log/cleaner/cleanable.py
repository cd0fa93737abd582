"""The cleanable range of a log, and whether its compaction is due."""

import logging
from dataclasses import dataclass

from broker_embedded._config.settings import LONG_MAX
from broker_embedded._log.log import Log
from broker_embedded._log.view import LogView

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanableRange:
    """The offsets whose keys a compaction reads, from the first dirty offset to the start of a segment.

    ``clean_bytes`` are the bytes before them, ``dirty_bytes`` those of their segments. ``overdue_ms`` is the time since
    ``max.compaction.lag.ms`` has passed, or 0.
    """

    from_offset: int
    until_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int

    @property
    def dirty_ratio(self) -> float:
        """The share of dirty bytes."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, min_dirty_ratio: float) -> bool:
        """Whether to compact: the dirty ratio is reached, or a record is overdue."""
        return (self.overdue_ms > 0 and self.dirty_bytes > 0) or self.dirty_ratio > min_dirty_ratio


def first_dirty_offset(log: Log, cleaned_until: int | None) -> int:
    """The first dirty offset of a log that was compacted up to ``cleaned_until``, or never (None).

    ``cleaned_until`` is ignored if it is not in the log any more.
    """
    start = log.log_start_offset
    if cleaned_until is None:
        return start
    if cleaned_until > log.log_end_offset:
        logger.warning(
            "%s: compacted up to %d, but ends at %d: compacting from the start", log, cleaned_until, log.log_end_offset
        )
        return start
    return max(start, cleaned_until)


def cleanable_range(log: Log, from_offset: int, now_ms: int) -> CleanableRange:
    """The cleanable range of a log that is dirty from an offset on.

    It ends before the active segment, before the last stable offset, because later records may be aborted, and before
    the first segment with a record younger than ``min.compaction.lag.ms``.

    Raises OSError, UnreadableBatch, CorruptIndex.
    """
    view, config = log.local.view, log.config
    limit = min(log.last_stable_offset, view.active.base_offset)
    if config.min_compaction_lag_ms > 0:
        limit = min(limit, _first_too_young(view, from_offset, now_ms - config.min_compaction_lag_ms))
    first_kept = view.floor(max(from_offset, limit))
    until_offset = view.bases[first_kept]
    dirty = view.segments[view.floor(min(from_offset, until_offset)) : first_kept]
    overdue_ms = 0
    if config.max_compaction_lag_ms < LONG_MAX:
        overdue_ms = _overdue_ms(view, from_offset, now_ms - config.max_compaction_lag_ms)
    return CleanableRange(
        from_offset=from_offset,
        until_offset=until_offset,
        clean_bytes=sum(segment.size for segment in view.segments if segment.base_offset < from_offset),
        dirty_bytes=sum(segment.size for segment in dirty),
        overdue_ms=overdue_ms,
    )


def _first_too_young(view: LogView, from_offset: int, youngest_ms: int) -> int:
    for segment in view.segments[view.floor(from_offset) : -1]:
        if segment.retention_timestamp() > youngest_ms:
            return segment.base_offset
    return view.active.base_offset


def _overdue_ms(view: LogView, from_offset: int, latest_ms: int) -> int:
    """How much older than ``latest_ms`` the oldest dirty complete segment's first batch is."""
    firsts = [segment.first_timestamp() for segment in view.segments[view.floor(from_offset) : -1]]
    return max(0, latest_ms - min((first for first in firsts if first > 0), default=latest_ms))
