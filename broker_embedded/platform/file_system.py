"""What the broker needs of a file system: files, directories and locks.

What the operations promise, and what no code above may assume beyond it (POSIX):

* A write is seen by every reader at once, and survives a crash of the process, but not of the machine.
* ``File.sync`` makes the bytes and the size of one file survive a crash of the machine, not its name.
* ``sync_directory`` makes the names in one directory survive: files created, renamed and removed there.
* A rename within one directory replaces its target atomically.
"""

from typing import NamedTuple, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    """An open file, read and written at explicit positions; safe to use from several threads.

    The descriptor closes with the last reference, so that whoever still sends from the file can go on after its owner
    has removed it.
    """

    @property
    def path(self) -> str:
        """Where the file was when it was opened."""
        ...

    def fileno(self) -> int:
        """The descriptor, for ``sendfile``."""
        ...

    def size(self) -> int:
        """Bytes in the file now."""
        ...

    def read_at(self, position: int, length: int) -> bytes:
        """``length`` bytes from ``position`` on; fewer only where the file ends."""
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` at ``position``. Raises OSError, and then any part of it may have been written."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeroes, to ``size`` bytes."""
        ...

    def sync(self) -> None:
        """Return once bytes and size would survive a crash of the machine.

        Raises OSError: some may be lost, and a second call that succeeds does not mean they are not.
        """
        ...


class DirectoryEntry(NamedTuple):
    """One name in a directory. ``size`` is 0 for what is no regular file."""

    name: str
    is_directory: bool
    size: int


class FileLock(Protocol):
    """A lock held until ``release`` or the end of the process."""

    def release(self) -> None:
        """Let others take the lock."""
        ...


class FileSystem(Protocol):
    """Files by path. Every method raises OSError as the ``os`` module does: FileNotFoundError and so on."""

    def create(self, path: str, *, private: bool = False) -> File:
        """A new file, open for reading and writing, in place of any that had the name.

        ``private``: one that no other user of the machine may read, if it was not there before.
        """
        ...

    def open(self, path: str) -> File:
        """An existing file, open for reading and writing."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory has that name."""
        ...

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """What is in a directory, ordered by name."""
        ...

    def modified_ms(self, path: str) -> int:
        """When a file was last written, in ms since 1970."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Say when a file was last written."""
        ...

    def make_private(self, path: str) -> bool:
        """Make sure that no other user of the machine may read a file; whether its mode had to be changed for that."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory. Raises FileExistsError."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name; an existing file of that name is replaced."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file. Who has it open can still read it."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return once the names in a directory would survive a crash of the machine."""
        ...

    def volume(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that a directory is on, and how many of them are left."""
        ...

    def lock(self, path: str) -> FileLock:
        """Lock a file, made if need be, against other processes and other holders in this one.

        Raises BlockingIOError: it is locked already.
        """
        ...
