"""Memory of all connections: a budget for large requests, and reusable buffers for small ones."""

from collections.abc import Callable
from typing import Final

BUFFER_BYTES: Final = 16 * 1024
"""Size of a receive buffer, unless a request is larger."""
_KEPT: Final = 64
"""Upper bound of the unused buffers that are kept."""


class RequestMemory:
    """A budget of bytes for large requests.

    A holder reserves more while its request arrives. As in Kafka, the budget is not strict: the last reservation may
    exceed it, and the oldest holder always gets more, so that holders cannot deadlock.
    """

    def __init__(self, limit_bytes: int) -> None:
        """``limit_bytes`` -1 is no limit."""
        self._limit = limit_bytes
        self.used = 0
        self._holders: dict[object, int] = {}
        """Reserved bytes of each holder, the oldest holder first."""
        self._waiting: dict[object, Callable[[], None]] = {}
        """The ``resume`` callback of each waiting holder, in their order."""

    def reserve(self, holder: object, size: int, resume: Callable[[], None]) -> bool:
        """Reserve ``size`` bytes more, or return False and call ``resume`` once when another holder has released."""
        if not self.has_room and self._holders and next(iter(self._holders)) is not holder:
            self._waiting[holder] = resume
            return False
        self.used += size
        self._holders[holder] = self._holders.get(holder, 0) + size
        return True

    def release(self, holder: object) -> None:
        """Release all reserved bytes of a holder."""
        self.used -= self._holders.pop(holder)
        waiting, self._waiting = self._waiting, {}
        for resume in waiting.values():
            resume()

    def forget(self, holder: object) -> None:
        """Drop the ``resume`` callback of a holder."""
        self._waiting.pop(holder, None)

    @property
    def has_room(self) -> bool:
        """Whether any holder may reserve memory. Without it, only the oldest one may."""
        return self._limit < 0 or self.used < self._limit

    @property
    def is_short(self) -> bool:
        """Whether a holder waits for memory."""
        return bool(self._waiting)


class Buffers:
    """Receive buffers of `BUFFER_BYTES` for connections that receive or answer requests.

    An idle connection has none, because a thousand idle ones would otherwise waste 16 MiB.
    """

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self) -> bytearray:
        """A buffer with arbitrary content."""
        return self._free.pop() if self._free else bytearray(BUFFER_BYTES)

    def give_back(self, buffer: bytearray) -> None:
        """Return a buffer that is not in use any more. One of another size is dropped."""
        if len(buffer) == BUFFER_BYTES and len(self._free) < _KEPT:
            self._free.append(buffer)
