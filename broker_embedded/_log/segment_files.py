"""The names of a segment's files.

A name is ``{base_offset:020d}``, the suffix of the file, and for a file that is not in use another suffix: ``.cleaned``
and ``.swap`` during a compaction, ``.deleted`` before the removal.
"""

import itertools
from dataclasses import dataclass
from typing import Final

from broker_embedded._platform.platform import FileSystem

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


def deleted_suffix(files: FileSystem, directory: str, base_offset: int) -> str:
    """``.deleted``, or ``.1.deleted`` and so on if an earlier deleted segment of this base offset has the name.

    A client may still receive the earlier segment, so that its file must not be replaced. Raises OSError.
    """
    suffix = DELETED
    for number in itertools.count(1):
        if not files.exists(segment_path(directory, base_offset, LOG + suffix)):
            break
        suffix = f".{number}{DELETED}"
    return suffix


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """Sizes of a segment's files from a directory listing; -1 for a missing file."""

    log: int = -1
    index: int = -1
    time_index: int = -1
    txn_index: int = -1
