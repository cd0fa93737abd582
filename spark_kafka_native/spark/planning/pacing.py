"""How often an idle stream asks the cluster for news, by a clock that tests can replace."""

import time
from dataclasses import dataclass
from typing import Final, Protocol


class Clock(Protocol):
    """Time as the stream sees it."""

    def now_ms(self) -> float:
        """Milliseconds of a clock that never goes back."""
        ...

    def epoch_ms(self) -> float:
        """Milliseconds since 1970, as the timestamps of records count."""
        ...

    def sleep_ms(self, duration_ms: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> float:
        """Milliseconds of the monotonic clock."""
        return time.monotonic() * 1000

    def epoch_ms(self) -> float:
        """The machine's time of day."""
        return time.time() * 1000

    def sleep_ms(self, duration_ms: float) -> None:
        """Block the calling thread."""
        time.sleep(duration_ms / 1000)


@dataclass(slots=True)
class RefreshPacer:
    """When to look offsets up again: at once after they moved, then at pauses that double up to a quarter second."""

    SHORTEST_MS: Final = 15.0
    LONGEST_MS: Final = 250.0

    _pause_ms: float = 0.0
    _due_at_ms: float = 0.0

    def due(self, now_ms: float) -> bool:
        """Whether it is time."""
        return now_ms >= self._due_at_ms

    @property
    def idle(self) -> bool:
        """Whether nothing had moved at the last look-up."""
        return self._pause_ms > 0

    def looked_up(self, now_ms: float, *, moved: bool) -> None:
        """Note a look-up, made at ``now_ms``."""
        self._pause_ms = 0.0 if moved else min(max(2 * self._pause_ms, self.SHORTEST_MS), self.LONGEST_MS)
        self._due_at_ms = now_ms + self._pause_ms
