"""The broker's clocks: the machine's, and those of tests.

``SystemClock`` is the machine's. ``ManualClock`` stands still until it is advanced. ``ShiftedClock`` runs, and can be
advanced. Waiting is in `broker_embedded._platform.timers`.
"""

import time
from typing import ClassVar, Protocol, runtime_checkable


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as in record timestamps. May jump: it is the wall clock."""

    def elapsed_ms(self) -> int:
        """Monotonic milliseconds, for measuring durations. Safe to call from any thread."""


@runtime_checkable
class MovableClock(Clock, Protocol):
    """A clock of tests. A broker with such a clock has `VirtualTimers`."""

    flows: ClassVar[bool]
    """Whether time also passes by itself."""

    def advance(self, ms: int) -> None:
        """Advance by ``ms`` milliseconds. If a broker uses the clock, advance the broker instead."""


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that moves only by ``advance``. It starts at the machine's time by default.

    Clients put the machine's time into their records, and a broker refuses records more than an hour ahead of its clock
    (message.timestamp.after.max.ms).
    """

    flows: ClassVar[bool] = False

    def __init__(self, now_ms: int | None = None) -> None:
        self._now_ms = self._elapsed_ms = SystemClock().now_ms() if now_ms is None else now_ms

    def now_ms(self) -> int:
        """The time it was set to."""
        return self._now_ms

    def elapsed_ms(self) -> int:
        """The initial time plus all advances."""
        return self._elapsed_ms

    def advance(self, ms: int) -> None:
        """Advance by ``ms`` milliseconds. A negative number sets ``now_ms`` back, but not ``elapsed_ms``."""
        self._now_ms += ms
        self._elapsed_ms += max(ms, 0)


class ShiftedClock:
    """The machine's clock plus all advances."""

    flows: ClassVar[bool] = True

    def __init__(self, ahead_ms: int = 0) -> None:
        self._clock = SystemClock()
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        """Milliseconds since 1970, plus the skipped ones."""
        return self._clock.now_ms() + self.ahead_ms

    def elapsed_ms(self) -> int:
        """Monotonic milliseconds, plus the skipped ones."""
        return self._clock.elapsed_ms() + self.ahead_ms

    def advance(self, ms: int) -> None:
        """Skip ``ms`` milliseconds."""
        self.ahead_ms += ms
