"""Points in time by which something must have happened."""

import time
from typing import Final, Self

LONGEST_POLL_MS: Final = 2**31 - 1
"""``select.poll``, ``settimeout`` and the times in requests take no more: 24 days."""


class Deadline:
    """A point on the monotonic clock. ``allowed_ms`` is how far ahead it was when it was made."""

    __slots__ = ("_at", "_extended_ms", "allowed_ms")

    def __init__(self, at: float) -> None:
        """``at`` is in seconds of ``time.monotonic()``."""
        self._at = at
        self._extended_ms = 0.0
        self.allowed_ms = self.remaining_ms

    @classmethod
    def after_ms(cls, duration_ms: float) -> Self:
        """``duration_ms`` from now."""
        deadline = cls(time.monotonic() + duration_ms / 1000)
        deadline.allowed_ms = duration_ms
        return deadline

    @property
    def remaining_ms(self) -> float:
        """Milliseconds left, 0 once it has passed, ``LONGEST_POLL_MS`` at most."""
        return min(max(self._at - time.monotonic(), 0.0) * 1000, LONGEST_POLL_MS)

    @property
    def expired(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self._at

    def at_most_ms(self, duration_ms: float) -> "Deadline":
        """This point, or ``duration_ms`` from now if that is sooner."""
        return self if self.remaining_ms <= duration_ms else Deadline.after_ms(duration_ms)

    def extend_ms(self, duration_ms: float, most_ms: float) -> None:
        """Move it ``duration_ms`` later, all calls together by ``most_ms`` at most."""
        added_ms = min(duration_ms, most_ms - self._extended_ms)
        self._extended_ms += added_ms
        self._at += added_ms / 1000

    def pause(self, duration_ms: float) -> bool:
        """Sleep so long, or until the deadline if that is sooner. Whether time is left."""
        time.sleep(min(duration_ms, self.remaining_ms) / 1000)
        return not self.expired
