"""Loads in a directory of a file system."""

import contextlib
import itertools
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from spark_kafka_native._jobs.batch_reload.storage.storage import SAMPLE_SIZE, TEMPORARY_PREFIX, Stored


class LocalStorage:
    """A directory on this machine, or in a file system that all of Spark's nodes have mounted at the same path."""

    def __init__(self, root: str) -> None:
        """``root`` need not exist yet."""
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
        temporary = os.path.join(folder, f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
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
        temporary = os.path.join(os.path.dirname(final), f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
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
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
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
        temporary = self._path(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
        with open(temporary, "xb"):
            os.unlink(temporary)

    def remove(self, path: str) -> None:
        """Delete a file, and the directories that it leaves empty."""
        full = self._path(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(full)
        folder = os.path.dirname(full)
        with contextlib.suppress(OSError):  # not empty, or already deleted
            while os.path.dirname(folder) != self._root:  # top-level folders are kept for other runs
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


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a clean may have deleted the directory meanwhile
        raise error
