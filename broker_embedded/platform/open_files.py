"""The files that logs keep open: those used last, so that thousands of segments need few descriptors."""

import errno
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from broker_embedded.platform.descriptors import file_share
from broker_embedded.platform.file_system import File, FileSystem


class HasPath(Protocol):
    """Owns a file. ``path`` is where the file is now, or "" once ``OpenFiles.close`` was called."""

    path: str


class OpenFiles:
    """Keeps the files used last open.

    A file that falls out closes as soon as nobody holds it; the next use opens it again. Safe to call from any thread.
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

    def of(self, owner: HasPath) -> File:
        """The file of ``owner``, wherever it is now, and never another that has taken its name.

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

    def rename(self, owner: HasPath, target: str) -> None:
        """Rename the file of ``owner``, and tell it; who has the file goes on with it. Raises OSError: nothing changed.

        Whoever asks ``of`` another owner for the file that had the name ``target`` still gets that one, if it has been
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

    def rename_directory(self, source: str, target: str, owners: Iterable[HasPath]) -> None:
        """Rename a directory; ``owners`` are all that have files in it. Raises OSError: nothing has changed."""
        with self._lock:
            self._file_system.rename(source, target)
            for owner in owners:
                if owner.path:
                    self._files.pop(owner.path, None)
                    owner.path = target + owner.path.removeprefix(source)

    def forget_directory(self, path: str) -> None:
        """Stop keeping the files of a directory, because it is about to be removed."""
        with self._lock:
            for name in [name for name in self._files if name.startswith(f"{path}/")]:
                del self._files[name]

    def close(self, owner: HasPath) -> None:
        """Never open the file of ``owner`` again: another file may get its name."""
        with self._lock:
            self._files.pop(owner.path, None)
            owner.path = ""

    def close_oldest(self) -> bool:
        """Close the half of the files that were used longest ago; False if none was open.

        `RealFileSystem` calls it when the process or the system has no free descriptor, also from within this class.
        """
        with self._lock:
            count = (len(self._files) + 1) // 2
            for _ in range(count):
                self._files.popitem(last=False)
            return count > 0

    def forget(self, path: str) -> None:
        """Stop keeping a file, because it is about to be renamed or removed."""
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
