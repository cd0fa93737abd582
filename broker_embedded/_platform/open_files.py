"""The files that logs keep open, and the limit of file descriptors.

Only the most recently used files stay open, so that thousands of segments need few descriptors.
"""

import contextlib
import errno
import resource
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Protocol

from broker_embedded._platform.file_system import File, FileSystem

OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of a call without a free descriptor. Such a call has changed nothing and may be repeated."""
_WANTED: Final = 65_536
"""Enough for 4,096 log files and 61,000 connections."""
_MAX_FILES: Final = 4096
_MIN_FILES: Final = 16
_OTHERS: Final = 64
"""Descriptors for everything else: listeners, the event loop, checkpoints, metrics, the embedding program."""


class LogFile(Protocol):
    """A file of a log. ``path`` is its present path, or "" after ``OpenFiles.close``."""

    path: str


class OpenFiles:
    """A cache of open files.

    An evicted file is closed with its last reference, and the next use opens it again. Safe to call from any thread.
    """

    def __init__(self, file_system: FileSystem, capacity: int | None = None) -> None:
        self._file_system = file_system
        self._capacity = file_share() if capacity is None else capacity
        self._files: OrderedDict[str, File] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, path: str) -> File:
        """The file at ``path``, which must exist. Raises OSError."""
        with self._lock:
            return self._open(path)

    def of(self, owner: LogFile) -> File:
        """The file of ``owner`` at its present path, and never another file that has got the path.

        Raises OSError; FileNotFoundError: the file was removed, or the owner closed.
        """
        with self._lock:
            if not owner.path:
                raise FileNotFoundError(errno.ENOENT, "the file belongs to a log that was closed or deleted")
            return self._open(owner.path)

    def create(self, path: str) -> File:
        """A new, empty file at ``path``. Raises OSError."""
        with self._lock:
            self._files.pop(path, None)
            return self._keep(path, self._file_system.create(path))

    def rename(self, owner: LogFile, target: str) -> None:
        """Rename the file of ``owner``, and set its path. Raises OSError: nothing changed.

        Open files stay valid. ``of`` the owner of a file that had the name ``target`` returns that file, if it was
        renamed before.
        """
        with self._lock:
            source = owner.path
            self._file_system.rename(source, target)
            owner.path = target
            self._files.pop(target, None)
            file = self._files.pop(source, None)
            if file is not None:
                self._files[target] = file

    def rename_directory(self, source: str, target: str, owners: Iterable[LogFile]) -> None:
        """Rename a directory; ``owners`` are all of its files. Raises OSError: nothing has changed."""
        with self._lock:
            self._file_system.rename(source, target)
            for owner in owners:
                if owner.path:
                    self._files.pop(owner.path, None)
                    owner.path = target + owner.path.removeprefix(source)

    def forget_directory(self, path: str) -> None:
        """Drop the files of a directory before it is removed."""
        with self._lock:
            for name in [name for name in self._files if name.startswith(f"{path}/")]:
                del self._files[name]

    def close(self, owner: LogFile) -> None:
        """Never open the file of ``owner`` again, because another file may get its path."""
        with self._lock:
            self._files.pop(owner.path, None)
            owner.path = ""

    def close_oldest(self) -> bool:
        """Close the least recently used half of the files; False if none was open.

        `RealFileSystem` calls it if there is no free descriptor, also within calls of this class.
        """
        with self._lock:
            count = (len(self._files) + 1) // 2
            for _ in range(count):
                self._files.popitem(last=False)
            return count > 0

    def forget(self, path: str) -> None:
        """Drop a file before it is renamed or removed."""
        with self._lock:
            self._files.pop(path, None)

    def _open(self, path: str) -> File:
        file = self._files.get(path)
        if file is not None:
            self._files.move_to_end(path)
            return file
        return self._keep(path, self._file_system.open(path))

    def _keep(self, path: str, file: File) -> File:
        self._files[path] = file
        while len(self._files) > self._capacity:
            self._files.popitem(last=False)
        return file


def raise_limit() -> None:
    """Raise the soft limit of open files towards the hard limit, as the JVM does for Apache Kafka.

    The limit is never lowered, and unchanged if the system does not allow more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def file_share() -> int:
    """Log files to keep open: half of the limit, 4096 at most."""
    limit = _limit()
    return _MAX_FILES if limit is None else max(_MIN_FILES, min(_MAX_FILES, limit // 2))


def connection_share() -> int | None:
    """Connections that may be open at once, so that log files keep their share; None: no limit."""
    limit = _limit()
    return None if limit is None else max(1, limit - file_share() - min(_OTHERS, limit // 8))


def _limit() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
