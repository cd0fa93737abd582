"""The files of a segment: their names, and renaming them.

A name is ``{base_offset:020d}``, the suffix of the file, and for a file that is not in use another suffix: ``.cleaned``
and ``.swap`` during a compaction, ``.deleted`` before the removal.
"""

import itertools
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from broker_embedded.platform.open_files import LogFile, OpenFiles
from broker_embedded.platform.platform import FileSystem

logger = logging.getLogger(__name__)

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"
TEMPORARY: Final = ".tmp"

Part: TypeAlias = tuple[str, LogFile]
"""The suffix of a file, and the file."""


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


def rename(parts: Iterable[Part], open_files: OpenFiles, directory: str, base_offset: int, suffix: str) -> None:
    """Rename the files to end with ``suffix``, one after the other. Reads in progress continue.

    Raises OSError: some have the new name, some do not.
    """
    for kind, part in parts:
        open_files.rename(part, segment_path(directory, base_offset, kind + suffix))


def deleted_suffix(files: FileSystem, directory: str, base_offset: int) -> str:
    """``.deleted``, or ``.1.deleted`` and so on if an earlier deleted segment of this base offset has the name.

    A client may still receive the earlier segment, so that its file must not be replaced.
    """
    suffix = DELETED
    for number in itertools.count(1):
        if not files.exists(segment_path(directory, base_offset, LOG + suffix)):
            break
        suffix = f".{number}{DELETED}"
    return suffix


def rename_deleted(
    parts: Iterable[Part], files: FileSystem, open_files: OpenFiles, directory: str, base_offset: int
) -> None:
    """As ``rename``, with the suffix of ``deleted_suffix``.

    A file that cannot be renamed keeps its name, because a full or failing disk must not stop retention.
    """
    try:
        suffix = deleted_suffix(files, directory, base_offset)
    except OSError as error:
        logger.warning("%s: segment %d cannot be renamed before its deletion: %s", directory, base_offset, error)
        return
    for kind, part in parts:
        target = segment_path(directory, base_offset, kind + suffix)
        try:
            open_files.rename(part, target)
        except FileNotFoundError:
            part.path = target
        except OSError as error:
            logger.warning("%s cannot be renamed before its deletion: %s", part.path, error)
