"""The broker's only door to time: the machine's clock, and those of tests.

``SystemClock`` is the machine's. ``ManualClock`` stands still until it is moved; ``ShiftedClock`` flows, and can be
moved ahead. What waits for a time to come goes through `broker_embedded.platform.timers`.
"""

import time
from typing import ClassVar, Protocol, runtime_checkable


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as in record timestamps. May jump: it is the wall clock."""
        ...

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment, which never jump nor go back: for measuring how long. Any thread may ask."""
        ...


@runtime_checkable
class MovableClock(Clock, Protocol):
    """A clock of tests. A broker that is given one has timers that go by it, `VirtualTimers`."""

    flows: ClassVar[bool]
    """Whether time also passes by itself."""

    def advance(self, ms: int) -> None:
        """Move on by ``ms`` milliseconds. With a broker on the clock, advance the broker instead of the clock."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that moves when told to."""

    flows: ClassVar[bool] = False

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = self._elapsed_ms = now_ms

    def now_ms(self) -> int:
        """The time it was set to."""
        return self._now_ms

    def elapsed_ms(self) -> int:
        """The time that it began with, and all moves ahead since."""
        return self._elapsed_ms

    def advance(self, ms: int) -> None:
        """Move on by ``ms`` milliseconds; a negative number sets the clock back, and no time passes."""
        self._now_ms += ms
        self._elapsed_ms += max(ms, 0)


class ShiftedClock:
    """The machine's clock, ahead of it by as much as it was told to."""

    flows: ClassVar[bool] = True

    def __init__(self, ahead_ms: int = 0) -> None:
        self._clock = SystemClock()
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        """Milliseconds since 1970, and those that were skipped."""
        return self._clock.now_ms() + self.ahead_ms

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment, and those that were skipped."""
        return self._clock.elapsed_ms() + self.ahead_ms

    def advance(self, ms: int) -> None:
        """Skip ``ms`` milliseconds."""
        self.ahead_ms += ms
