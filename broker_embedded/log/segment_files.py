"""The names of a segment's files.

A name is ``{base_offset:020d}``, the suffix of the file, and for a file that is not in use another suffix: ``.cleaned``
and ``.swap`` during a compaction, ``.deleted`` before the removal.
"""

from dataclasses import dataclass
from typing import Final

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"
TEMPORARY: Final = ".tmp"


def segment_path(directory: str, offset: int, suffix: str) -> str:
    """The path of a file that belongs to an offset: 20 digits and a suffix."""
    return f"{directory}/{offset:020d}{suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """Sizes of a segment's files from a directory listing; -1 for a missing file."""

    log: int = -1
    index: int = -1
    time_index: int = -1
    txn_index: int = -1
