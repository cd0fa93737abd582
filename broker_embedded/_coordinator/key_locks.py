"""A lock per group or transactional id, held while a decision about it waits for the disk."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class KeyLocks:
    """One lock per key, granted in the order of the requests. Belongs to one event loop."""

    def __init__(self) -> None:
        self._locks: dict[str, _Lock] = {}

    def __contains__(self, key: str) -> bool:
        """Whether a task holds the key's lock, or waits for it."""
        return key in self._locks

    @contextlib.asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Hold the key's lock within the block."""
        lock = self._locks.setdefault(key, _Lock())
        lock.users += 1
        try:
            async with lock.lock:
                yield
        finally:
            lock.users -= 1
            if not lock.users:
                del self._locks[key]


class _Lock:
    """A lock, and the number of tasks that hold it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
