"""Memory for decompressed payloads, used again from one decode to the next.

The payloads of a Fetch response are needed together until the columns have been copied from them. If they were
allocated for each decode, the C library would return their pages to the system, and the page faults would take a third
of the time of decoding compressed batches. Idle memory is in a list, whose ``pop`` and ``append`` are atomic, so
threads share it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

_FIRST_BYTES = 1 << 20
_KEPT_BYTES = 1 << 26
"""Larger memory is not kept."""
_DOUBLED_UNTIL = 1 << 26
"""Larger memory grows by a quarter: while it is copied, the old and the new one are held together."""

_idle: list[memoryview] = []


class Scratch:
    """Byte strings in one piece of memory. ``data`` is valid until the context ends, or until more is reserved."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self.used = 0
        """Bytes that have been added."""

    @property
    def data(self) -> memoryview:
        """Everything added so far."""
        return self._memory[: self.used]

    def reserve(self, size: int) -> memoryview:
        """Free memory of ``size`` bytes, after what has been added."""
        start, end = self.used, self.used + size
        if end > len(self._memory):
            larger = memoryview(bytearray(max(end, len(self._memory) + self._step)))
            larger[:start] = self._memory[:start]
            self._memory = larger
        return self._memory[start:end]

    @property
    def _step(self) -> int:
        size = len(self._memory)
        return size if size < _DOUBLED_UNTIL else size // 4

    def add(self, size: int) -> None:
        """Count the first ``size`` bytes of reserved memory as written."""
        self.used += size

    def give_back(self) -> None:
        """Leave the memory to the next scratch."""
        if len(self._memory) <= _KEPT_BYTES:
            _idle.append(self._memory)


@contextmanager
def scratch() -> Iterator[Scratch]:
    """An empty scratch. What refers to its data must not be used any more once it is left."""
    try:
        memory = _idle.pop()
    except IndexError:
        memory = memoryview(bytearray(_FIRST_BYTES))
    taken = Scratch(memory)
    try:
        yield taken
    finally:
        taken.give_back()
