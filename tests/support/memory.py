"""Memory that Python code takes."""

import tracemalloc
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def with_peak_bytes(action: Callable[[], T]) -> tuple[T, int]:
    """The result of ``action``, and the most bytes that it held at a time."""
    tracemalloc.start()
    try:
        return action(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
