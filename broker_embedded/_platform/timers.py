"""Timers by the system's time, or by a clock that a test advances.

``Timers`` are asyncio's, in milliseconds. ``VirtualTimers`` have a clock that can be advanced: due timers run in the
order of their times, each with all its consequences before the clock advances further, so that hours pass at once and
deterministically.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from broker_embedded._platform.clocks import Clock, MovableClock

_CHORES_PER_ADVANCE: Final = 16
"""About how often a periodic task, such as retention, runs at most during one ``advance``."""
_MAX_ROUNDS: Final = 1000
"""Iterations of the event loop after which the broker counts as settled, although clients keep it busy."""
_ROUNDS_UNSEEN: Final = 50
"""The same on an event loop that does not show whether callbacks are ready."""


class Timer(Protocol):
    """A pending callback."""

    def cancel(self) -> None:
        """Cancel the callback, unless it has run or was cancelled."""


class Timers:
    """Timers of one event loop, in whose thread all methods but ``now_ms`` must be called."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        """The time, as in record timestamps. Safe to call from any thread."""
        return self._clock.now_ms()

    def elapsed_ms(self) -> int:
        """Monotonic milliseconds, for measuring durations."""
        return int(asyncio.get_running_loop().time() * 1000)

    def at(self, when_ms: int, callback: Callable[[], object]) -> Timer:
        """Call ``callback`` on the event loop at ``when_ms``, or if that is past, soon after ``at`` returns.

        The wait is measured by the monotonic clock, so that a jump of the machine's clock does not change it.
        """
        return asyncio.get_running_loop().call_later((when_ms - self.now_ms()) / 1000, callback)

    async def sleep(self, ms: int) -> None:
        """Return in ``ms`` milliseconds."""
        await self._until(self.now_ms() + ms)

    async def pause(self, ms: int) -> None:
        """Sleep before the next run of a periodic task. With a virtual clock some runs are skipped."""
        await self.sleep(ms)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """A block that waits for something real, such as the disk, during which a virtual clock must not advance."""
        yield

    async def _until(self, when_ms: int) -> None:
        future = asyncio.get_running_loop().create_future()
        timer = self.at(when_ms, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            timer.cancel()


class VirtualTimers(Timers):
    """Timers by a clock that can be advanced. If the clock also runs, they become due by that too."""

    def __init__(self, clock: MovableClock) -> None:
        super().__init__(clock)
        self._movable = clock
        self._queue: list[_Virtual] = []
        self._cancelled = 0
        self._numbers = itertools.count()
        self._alarm: asyncio.TimerHandle | None = None
        self._advancing = asyncio.Lock()
        self._until_ms = self._stride_ms = 0
        self._working = 0
        self._rested = asyncio.Event()
        self._moved_ms = 0
        self._stopped = False

    def elapsed_ms(self) -> int:
        """Monotonic milliseconds of the clock, advances included."""
        return self._moved_ms + (super().elapsed_ms() if self._movable.flows else 0)

    def at(self, when_ms: int, callback: Callable[[], object]) -> Timer:
        """Call ``callback`` when the clock reaches ``when_ms``, several ones in the order of their times."""
        timer = _Virtual(when_ms, next(self._numbers), callback, self)
        if self._stopped:
            return timer
        heapq.heappush(self._queue, timer)
        if when_ms <= self.now_ms() or (self._movable.flows and self._queue[0] is timer):
            self._set_alarm()
        return timer

    async def pause(self, ms: int) -> None:
        """Sleep. During a long ``advance`` only some runs are made, the last one at its end."""
        when_ms = self.now_ms() + ms
        if when_ms <= self._until_ms:
            when_ms = min(max(when_ms, self.now_ms() + self._stride_ms), self._until_ms)
        await self._until(when_ms)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Stop the clock within the block."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            if not self._working:
                self._rested.set()

    def stop(self) -> None:
        """Drop all callbacks, now and later, as a crash of the process would."""
        self._stopped = True
        self._queue = []
        self._set_alarm()

    async def advance(self, ms: int) -> None:
        """Advance the clock by ``ms`` and run all due callbacks. Returns when all their consequences are done.

        Reactions of clients are not waited for. Concurrent calls run one after the other. Raises ValueError: ``ms`` <
        0.
        """
        if ms < 0:
            raise ValueError(f"the clock cannot go back, by {ms} ms")
        async with self._advancing:
            await self._settle()
            begun_ms = self.now_ms()
            self._until_ms, self._stride_ms = begun_ms + ms, ms // _CHORES_PER_ADVANCE
            try:
                while (timer := self._pop_due(self._until_ms)) is not None:
                    self._move_to(timer.when_ms)
                    asyncio.get_running_loop().call_soon(timer.run)
                    await self._settle()
                self._move_to(self._until_ms)
                await self._settle()
            finally:
                self._until_ms = 0
                self._set_alarm()

    def _move_to(self, when_ms: int) -> None:
        ahead_ms = when_ms - self.now_ms()
        if ahead_ms > 0:
            self._movable.advance(ahead_ms)
            self._moved_ms += ahead_ms

    async def _settle(self) -> None:
        """Run the event loop until no callback is ready."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)  # the ready callbacks of asyncio's loops
        for _ in range(_ROUNDS_UNSEEN if ready is None else _MAX_ROUNDS):
            await asyncio.sleep(0)
            while self._working:
                self._rested.clear()
                await self._rested.wait()
            if ready is not None and not ready:
                return

    def _pop_due(self, until_ms: int) -> "_Virtual | None":
        while self._queue and self._queue[0].when_ms <= until_ms:
            timer = heapq.heappop(self._queue)
            if timer.callback is not None:
                return timer
            self._cancelled -= 1
        return None

    def _set_alarm(self) -> None:
        """Set an alarm for the first timer, if the clock runs."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not self._queue:
            return
        ahead_ms = self._queue[0].when_ms - self.now_ms()
        if ahead_ms <= 0 or self._movable.flows:
            self._alarm = asyncio.get_running_loop().call_later(max(0, ahead_ms) / 1000, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        while (timer := self._pop_due(self.now_ms())) is not None:
            asyncio.get_running_loop().call_soon(timer.run)
        self._set_alarm()

    def on_cancelled(self) -> None:
        """Count a cancelled timer. If more than half are cancelled, remove them from the queue."""
        self._cancelled += 1
        if self._cancelled > 16 and self._cancelled * 2 > len(self._queue):
            self._queue = [timer for timer in self._queue if timer.callback is not None]
            heapq.heapify(self._queue)
            self._cancelled = 0


class _Virtual:
    """One timer in the queue. Its callback is None after it has run or was cancelled."""

    __slots__ = ("callback", "number", "timers", "when_ms")

    def __init__(self, when_ms: int, number: int, callback: Callable[[], object], timers: VirtualTimers) -> None:
        self.when_ms = when_ms
        self.number = number
        self.callback: Callable[[], object] | None = callback
        self.timers = timers

    def __lt__(self, other: "_Virtual") -> bool:
        return (self.when_ms, self.number) < (other.when_ms, other.number)

    def run(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self.timers.on_cancelled()


def timers_for(clock: Clock) -> Timers:
    """The timers of a clock: virtual ones if it can be advanced."""
    return VirtualTimers(clock) if isinstance(clock, MovableClock) else Timers(clock)
