"""Threads for work that would hold the event loop: because it waits for the disk, or because it takes long."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from broker_embedded.timers import Timers

_DISK_THREADS: Final = 4
_RECORD_THREADS: Final = 2
ResultT = TypeVar("ResultT")


class WorkerThreads:
    """The threads of one broker. A function that runs in one must not touch what belongs to the event loop."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._disk = ThreadPoolExecutor(_DISK_THREADS, thread_name_prefix="broker-disk")
        self._records = ThreadPoolExecutor(_RECORD_THREADS, thread_name_prefix="broker-records")

    async def on_disk(self, function: Callable[[], ResultT]) -> ResultT:
        """Run a function that waits for the disk."""
        with self._timers.working():
            return await asyncio.get_running_loop().run_in_executor(self._disk, function)

    async def on_records(self, function: Callable[[], ResultT]) -> ResultT:
        """Run a function that decompresses batches or looks at each record.

        These have threads of their own: a client's batch of a few KiB can take seconds, for which only other such
        batches wait.
        """
        with self._timers.working():
            return await asyncio.get_running_loop().run_in_executor(self._records, function)

    def stop(self, *, cancel: bool = False) -> None:
        """Wait for the work that has begun, and with ``cancel`` drop the rest."""
        for executor in (self._disk, self._records):
            executor.shutdown(cancel_futures=cancel)
