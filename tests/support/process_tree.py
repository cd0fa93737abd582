"""The processes that a process has started, and theirs: found by who started whom, never by name alone."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Process:
    """A process as it was seen."""

    pid: int
    parent: int
    started: str
    command: str

    def kill(self) -> None:
        """End it at once, if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def still_there(seen: Iterable[Process]) -> list[Process]:
    """Those that still run, also with another parent; another process with an old number does not count."""
    running = {(each.pid, each.started) for each in _all_processes()}
    return [process for process in seen if (process.pid, process.started) in running]


def descendants(pid: int) -> list[Process]:
    """Children of a process, theirs, and so on; parents first."""
    processes = _all_processes()
    found: list[Process] = []
    parents = {pid}
    while more := [each for each in processes if each.parent in parents and each not in found]:
        found += more
        parents = {each.pid for each in more}
    return found


def kill_all(processes: Iterable[Process]) -> None:
    """End all of them at once."""
    for process in processes:
        process.kill()


def _all_processes() -> list[Process]:
    columns = "pid=,ppid=,lstart=,args="  # a start is five words: Sat Nov 21 06:25:07 2026
    response = subprocess.run(["ps", "-A", "-ww", "-o", columns], capture_output=True, text=True, check=True)
    rows = (line.split(None, 7) for line in response.stdout.splitlines())
    return [Process(int(row[0]), int(row[1]), " ".join(row[2:7]), row[7] if len(row) > 7 else "") for row in rows]
