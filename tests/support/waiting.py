"""Waiting, with a limit, for what a server does after it has answered."""

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    """Return once `condition()` is true. Raises TimeoutError."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in {within_s:.0f} s")
        time.sleep(0.02)
