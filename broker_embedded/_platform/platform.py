"""The operating system's file system, and `Platform`: a clock, a file system and the open files that all logs share.

The names of `broker_embedded._platform.clocks` and `broker_embedded._platform.file_system` are here too.

The simulated disk (it forgets what was not synced, runs full, stops at a chosen step) lives with the tests: its files
have no descriptor that ``sendfile`` could use, so that a broker which serves clients never runs on it.
"""

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from broker_embedded._platform.clocks import Clock, ManualClock, SystemClock
from broker_embedded._platform.file_system import Buffer, DirectoryEntry, File, FileLock, FileSystem
from broker_embedded._platform.open_files import OUT_OF_DESCRIPTORS, OpenFiles, raise_limit

__all__ = [
    "Buffer",
    "Clock",
    "DirectoryEntry",
    "File",
    "FileLock",
    "FileSystem",
    "ManualClock",
    "Platform",
    "RealFile",
    "RealFileSystem",
    "SystemClock",
    "read_file",
    "remove_if_exists",
    "write_file",
]

T = TypeVar("T")


class RealFile:
    """A ``File`` of the operating system."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, flags: int, mode: int = 0o644) -> None:
        self._fd = -1
        self.path = path
        """Where the file was when it was opened."""
        self._fd = os.open(path, flags | os.O_CLOEXEC, mode)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self._fd).st_size

    def read_at(self, position: int, length: int) -> bytes:
        """``length`` bytes from ``position`` on, fewer where the file ends."""
        data = os.pread(self._fd, length, position)
        if len(data) in {0, length}:
            return data
        pieces = [data]
        while data:  # the kernel caps one read below 2 GiB
            position += len(data)
            length -= len(data)
            data = os.pread(self._fd, length, position)
            pieces.append(data)
        return b"".join(pieces)

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` at ``position``."""
        written = os.pwrite(self._fd, data, position)
        if written == len(data):
            return
        rest = memoryview(data)
        while written < len(rest):  # the disk is nearly full, or the write above 2 GiB: the next call tells
            done = os.pwrite(self._fd, rest[written:], position + written)
            if done == 0:
                raise OSError(errno.EIO, "write made no progress", self.path)
            written += done

    def truncate(self, size: int) -> None:
        """Cut or extend the file to ``size`` bytes."""
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Force the file's bytes and size to the disk."""
        _sync_data(self._fd)


_sync_data: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)  # macOS has fsync alone


class RealFileSystem:
    """The operating system's files."""

    def __init__(self, free_descriptors: Callable[[], bool] = lambda: False) -> None:
        """``free_descriptors`` closes cached files, and returns False if none was open."""
        self._free_descriptors = free_descriptors

    def create(self, path: str, *, private: bool = False) -> File:
        """A new, empty file."""
        flags, mode = os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o644
        return self._with_descriptor(lambda: RealFile(path, flags, mode))

    def open(self, path: str) -> File:
        """An existing file."""
        return self._with_descriptor(lambda: RealFile(path, os.O_RDWR))

    def _with_descriptor(self, open_: Callable[[], T]) -> T:
        """The result of a call that needs a descriptor, repeated as long as some can be freed."""
        while True:
            try:
                return open_()
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self._free_descriptors():
                    raise

    def exists(self, path: str) -> bool:
        """Whether the name is taken."""
        try:
            os.lstat(path)  # os.path.lexists takes every error for a name that is not
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """What is in a directory, ordered by name; what vanishes meanwhile is left out."""
        entries = []
        with self._with_descriptor(lambda: os.scandir(path)) as found:
            for entry in found:
                try:
                    is_file = entry.is_file()
                    size = entry.stat().st_size if is_file else 0
                    is_directory = not is_file and entry.is_dir()
                    entries.append(DirectoryEntry(name=entry.name, is_directory=is_directory, size=size))
                except FileNotFoundError:
                    continue
        return sorted(entries)  # by name, for names differ

    def modified_ms(self, path: str) -> int:
        """When the file was last written."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the time of the last write, and that of the last access."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_private(self, path: str) -> bool:
        """Set mode 0600 if the group or other users have any right."""
        is_private = not os.stat(path).st_mode & 0o077
        if not is_private:
            os.chmod(path, 0o600)
        return not is_private

    def make_directory(self, path: str) -> None:
        """Make one directory."""
        os.mkdir(path)

    def rename(self, source: str, target: str) -> None:
        """Rename, replacing the target."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove one file."""
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and its contents."""
        self._with_descriptor(lambda: shutil.rmtree(path))

    def sync_directory(self, path: str) -> None:
        """Force a directory's names to the disk."""
        fd = self._with_descriptor(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def volume(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that a directory is on, and how many of them are left for us."""
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def lock(self, path: str) -> FileLock:
        """Lock as Java's FileLock does, so that Apache Kafka and this broker exclude each other too."""
        return _ProcessLock(os.path.realpath(path))


class _ProcessLock:
    """An fcntl lock, which other processes honour, with a list of our own for this process, which fcntl never stops."""

    _held: Final[set[str]] = set()
    _guard: Final = threading.Lock()

    def __init__(self, path: str) -> None:
        self._path = path
        with self._guard:
            if path in self._held:
                raise BlockingIOError(errno.EWOULDBLOCK, "locked by this process", path)
            self._file: RealFile | None = RealFile(path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.lockf(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in {errno.EACCES, errno.EAGAIN}:
                    raise
                raise BlockingIOError(errno.EWOULDBLOCK, "locked by another process", path) from None
            self._held.add(path)

    def release(self) -> None:
        """Close the file, which ends the lock. A second call does nothing."""
        with self._guard:
            if self._file is not None:
                self._file = None
                self._held.discard(self._path)


class Platform:
    """A clock, a file system, and the files that logs keep open on it."""

    __slots__ = ("clock", "file_system", "open_files")

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        file_system: FileSystem | None = None,
        max_open_files: int | None = None,
    ) -> None:
        """Without ``max_open_files`` the process's limit of open files is raised, and logs get their share of it."""
        if max_open_files is None:
            raise_limit()
        self.clock: Clock = clock or SystemClock()
        self.file_system: FileSystem = file_system or RealFileSystem(self._free_descriptors)
        self.open_files = OpenFiles(self.file_system, max_open_files)

    def _free_descriptors(self) -> bool:
        return self.open_files.close_oldest()


def read_file(file_system: FileSystem, path: str) -> bytes:
    """The whole of a small file. Raises OSError."""
    file = file_system.open(path)
    return file.read_at(0, file.size())


def write_file(
    file_system: FileSystem, path: str, data: Buffer, *, sync_directory: bool = True, private: bool = False
) -> None:
    """Put ``data`` in place of what is at ``path``, durably and all or nothing. Raises OSError.

    Step 3 is the caller's without ``sync_directory``. ``private``: no other user of the machine may read it.

    1. Write ``path.tmp`` and sync it. Crash here: the old file stands; the next write replaces the leftover.
    2. Rename it to ``path``. Crash here: the old or the new file stands, whole.
    3. Sync the directory. From here on it is the new one.
    """
    temporary = temporary_path(path)
    if private:
        remove_if_exists(file_system, temporary)  # other users may be allowed to read a leftover
    file = file_system.create(temporary, private=private)
    file.write_at(0, data)
    file.sync()
    file_system.rename(temporary, path)
    if sync_directory:
        file_system.sync_directory(os.path.dirname(path))


def temporary_path(path: str) -> str:
    """Where `write_file` writes what is to be at ``path``. No file is read from there."""
    return f"{path}.tmp"


def remove_if_exists(file_system: FileSystem, path: str) -> bool:
    """Remove a file; whether there was one. Raises OSError."""
    try:
        file_system.remove(path)
    except FileNotFoundError:
        return False
    return True
