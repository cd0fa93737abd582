"""The files that logs keep open: those used last, so that thousands of segments need few descriptors."""

import resource
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker_embedded.platform import File, FileSystem


class HasPath(Protocol):
    """What has a file, and says where that is now."""

    path: str


class OpenFiles:
    """Keeps the files used last open.

    A file that falls out closes as soon as nobody holds it; the next use opens it again. Safe to call from any thread.
    """

    def __init__(self, file_system: "FileSystem", capacity: int | None = None) -> None:
        self._file_system = file_system
        self._capacity = _spare_descriptors() if capacity is None else capacity
        self._files: OrderedDict[str, File] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> "File":
        """The file at ``path``, which must exist. Raises OSError."""
        with self._lock:
            return self._open(path)

    def of(self, owner: HasPath) -> "File":
        """The file of ``owner``, wherever it is now, and never another that has taken its name. Raises OSError."""
        with self._lock:
            return self._open(owner.path)

    def create(self, path: str) -> "File":
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

    def forget(self, path: str) -> None:
        """Stop keeping a file, because it is about to be renamed or removed."""
        with self._lock:
            self._files.pop(path, None)

    def _open(self, path: str) -> "File":
        file = self._files.get(path)
        if file is not None:
            self._files.move_to_end(path)
            return file
        return self._keep(path, self._file_system.open(path))

    def _keep(self, path: str, file: "File") -> "File":
        self._files[path] = file
        while len(self._files) > self._capacity:
            self._files.popitem(last=False)
        return file


def _spare_descriptors() -> int:
    """Half of what the process may open: the other half is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else max(16, min(4096, soft // 2))
