"""The rate of offset lookups of an idle stream, and a clock that tests can replace."""

import time
from dataclasses import dataclass
from typing import Final


class Clock:
    """The clock of a stream."""

    def now_ms(self) -> float:
        """Milliseconds of the monotonic clock."""
        return time.monotonic() * 1000

    def epoch_ms(self) -> float:
        """Milliseconds since 1970, as in the timestamps of records."""
        return time.time() * 1000

    def sleep_ms(self, duration_ms: float) -> None:
        """Block the calling thread."""
        time.sleep(duration_ms / 1000)


@dataclass(slots=True)
class RefreshPacer:
    """The time of the next offset lookup: at once after offsets have moved, then at pauses that double up to 250 ms."""

    SHORTEST_MS: Final = 15.0
    LONGEST_MS: Final = 250.0

    _pause_ms: float = 0.0
    _due_at_ms: float = 0.0

    def due(self, now_ms: float) -> bool:
        """Whether the next lookup is due."""
        return now_ms >= self._due_at_ms

    @property
    def idle(self) -> bool:
        """Whether no offset had moved at the last lookup."""
        return self._pause_ms > 0

    def looked_up(self, now_ms: float, *, moved: bool) -> None:
        """Record a lookup at ``now_ms``."""
        self._pause_ms = 0.0 if moved else min(max(2 * self._pause_ms, self.SHORTEST_MS), self.LONGEST_MS)
        self._due_at_ms = now_ms + self._pause_ms
