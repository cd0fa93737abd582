"""The time that a client has waited for brokers, without the time that its caller took."""

import time


class PausableClock:
    """Seconds on a clock that stands still while it is paused, because the caller's time is no waiting for a broker.

    It begins paused.
    """

    __slots__ = ("_paused_at", "_paused_s")

    def __init__(self) -> None:
        self._paused_s = 0.0
        self._paused_at: float | None = time.monotonic()

    def now(self) -> float:
        """The time in seconds, as of ``time.monotonic()`` less all pauses."""
        return (time.monotonic() if self._paused_at is None else self._paused_at) - self._paused_s

    def pause(self) -> None:
        """Stop the clock, unless it is paused."""
        if self._paused_at is None:
            self._paused_at = time.monotonic()

    def resume(self) -> None:
        """Continue, unless the clock runs."""
        if self._paused_at is not None:
            self._paused_s += time.monotonic() - self._paused_at
            self._paused_at = None
