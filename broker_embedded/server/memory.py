"""What connections share: how much memory large requests may take together, and buffers for the small ones."""

from collections.abc import Callable
from typing import Final

BUFFER_BYTES: Final = 16 * 1024
"""What a connection receives into, unless a request is larger."""
_KEPT: Final = 64
"""Buffers kept while nobody needs them."""


class RequestMemory:
    """A budget of bytes for parts of requests that have been received.

    A holder reserves more as its request arrives. As Kafka's, the budget is not strict: the last reservation may exceed
    what is left, and the oldest holder always gets more, so that holders that wait for each other cannot stop forever.
    """

    def __init__(self, limit_bytes: int) -> None:
        """``limit_bytes`` -1 is no limit."""
        self._limit = limit_bytes
        self._used = 0
        self._holders: dict[object, int] = {}
        """What each holder has, the oldest holder first."""
        self._waiting: dict[object, Callable[[], None]] = {}
        """What to call for each holder that waits, in the order in which they came."""

    def reserve(self, holder: object, size: int, resume: Callable[[], None]) -> bool:
        """Reserve ``size`` bytes more, or return False and call ``resume`` once when another holder has released."""
        if 0 <= self._limit <= self._used and self._holders and next(iter(self._holders)) is not holder:
            self._waiting[holder] = resume
            return False
        self._used += size
        self._holders[holder] = self._holders.get(holder, 0) + size
        return True

    def release(self, holder: object) -> None:
        """Release all that a holder has reserved."""
        self._used -= self._holders.pop(holder)
        waiting, self._waiting = self._waiting, {}
        for resume in waiting.values():
            resume()

    def forget(self, holder: object) -> None:
        """Call a holder no more: it does not wait any longer."""
        self._waiting.pop(holder, None)

    @property
    def used(self) -> int:
        """Bytes that are reserved now."""
        return self._used

    @property
    def is_short(self) -> bool:
        """Whether somebody waits for memory."""
        return bool(self._waiting)


class Buffers:
    """Receive buffers of `BUFFER_BYTES`, lent to connections for as long as they have something to receive or answer.

    A connection that rests has none, or a thousand of them would hold 16 MiB that nobody uses.
    """

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self) -> bytearray:
        """A buffer. What it holds is of no meaning."""
        return self._free.pop() if self._free else bytearray(BUFFER_BYTES)

    def give_back(self, buffer: bytearray) -> None:
        """Let others have a buffer, into which nobody looks any more. One of another size is dropped."""
        if len(buffer) == BUFFER_BYTES and len(self._free) < _KEPT:
            self._free.append(buffer)
