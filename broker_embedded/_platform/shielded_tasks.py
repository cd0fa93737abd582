"""Tasks that are completed even if the request that started them is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class ShieldedTasks:
    """Tasks of requests that change something. A request is cancelled when its connection breaks, its tasks are not."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Await the work, which is completed even if this call is cancelled; its result or exception."""
        return await asyncio.shield(self.start(work))

    def start(self, work: Coroutine[Any, Any, ResultT]) -> "asyncio.Task[ResultT]":
        """Start the work without waiting for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    async def wait(self) -> None:
        """Wait for all started work."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cancel(self) -> None:
        """Cancel all work, as a crash of the process would."""
        for task in self._tasks:
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mark the exception as retrieved, because the caller may have been cancelled
