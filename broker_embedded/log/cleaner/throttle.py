"""Not more than so many bytes a second, for threads that may wait."""

import threading
from collections.abc import Callable
from typing import Final

_SHORTEST_WAIT_S: Final = 0.001
"""What is owed is saved up to this: so short a wait is longer than asked for."""


class Throttle:
    """Shared by several threads; what they ``spend`` together is held below a rate, on average.

    ``monotonic`` tells seconds. ``wait`` waits for so many seconds, or less if the whole thing is to end.
    """

    def __init__(self, monotonic: Callable[[], float], wait: Callable[[float], object]) -> None:
        self._monotonic = monotonic
        self._wait = wait
        self._free_at_s = 0.0
        self._lock = threading.Lock()

    def spend(self, size: int, bytes_per_second: float) -> None:
        """Count bytes that were read or written, and wait until the rate allows for them."""
        with self._lock:
            now_s = self._monotonic()
            self._free_at_s = max(self._free_at_s, now_s) + size / bytes_per_second
            pause_s = self._free_at_s - now_s
        if pause_s >= _SHORTEST_WAIT_S:
            self._wait(pause_s)
