"""The periodic tasks of the broker."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from broker_embedded._platform.timers import Timers

logger = logging.getLogger(__name__)

_LONGEST_MS: Final = 86_400_000
"""Longer intervals, such as Kafka's "never", are slept in parts, because timers overflow."""


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A function that is called ``interval_ms`` after the start, and after the end of each call.

    An interval that can change is a function, called before each wait. ``name`` is for the log.
    """

    name: str
    interval_ms: int | Callable[[], int]
    run: Callable[[], Awaitable[object] | None]


class PeriodicTasks:
    """Runs each task independently. An error is logged and does not end the repetition."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._tasks: list[asyncio.Task[None]] = []
        self._pauses: set[asyncio.Future[None]] = set()
        self._stopping = False

    def start(self, *tasks: PeriodicTask) -> None:
        """Begin the repetition of each task."""
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._repeat(task), name=task.name) for task in tasks]

    async def stop(self) -> None:
        """End the repetitions, and wait for running functions to complete."""
        self._stopping = True
        for pause in self._pauses:
            pause.cancel()
        await asyncio.gather(*self._tasks)

    def abandon(self) -> None:
        """Cancel the repetitions, as a crash of the process would."""
        for task in (*self._tasks, *self._pauses):
            task.cancel()

    async def _repeat(self, task: PeriodicTask) -> None:
        interval = task.interval_ms
        while not await self._stopped_within(interval() if callable(interval) else interval):
            try:
                waits = task.run()
                if waits is not None:
                    await waits
            except Exception:  # after any error the task must run again
                logger.exception("%s failed, will be retried", task.name)

    async def _stopped_within(self, interval_ms: int) -> bool:
        """Sleep until the interval ends or ``stop`` is called; whether it was stopped."""
        while interval_ms > 0 and not self._stopping:
            pause = asyncio.ensure_future(self._timers.pause(min(interval_ms, _LONGEST_MS)))
            self._pauses.add(pause)
            await asyncio.wait((pause,))
            self._pauses.discard(pause)
            interval_ms -= _LONGEST_MS
        return self._stopping
