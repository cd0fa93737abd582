"""The bundled broker in a process that kills itself (SIGKILL) at a named step of its work on the disk.

    python -m tests.support.kills.broker STEP COUNT DATA_DIR KEY=VALUE ...

The ``COUNT``-th time that ``STEP`` is reached, the process is gone: before the operation, after it, or for writes with
half of the data in the file. It prints `listening on HOST:PORT` as `python -m broker_embedded` does.
"""

import asyncio
import fnmatch
import os
import signal
import sys
from dataclasses import dataclass
from typing import Final, Literal

from broker_embedded._config.config import BrokerConfig
from broker_embedded._platform.platform import Buffer, File, Platform, RealFileSystem
from broker_embedded._server.run import running_broker

Moment = Literal["before", "half", "after"]


@dataclass(frozen=True)
class Step:
    """An operation on files whose name and directory match, and when during it the process ends."""

    operation: str
    name: str
    moment: Moment
    directory: str = "*"

    def is_at(self, operation: str, path: str, moment: Moment) -> bool:
        """Whether this is the step that has been reached."""
        if (operation, moment) != (self.operation, self.moment):
            return False
        directory, name = os.path.split(path)
        return fnmatch.fnmatch(name, self.name) and fnmatch.fnmatch(os.path.basename(directory), self.directory)


STEPS: Final[dict[str, Step]] = {
    "append: nothing written": Step("write", "*.log", "before"),
    "append: half a batch written": Step("write", "*.log", "half"),
    "append: written, not answered": Step("write", "*.log", "after"),
    "index: half an entry written": Step("write", "*.index", "half"),
    "time index: half an entry written": Step("write", "*.timeindex", "half"),
    "roll: before the new segment": Step("create", "0000*.log", "before"),
    "roll: the new segment is empty": Step("create", "0000*.log", "after"),
    "roll: the new segment has no indexes": Step("create", "*.timeindex", "before"),
    "flush: before a segment": Step("sync", "*.log", "before"),
    "flush: after a segment": Step("sync", "*.log", "after"),
    "producers: snapshot half written": Step("write", "*.snapshot*", "half"),
    "producers: before an old snapshot goes": Step("remove", "*.snapshot", "before"),
    "recovery points: half written": Step("write", "recovery-point-offset-checkpoint*", "half"),
    "recovery points: not in place": Step("rename to", "recovery-point-offset-checkpoint", "before"),
    "recovery points: in place": Step("rename to", "recovery-point-offset-checkpoint", "after"),
    "start offsets: not in place": Step("rename to", "log-start-offset-checkpoint", "before"),
    "high watermarks: not in place": Step("rename to", "replication-offset-checkpoint", "before"),
    "compaction: before the cleaned segment": Step("create", "*.log.cleaned", "before"),
    "compaction: the cleaned segment half written": Step("write", "*.log.cleaned", "half"),
    "compaction: the cleaned segment written": Step("sync", "*.log.cleaned", "after"),
    "compaction: before the swap": Step("rename to", "*.log.swap", "before"),
    "compaction: swapped in name": Step("rename to", "*.log.swap", "after"),
    "compaction: an old segment still there": Step("rename to", "*.log.deleted", "before"),
    "compaction: an old segment put away": Step("rename to", "*.log.deleted", "after"),
    "compaction: the swapped segment not in place": Step("rename to", "0000*.log", "before"),
    "compaction: the swapped segment in place": Step("rename to", "0000*.log", "after"),
    "compaction: checkpoint not in place": Step("rename to", "cleaner-offset-checkpoint", "before"),
    "deletion: before a file goes": Step("remove", "*.deleted", "before"),
    "shutdown: before the mark": Step("create", ".kafka_cleanshutdown*", "before"),
    "shutdown: after the mark": Step("create", ".kafka_cleanshutdown*", "after"),
    "start: before the mark is taken": Step("remove", ".kafka_cleanshutdown", "before"),
    "start: after the mark is taken": Step("remove", ".kafka_cleanshutdown", "after"),
}
"""Every step at which a broker may be killed, by name."""

TRANSACTION_STEPS: Final[dict[str, Step]] = {
    "coordinator: nothing written": Step("write", "*.log", "before", "__transaction_state-*"),
    "coordinator: half a record written": Step("write", "*.log", "half", "__transaction_state-*"),
    "coordinator: written, nothing done": Step("write", "*.log", "after", "__transaction_state-*"),
    "group: nothing written": Step("write", "*.log", "before", "__consumer_offsets-*"),
    "group: half a batch written": Step("write", "*.log", "half", "__consumer_offsets-*"),
    "group: written": Step("write", "*.log", "after", "__consumer_offsets-*"),
    "partition: nothing written": Step("write", "*.log", "before", "copied-*"),
    "partition: half a batch or marker written": Step("write", "*.log", "half", "copied-*"),
    "partition: batch or marker written": Step("write", "*.log", "after", "copied-*"),
    "aborted transactions: half an entry written": Step("write", "*.txnindex", "half", "copied-*"),
    "aborted transactions: written": Step("write", "*.txnindex", "after", "copied-*"),
    "partition: snapshot of producers half written": Step("write", "*.snapshot*", "half", "copied-*"),
}
"""Steps of transactions that write to a topic named ``copied``, and commit offsets of groups."""


class _Doom:
    """Counts how often the step is reached."""

    def __init__(self, step: Step, count: int) -> None:
        self._step = step
        self._left = count

    def reached(self, operation: str, path: str, moment: Moment) -> bool:
        """Whether the process is to end now. It does, unless the moment is half a write, which the caller makes."""
        if not self._step.is_at(operation, path, moment):
            return False
        self._left -= 1
        if self._left > 0:
            return False
        if moment != "half":
            end()
        return True


def end() -> None:
    """End this process as a crash would."""
    os.kill(os.getpid(), signal.SIGKILL)


class _DoomedFile:
    """A file whose writes and syncs may be the last thing that happens."""

    def __init__(self, file: File, doom: _Doom) -> None:
        self._file = file
        self._doom = doom

    @property
    def path(self) -> str:
        return self._file.path

    def fileno(self) -> int:
        return self._file.fileno()

    def size(self) -> int:
        return self._file.size()

    def read_at(self, position: int, length: int) -> bytes:
        return self._file.read_at(position, length)

    def write_at(self, position: int, data: Buffer) -> None:
        self._doom.reached("write", self.path, "before")
        if self._doom.reached("write", self.path, "half"):
            self._file.write_at(position, memoryview(data)[: max(len(data) // 2, 1)])
            end()
        self._file.write_at(position, data)
        self._doom.reached("write", self.path, "after")

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def sync(self) -> None:
        self._doom.reached("sync", self.path, "before")
        self._file.sync()
        self._doom.reached("sync", self.path, "after")


class _DoomedFileSystem(RealFileSystem):
    """The real file system, with one operation too many."""

    def __init__(self, doom: _Doom) -> None:
        self._doom = doom

    def create(self, path: str, *, private: bool = False) -> File:
        self._doom.reached("create", path, "before")
        file = _DoomedFile(super().create(path, private=private), self._doom)
        self._doom.reached("create", path, "after")
        return file

    def open(self, path: str) -> File:
        return _DoomedFile(super().open(path), self._doom)

    def rename(self, source: str, target: str) -> None:
        self._doom.reached("rename to", target, "before")
        super().rename(source, target)
        self._doom.reached("rename to", target, "after")

    def remove(self, path: str) -> None:
        self._doom.reached("remove", path, "before")
        super().remove(path)
        self._doom.reached("remove", path, "after")


async def _run(step: Step, count: int, data_dir: str, settings: dict[str, object]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    platform = Platform(file_system=_DoomedFileSystem(_Doom(step, count)))
    async with running_broker(BrokerConfig.parse(settings), data_dir, platform) as server:
        print(f"listening on {server.addresses[0]}", flush=True)
        await stop.wait()


def main() -> None:
    """Run until SIGTERM, or until the step is reached."""
    name, count, data_dir, *pairs = sys.argv[1:]
    settings: dict[str, object] = {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
    asyncio.run(_run((STEPS | TRANSACTION_STEPS)[name], int(count), data_dir, settings))


if __name__ == "__main__":
    main()
