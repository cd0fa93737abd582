"""Turns: who decides about an id while another decision about it waits for the disk waits too."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Turns:
    """One turn at a time for each name, in the order in which they were asked for. Belongs to one event loop."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}

    def __contains__(self, name: str) -> bool:
        """Whether somebody has the turn, or waits for it."""
        return name in self._turns

    @contextlib.asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Have the turn within the block."""
        turn = self._turns.setdefault(name, _Turn())
        turn.wanted += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[name]


class _Turn:
    """Who has the turn, and how many have it or wait for it."""

    __slots__ = ("lock", "wanted")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.wanted = 0
