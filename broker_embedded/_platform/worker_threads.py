"""Threads for work that would block the event loop: disk access and long computations.

Each kind has its own threads, so that appends that inspect records do not wait for lookups by timestamp or for
down-conversions.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from broker_embedded._platform.record_threads import RecordThreads
from broker_embedded._platform.timers import Timers

_DISK_THREADS: Final = 4
_APPEND_THREADS: Final = 2
_READ_THREADS: Final = 2
ResultT = TypeVar("ResultT")


class OnDisk(Protocol):
    """Runs a function that waits for the disk, or for a name server, in another thread."""

    def __call__(self, function: Callable[[], ResultT]) -> Awaitable[ResultT]:
        """The function's result."""


class WorkerThreads:
    """The threads of one broker. A function that runs in one must not use objects of the event loop."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._disk = ThreadPoolExecutor(_DISK_THREADS, thread_name_prefix="broker-disk")
        self.appends = RecordThreads("broker-appends", _APPEND_THREADS, timers)
        """Appends that inspect each record."""
        self.reads = RecordThreads("broker-reads", _READ_THREADS, timers)
        """Lookups by timestamp, and down-conversions."""

    async def on_disk(self, function: Callable[[], ResultT]) -> ResultT:
        """Run a function that waits for the disk."""
        with self._timers.working():
            return await asyncio.get_running_loop().run_in_executor(self._disk, function)

    def cancel_records(self, reason: str) -> None:
        """Cancel all work on records, now and from now on. Belongs to the event loop."""
        self.appends.cancel_all(reason)
        self.reads.cancel_all(reason)

    def stop(self, *, cancel: bool = False) -> None:
        """Wait for running work. ``cancel`` drops disk work that has not begun. Blocks."""
        self._disk.shutdown(cancel_futures=cancel)
        self.appends.join()
        self.reads.join()
