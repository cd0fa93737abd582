"""Where a load is kept: a directory on a file system, or a prefix of an object store.

All that a load asks of its storage is that a file can be **created as a whole, and only if there is none yet**.
Local file systems do it with ``link()``, object stores with a conditional PUT (``object_storage.py``). Nothing is ever
renamed, and no directory means anything by being there.
"""

import contextlib
import itertools
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol
from urllib.parse import unquote, urlsplit

from spark_kafka_native.jobs.batch_reload.errors import UsageError

SAMPLE_SIZE: Final = 500
"""Most names that ``Storage.sample`` reads; half of a page of S3's listing, which s3fs asks for by the half."""
_TEMPORARY = ".creating-"
"""How a file begins its name while it is not whole yet."""


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
        """A file's whole name, as Spark reads it."""
        ...

    def read(self, path: str) -> bytes:
        """A file's content. Raises FileNotFoundError."""
        ...

    def create(self, path: str, data: bytes) -> None:
        """Make a file that is there as a whole, and durable, or not at all. Raises FileExistsError."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Make or replace a file; a crash may leave either content."""
        ...

    def open_input(self, path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """A file's content as a stream. Raises FileNotFoundError."""
        ...

    def open_output(self, path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """A stream into a new file, durable once the block is left; a block that fails may leave some of it."""
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
        """Delete a file; none is no error."""
        ...


class LocalStorage:
    """A directory on this machine, or on a file system that all of Spark's nodes have mounted at the same place."""

    def __init__(self, root: str) -> None:
        """``root`` need not be there yet."""
        self._root = os.path.abspath(root)

    @property
    def url(self) -> str:
        """The directory."""
        return self._root

    def location(self, path: str) -> str:
        """With ``file:``, or Spark would look on its default file system; nothing is escaped, as Hadoop has it."""
        return f"file://{self._path(path)}"

    def read(self, path: str) -> bytes:
        """A file's content."""
        return Path(self._path(path)).read_bytes()

    def create(self, path: str, data: bytes) -> None:
        """Write and sync a file of another name, then link it to this one, which fails if there is such a file."""
        final = self._path(path)
        folder = os.path.dirname(final)
        self._make_folder(folder)
        temporary = os.path.join(folder, f"{_TEMPORARY}{secrets.token_hex(8)}")
        try:
            self._write(temporary, data)
            self._link(temporary, final)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        self._sync_folder(folder)

    def put(self, path: str, data: bytes) -> None:
        """Write a file of another name, then rename it."""
        final = self._path(path)
        self._make_folder(os.path.dirname(final))
        temporary = os.path.join(os.path.dirname(final), f"{_TEMPORARY}{secrets.token_hex(8)}")
        self._write(temporary, data)
        os.replace(temporary, final)

    def open_input(self, path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """A file's content as a stream."""
        return open(self._path(path), "rb")

    @contextlib.contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        """A new file, synced, and its directory too, when the block is left."""
        final = self._path(path)
        self._make_folder(os.path.dirname(final))
        with open(final, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        self._sync_folder(os.path.dirname(final))

    def list(self, folder: str) -> dict[str, Stored]:
        """Files below a folder, those left half made by a crash included.

        Raises OSError: a directory cannot be listed.
        """
        found: dict[str, Stored] = {}
        for directory, _, names in os.walk(self._path(folder), onerror=_raise_unless_missing):
            for name in names:
                full = os.path.join(directory, name)
                with contextlib.suppress(FileNotFoundError):  # it went while we looked
                    status = os.stat(full)
                    found[os.path.relpath(full, self._root)] = Stored(status.st_size, status.st_mtime)
        return found

    def sample(self, folder: str) -> tuple[str, ...]:
        """The first names that the file system lists."""
        try:
            with os.scandir(self._path(folder)) as entries:
                return tuple(sorted(entry.name for entry in itertools.islice(entries, SAMPLE_SIZE)))
        except FileNotFoundError:
            return ()

    def prepare(self) -> None:
        """Make the directory, and a file in it."""
        self._make_folder(self._root)
        temporary = self._path(f"{_TEMPORARY}{secrets.token_hex(8)}")
        with open(temporary, "xb"):
            os.unlink(temporary)

    def remove(self, path: str) -> None:
        """Delete a file, and the directories that it leaves empty."""
        full = self._path(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(full)
        folder = os.path.dirname(full)
        with contextlib.suppress(OSError):  # it is not empty, or somebody was quicker
            while os.path.dirname(folder) != self._root:  # those at the top stay: others may be about to write there
                os.rmdir(folder)
                folder = os.path.dirname(folder)

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path)

    def _write(self, full: str, data: bytes) -> None:
        with open(full, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _link(self, temporary: str, final: str) -> None:
        os.link(temporary, final)

    def _make_folder(self, folder: str) -> None:
        """As ``makedirs``, each new directory durable; another process may remove an empty one at the same time."""
        if os.path.isdir(folder):
            return
        parent = os.path.dirname(folder)
        self._make_folder(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        self._sync_folder(parent)

    def _sync_folder(self, folder: str) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which storage, so that it can be opened in a task; frozen and picklable."""

    url: str
    options: tuple[tuple[str, str], ...] = ()
    """Of the object store's client, such as ``key`` and ``secret``."""

    def __repr__(self) -> str:
        return f"Place({self.url})"  # options may be secret

    def open(self) -> Storage:
        """The storage. Raises UsageError: no client for such URLs, it cannot keep a load, or the path has a NUL."""
        scheme = urlsplit(self.url).scheme
        if scheme == "file" or "://" not in self.url:
            path = unquote(urlsplit(self.url).path) if scheme == "file" else self.url
            if "\0" in path:
                raise UsageError(f"{self.url!r}: a path has no NUL")
            return LocalStorage(path)
        from spark_kafka_native.jobs.batch_reload.object_storage import ObjectStorage  # noqa: PLC0415  # it imports us

        return ObjectStorage(self.url, dict(self.options))


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a clean may have deleted the directory meanwhile
        raise error


def create_own(storage: Storage, path: str, data: bytes) -> None:
    """As ``Storage.create``, but a file with this very content is taken as made.

    An object store's client may repeat a PUT whose answer was lost, and then finds the file of the first. So ``data``
    must be of one run only. Raises FileExistsError: another run's file; OSError.
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
    """Whether a listed file is one, rather than what a crash has left of making one."""
    return not path.rpartition("/")[2].startswith(_TEMPORARY)
