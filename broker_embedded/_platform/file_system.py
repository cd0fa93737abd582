"""The file system interface of the broker: files, directories and locks.

The guarantees of the operations (POSIX); code must not assume more:

* A write is visible to every reader at once, and survives a crash of the process, but not of the machine.
* ``File.sync`` makes the bytes and the size of one file survive a crash of the machine, not its name.
* ``sync_directory`` makes the names in one directory survive: files created, renamed and removed there.
* A rename within one directory replaces its target atomically.
"""

from typing import NamedTuple, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    """An open file, read and written at explicit positions; safe to use from several threads.

    The descriptor is closed with the last reference, so that a file that was removed can still be sent.
    """

    @property
    def path(self) -> str:
        """The path at which the file was opened."""

    def fileno(self) -> int:
        """The descriptor, for ``sendfile``."""

    def size(self) -> int:
        """Bytes in the file now."""

    def read_at(self, position: int, length: int) -> bytes:
        """``length`` bytes from ``position`` on; fewer only where the file ends."""

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` at ``position``. Raises OSError: any part may have been written."""

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeroes, to ``size`` bytes."""

    def sync(self) -> None:
        """Return when bytes and size survive a crash of the machine.

        Raises OSError: bytes may be lost, even if a second call succeeds.
        """


class DirectoryEntry(NamedTuple):
    """One name in a directory. ``size`` is 0 for other than regular files."""

    name: str
    is_directory: bool
    size: int


class FileLock(Protocol):
    """A lock held until ``release`` or the end of the process."""

    def release(self) -> None:
        """Release the lock."""


class FileSystem(Protocol):
    """Files by path. Every method raises OSError as the ``os`` module does: FileNotFoundError and so on."""

    def create(self, path: str, *, private: bool = False) -> File:
        """A new file, open for reading and writing, which replaces an existing one.

        ``private``: other users of the machine cannot read it, if it did not exist before.
        """

    def open(self, path: str) -> File:
        """An existing file, open for reading and writing."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has that name."""

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """The entries of a directory, sorted by name."""

    def modified_ms(self, path: str) -> int:
        """When a file was last written, in ms since 1970."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the time of the last write."""

    def make_private(self, path: str) -> bool:
        """Make a file unreadable for other users of the machine; whether its mode was changed."""

    def make_directory(self, path: str) -> None:
        """Create a directory. Raises FileExistsError."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory. An existing file of the new name is replaced."""

    def remove(self, path: str) -> None:
        """Remove a file. Open files of it stay readable."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and its content."""

    def sync_directory(self, path: str) -> None:
        """Return when the names in a directory survive a crash of the machine."""

    def volume(self, path: str) -> tuple[int, int]:
        """Total and free bytes of the volume of a directory."""

    def lock(self, path: str) -> FileLock:
        """Lock a file, created if necessary, against other processes and other holders in this one.

        Raises BlockingIOError: it is locked.
        """
