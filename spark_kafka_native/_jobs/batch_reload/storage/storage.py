"""The interface of storages: a directory in a file system, or a prefix of an object store.

A load needs one operation: **create a file atomically, and only if it does not exist yet**. Local file systems do it
with ``link()``, object stores with a conditional PUT (``object_storage.py``). Files are never renamed, and directories
have no meaning.
"""

import contextlib
from dataclasses import dataclass
from typing import IO, Final, Protocol

SAMPLE_SIZE: Final = 500
"""Most names that ``Storage.sample`` reads; half of a page of S3's listing, as s3fs requests it."""
TEMPORARY_PREFIX: Final = ".creating-"
"""Prefix of the name of a local file that is not complete yet."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One file: its size, and when it was last written by the storage's own clock."""

    size: int
    modified_s: float


class Storage(Protocol):
    """Files by paths relative to a root, ``a/b``. All methods raise OSError."""

    @property
    def url(self) -> str:
        """The root as users name it."""
        ...

    def location(self, path: str) -> str:
        """A file's URL for Spark."""
        ...

    def read(self, path: str) -> bytes:
        """A file's content. Raises FileNotFoundError."""
        ...

    def create(self, path: str, data: bytes) -> None:
        """Create a durable file atomically. Raises FileExistsError."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Make or replace a file; a crash may leave either content."""
        ...

    def open_input(self, path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """A file's content as a stream. Raises FileNotFoundError."""
        ...

    def open_output(self, path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """A stream into a new file, durable after the block; a block that fails may leave an incomplete file."""
        ...

    def list(self, folder: str) -> dict[str, Stored]:
        """All files below a folder by path; empty where there is no such folder."""
        ...

    def sample(self, folder: str) -> tuple[str, ...]:
        """Names of files and folders in a folder, at most ``SAMPLE_SIZE``, sorted; empty where there is no such folder.

        Reads one page of a listing, where the storage's client can. Raises NotADirectoryError: the folder is a file.
        """
        ...

    def prepare(self) -> None:
        """Make the root, if storage of this kind needs one, and make and delete a file in it."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file, if it exists."""
        ...


def create_own(storage: Storage, path: str, data: bytes) -> None:
    """As ``Storage.create``, but succeeds if the file exists with the same content.

    An object store's client may repeat a PUT whose response was lost, and then finds the file of the first one. So
    ``data`` must be unique to the run. Raises FileExistsError: another run's file; OSError.
    """
    try:
        storage.create(path, data)
    except OSError:
        if not _holds(storage, path, data):
            raise


def _holds(storage: Storage, path: str, data: bytes) -> bool:
    try:
        return storage.read(path) == data
    except FileNotFoundError:
        return False


def is_whole(path: str) -> bool:
    """Whether a listed file is complete, and not a temporary file that a crash has left."""
    return not path.rpartition("/")[2].startswith(TEMPORARY_PREFIX)
