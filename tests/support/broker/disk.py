"""A disk in memory that forgets what was not synced, and a file system that fails at given steps.

``MemoryFileSystem`` keeps for every file and directory what a crash would leave of it. ``crash()`` loses everything
that was not synced; with a ``random.Random`` it loses a part, as real disks do: of each file some of the last writes,
maybe one of them torn, of each directory some of the last changes, every file and directory by itself.

``FaultyFileSystem`` wraps any file system. It names and counts the steps that change something, runs out of space,
fails, and stops dead at a step.
"""

import errno
import io
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeAlias

from broker_embedded._platform.platform import Buffer, Clock, DirectoryEntry, File, FileLock, FileSystem, ManualClock
from tests.support.records.log_batches import NOW_MS

Change: TypeAlias = tuple[int, bytes | None]
"""A write: position and bytes; or a truncation: size and None."""


class SimulatedCrash(BaseException):
    """The machine has stopped. No ``except Exception`` catches it."""


def _apply(data: bytearray, change: Change) -> None:
    position, written = change
    if written is None:
        del data[position:]
        data.extend(bytes(position - len(data)))
    else:
        data.extend(bytes(max(0, position - len(data))))
        data[position : position + len(written)] = written


@dataclass(slots=True)
class _Regular:
    live: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[Change] = field(default_factory=list)
    modified_ms: int = 0

    def crash(self, chance: random.Random | None) -> None:
        data = bytearray(self.durable)
        if chance is not None:
            kept = chance.randint(0, len(self.pending))
            for change in self.pending[:kept]:
                _apply(data, change)
            if kept < len(self.pending) and self.pending[kept][1] and chance.random() < 0.5:
                position, written = self.pending[kept]
                assert written is not None
                _apply(data, (position, written[: chance.randint(0, len(written))]))
        self.live, self.durable, self.pending = data, bytes(data), []


@dataclass(slots=True)
class _Directory:
    live: dict[str, "_Node"] = field(default_factory=dict)
    durable: dict[str, "_Node"] = field(default_factory=dict)
    pending: list[dict[str, "_Node"]] = field(default_factory=list)

    def changed(self) -> None:
        self.pending.append(dict(self.live))

    def crash(self, chance: random.Random | None) -> None:
        states = [self.durable, *self.pending]
        self.durable = states[0] if chance is None else chance.choice(states)
        self.live, self.pending = dict(self.durable), []
        for node in self.live.values():
            node.crash(chance)


_Node: TypeAlias = _Regular | _Directory


class MemoryFileSystem:
    """Files in memory. Paths are absolute. A file that is open can be read though its name is gone."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or ManualClock(NOW_MS)
        self._root = _Directory()
        self._locked: set[str] = set()
        self.crashes = 0

    def crash(self, chance: random.Random | None = None) -> None:
        """Stop and start again: what was not synced is lost, with ``chance`` only some of it. Open files are stale."""
        self.crashes += 1
        self._locked.clear()
        self._root.crash(chance)

    def restart(self) -> None:
        """Stop the process, not the machine: everything written is there. Open files are stale, locks are free."""
        self.crashes += 1
        self._locked.clear()

    def create(self, path: str, *, private: bool = False) -> File:
        parent, name = self._parent(path)
        node = parent.live.get(name)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if node is None:
            node = parent.live[name] = _Regular(modified_ms=self._clock.now_ms())
            parent.changed()
        file = MemoryFile(self, path, node)
        file.truncate(0)
        return file

    def open(self, path: str) -> File:
        return MemoryFile(self, path, self._regular(path))

    def exists(self, path: str) -> bool:
        try:
            self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        return [
            DirectoryEntry(
                name=name,
                is_directory=isinstance(node, _Directory),
                size=len(node.live) if isinstance(node, _Regular) else 0,
            )
            for name, node in sorted(self._directory(path).live.items())
        ]

    def modified_ms(self, path: str) -> int:
        return self._regular(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._regular(path).modified_ms = modified_ms

    def make_private(self, path: str) -> bool:
        self._regular(path)
        return False

    def make_directory(self, path: str) -> None:
        parent, name = self._parent(path)
        if name in parent.live:
            raise FileExistsError(errno.EEXIST, "exists", path)
        parent.live[name] = _Directory()
        parent.changed()

    def rename(self, source: str, target: str) -> None:
        old_parent, old_name = self._parent(source)
        new_parent, new_name = self._parent(target)
        node = self._node(source)
        if isinstance(new_parent.live.get(new_name), _Directory):
            raise OSError(errno.ENOTEMPTY, "is a directory", target)
        del old_parent.live[old_name]
        new_parent.live[new_name] = node
        old_parent.changed()
        if new_parent is not old_parent:
            new_parent.changed()

    def remove(self, path: str) -> None:
        self._regular(path)
        parent, name = self._parent(path)
        del parent.live[name]
        parent.changed()

    def remove_tree(self, path: str) -> None:
        self._directory(path)
        parent, name = self._parent(path)
        del parent.live[name]
        parent.changed()

    def sync_directory(self, path: str) -> None:
        directory = self._directory(path)
        directory.durable, directory.pending = dict(directory.live), []

    def volume(self, path: str) -> tuple[int, int]:
        self._directory(path)
        return 1 << 40, 1 << 39

    def lock(self, path: str) -> FileLock:
        if path in self._locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", path)
        if not self.exists(path):
            self.create(path)
        self._locked.add(path)
        return _MemoryLock(self._locked, path)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def _node(self, path: str) -> _Node:
        node: _Node = self._root
        for name in filter(None, path.split("/")):
            if not isinstance(node, _Directory):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            if name not in node.live:
                raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
            node = node.live[name]
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._node(path)
        if not isinstance(node, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _regular(self, path: str) -> _Regular:
        node = self._node(path)
        if not isinstance(node, _Regular):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        return self._directory(os.path.dirname(path)), os.path.basename(path)


class MemoryFile:
    """A file of a ``MemoryFileSystem``. It has no descriptor."""

    def __init__(self, disk: MemoryFileSystem, path: str, node: _Regular) -> None:
        self._disk = disk
        self._born = disk.crashes
        self._node = node
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    def fileno(self) -> int:
        raise io.UnsupportedOperation("a file in memory has no descriptor")

    def size(self) -> int:
        return len(self._live())

    def read_at(self, position: int, length: int) -> bytes:
        if position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.path)
        return bytes(self._live()[position : position + length])

    def write_at(self, position: int, data: Buffer) -> None:
        self._change((position, bytes(data)))

    def truncate(self, size: int) -> None:
        self._change((size, None))

    def sync(self) -> None:
        self._node.durable, self._node.pending = bytes(self._live()), []

    def _live(self) -> bytearray:
        assert self._disk.crashes == self._born, f"{self._path} was opened before a crash"
        return self._node.live

    def _change(self, change: Change) -> None:
        _apply(self._live(), change)
        self._node.pending.append(change)
        self._node.modified_ms = self._disk.now_ms()


class _MemoryLock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


class FaultyFileSystem:
    """A file system that fails at given steps. A step is written as ``write 00000000000000000000.log``.

    ``steps`` are those done so far. ``crash_at``: raise SimulatedCrash instead of the step of that number, counted from
    0, or of the first whose name fits a pattern. ``torn``: if that is a write, half of it is done before. ``space``:
    bytes that files may still grow by, None for no limit. ``fail`` makes steps raise OSError.
    """

    def __init__(self, inner: FileSystem) -> None:
        self.inner = inner
        self.steps: list[str] = []
        self.crash_at: int | str | None = None
        self.torn = False
        self.space: int | None = None
        self._dead = False
        self._failures: list[tuple[str, int]] = []

    def fail(self, pattern: str, error: int = errno.EIO) -> None:
        """Raise OSError at every step that fits a pattern, until ``heal``."""
        self._failures.append((pattern, error))

    def heal(self) -> None:
        """No more failures, and space without limit."""
        self._failures.clear()
        self.space = None

    def revive(self) -> None:
        """Continue after a crash; steps are counted from 0."""
        self._dead, self.crash_at, self.steps = False, None, []

    def step(self, what: str, path: str, halfway: Callable[[], None] | None = None) -> None:
        """Count a step, or fail instead of it."""
        name = f"{what} {os.path.basename(path)}"
        if self._dead or self._crashes(name):
            if halfway is not None and self.torn and not self._dead:
                halfway()
            self._dead = True
            raise SimulatedCrash(name)
        self.steps.append(name)
        self.check(what, path)

    def check(self, what: str, path: str) -> None:
        """Fail if this read is to fail; reading is not a step."""
        if self._dead:
            raise SimulatedCrash(path)
        for pattern, error in self._failures:
            if fnmatchcase(f"{what} {os.path.basename(path)}", pattern):
                raise OSError(error, os.strerror(error), path)

    def _crashes(self, name: str) -> bool:
        if isinstance(self.crash_at, str):
            return fnmatchcase(name, self.crash_at)
        return self.crash_at == len(self.steps)

    def create(self, path: str, *, private: bool = False) -> File:
        self.step("create", path)
        return _FaultyFile(self, self.inner.create(path, private=private))

    def open(self, path: str) -> File:
        self.check("open", path)
        return _FaultyFile(self, self.inner.open(path))

    def exists(self, path: str) -> bool:
        self.check("exists", path)
        return self.inner.exists(path)

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        return self.inner.list_directory(path)

    def modified_ms(self, path: str) -> int:
        return self.inner.modified_ms(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.step("set_modified_ms", path)
        self.inner.set_modified_ms(path, modified_ms)

    def make_private(self, path: str) -> bool:
        self.check("make_private", path)
        return self.inner.make_private(path)

    def make_directory(self, path: str) -> None:
        self.step("make_directory", path)
        self.inner.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        self.step("rename", source)
        self.inner.rename(source, target)

    def remove(self, path: str) -> None:
        self.step("remove", path)
        self.inner.remove(path)

    def remove_tree(self, path: str) -> None:
        self.step("remove_tree", path)
        self.inner.remove_tree(path)

    def sync_directory(self, path: str) -> None:
        self.step("sync_directory", path)
        self.inner.sync_directory(path)

    def volume(self, path: str) -> tuple[int, int]:
        self.check("volume", path)
        return self.inner.volume(path)

    def lock(self, path: str) -> FileLock:
        return self.inner.lock(path)


class _FaultyFile:
    def __init__(self, faults: FaultyFileSystem, inner: File) -> None:
        self._faults = faults
        self._inner = inner

    @property
    def path(self) -> str:
        return self._inner.path

    def fileno(self) -> int:
        return self._inner.fileno()

    def size(self) -> int:
        return self._inner.size()

    def read_at(self, position: int, length: int) -> bytes:
        self._faults.check("read", self.path)
        return self._inner.read_at(position, length)

    def write_at(self, position: int, data: Buffer) -> None:
        view = memoryview(data)
        self._faults.step("write", self.path, lambda: self._inner.write_at(position, view[: len(view) // 2]))
        growth = max(0, position + len(view) - self._inner.size())
        space = self._faults.space
        if space is not None and growth > space:
            self._inner.write_at(position, view[: len(view) - growth + space])
            self._faults.space = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        if space is not None:
            self._faults.space = space - growth
        self._inner.write_at(position, view)

    def truncate(self, size: int) -> None:
        self._faults.step("truncate", self.path)
        self._inner.truncate(size)

    def sync(self) -> None:
        self._faults.step("sync", self.path)
        self._inner.sync()


DATA_DIR = "/data"


def new_disk() -> MemoryFileSystem:
    """A disk with an empty data directory, which survives a crash."""
    disk = MemoryFileSystem()
    disk.make_directory(DATA_DIR)
    disk.sync_directory("/")
    return disk
