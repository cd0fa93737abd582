"""Work that must not stop half way because whoever wanted it has left."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class Finishing:
    """Brings work to its end. A client's request is cancelled when its connection breaks; what it changes is not."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Do the work, to its end even if this call is cancelled; its result or what it raises."""
        return await asyncio.shield(self.begin(work))

    def begin(self, work: Coroutine[Any, Any, ResultT]) -> "asyncio.Task[ResultT]":
        """Do the work, to its end, without waiting for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    async def settle(self) -> None:
        """Wait for all work that has begun."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def abandon(self) -> None:
        """Stop all work where it is, as a crash of the process would."""
        for task in self._tasks:
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever would hear it may be gone
