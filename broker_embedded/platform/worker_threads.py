"""Threads for work that would hold the event loop: because it waits for the disk, or because it takes long.

Each kind has threads of its own, so that no kind waits for another: appends whose records are looked at one by one do
not wait for lookups by time or for conversions for old clients.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from broker_embedded.platform.record_threads import RecordThreads
from broker_embedded.platform.timers import Timers

_DISK_THREADS: Final = 4
_APPEND_THREADS: Final = 2
_READ_THREADS: Final = 2
ResultT = TypeVar("ResultT")


class OnDisk(Protocol):
    """Runs a function that waits for the disk, or for a name server, in another thread."""

    def __call__(self, function: Callable[[], ResultT]) -> Awaitable[ResultT]:
        """The function's result."""
        ...


class WorkerThreads:
    """The threads of one broker. A function that runs in one must not touch what belongs to the event loop."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._disk = ThreadPoolExecutor(_DISK_THREADS, thread_name_prefix="broker-disk")
        self.appends = RecordThreads("broker-appends", _APPEND_THREADS, timers)
        """Appends that look at each record."""
        self.reads = RecordThreads("broker-reads", _READ_THREADS, timers)
        """Lookups by time, and conversions for old clients."""

    async def on_disk(self, function: Callable[[], ResultT]) -> ResultT:
        """Run a function that waits for the disk."""
        with self._timers.working():
            return await asyncio.get_running_loop().run_in_executor(self._disk, function)

    def cancel_records(self, reason: str) -> None:
        """Cancel all work on records, now and from now on. Belongs to the event loop."""
        self.appends.cancel_all(reason)
        self.reads.cancel_all(reason)

    def stop(self, *, cancel: bool = False) -> None:
        """Wait for the work that has begun; ``cancel`` drops what has not begun on the disk. Blocks."""
        self._disk.shutdown(cancel_futures=cancel)
        self.appends.join()
        self.reads.join()
