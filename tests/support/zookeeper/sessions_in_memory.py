"""Sessions with ZooKeeper's nodes in memory, which end and do not respond."""

import asyncio

from tests.support.zookeeper.znodes_in_memory import ZnodesInMemory, ZooKeeperInMemory


class SessionInMemory(ZnodesInMemory):
    """A session whose requests to replace data wait while ``responds`` is not set.

    ``waiting`` is how many wait, and ``most`` how many have waited at the same time.
    """

    def __init__(self, zookeeper: ZooKeeperInMemory, *, fails_after: int | None = None) -> None:
        super().__init__(zookeeper, 1, fails_after)
        self.lost = asyncio.Event()
        self.responds = asyncio.Event()
        self.responds.set()
        self.waiting = 0
        self.most = 0

    async def replace(self, path: str, data: bytes, version: int) -> bool:
        """Wait for the response."""
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await asyncio.sleep(0)
            await self.responds.wait()
            return await super().replace(path, data, version)
        finally:
            self.waiting -= 1
