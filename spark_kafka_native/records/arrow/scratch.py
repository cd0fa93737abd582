"""Memory for decompressed payloads, used again from one decode to the next.

The payloads of a Fetch response are needed together until the columns have been copied from them. If they were
allocated for each decode, the C library would return their pages to the system, and the page faults would take a third
of the time of decoding compressed batches. Idle memory is in a list, whose ``pop`` and ``append`` are atomic, so
threads share it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from spark_kafka_native.records.compression import Buffer

_FIRST_BYTES = 1 << 20
_KEPT_BYTES = 1 << 26
"""Larger memory is not kept."""

_idle: list[memoryview] = []


class Scratch:
    """Byte strings in one piece of memory. ``data`` is valid until the context ends; ``append`` may replace it."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._used = 0

    @property
    def data(self) -> memoryview:
        """Everything appended so far."""
        return self._memory[: self._used]

    def append(self, content: Buffer) -> int:
        """Copy ``content`` to the end; returns where it begins."""
        start, end = self._used, self._used + len(content)
        if end > len(self._memory):
            larger = memoryview(bytearray(max(end, 2 * len(self._memory))))
            larger[:start] = self._memory[:start]
            self._memory = larger
        self._memory[start:end] = content
        self._used = end
        return start

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
