"""What the broker needs of ZooKeeper's znodes. `session` has it in a session; tests have znodes in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

OnChange: TypeAlias = Callable[[], None]
"""Called once: when the znode changes, appears or vanishes, or the connection is lost."""
ANY_VERSION: Final = -1
"""Replaces the data of a znode whatever version it has."""
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Znode:
    """The data of a znode, and the session that it belongs to, 0 for a persistent one.

    ``version`` counts how often the data was replaced.
    """

    data: bytes
    owner: int
    version: int = 0


class Znodes(Protocol):
    """The znodes below the chroot, in one session. Every method raises ZooKeeperError naming the path."""

    @property
    def session_id(self) -> int:
        """The id of the session, as in ``owner`` of its ephemeral znodes."""

    @property
    def max_in_flight(self) -> int:
        """How many requests may wait for a response at the same time."""

    async def get(self, path: str, on_change: OnChange | None = None) -> Znode | None:
        """A znode, None if it does not exist."""

    async def children(self, path: str, on_change: OnChange | None = None) -> tuple[str, ...]:
        """The sorted names of a znode's children; none if it does not exist.

        ``on_change`` is called when children appear or vanish, not when they change.
        """

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> bool:
        """Create a znode whose parent exists. False: it exists, unchanged."""

    async def create_all(self, nodes: Mapping[str, bytes]) -> bool:
        """Create persistent znodes in one request, parents before children: all or none.

        False: none was created, because one of them exists, a parent does not, or the request would be too large.
        """

    async def put(self, path: str, data: bytes) -> None:
        """Create a persistent znode whose parent exists, or replace its data."""

    async def replace(self, path: str, data: bytes, version: int) -> bool:
        """Replace the data of a znode. False: it does not exist, or has another version and not ``ANY_VERSION``."""

    async def delete(self, path: str) -> None:
        """Delete a znode, if it exists, after everything below it."""


class Watches:
    """Reads of one session with a watch. A znode has one at a time, because ZooKeeper's client would keep them all."""

    def __init__(self, znodes: Znodes) -> None:
        self.znodes = znodes
        self._set: set[str] = set()

    async def get(self, path: str, on_change: OnChange) -> Znode | None:
        """As `Znodes.get`, but an earlier watch stays: its ``on_change`` is called instead."""
        return await self._read(self.znodes.get, path, path, on_change)

    async def children(self, path: str, on_change: OnChange) -> tuple[str, ...]:
        """As `Znodes.children`, but an earlier watch stays: its ``on_change`` is called instead."""
        return await self._read(self.znodes.children, path, f"{path}/", on_change)

    async def _read(
        self, read: Callable[[str, OnChange | None], Awaitable[ResultT]], path: str, key: str, on_change: OnChange
    ) -> ResultT:
        if key in self._set:
            return await read(path, None)

        def changed() -> None:
            self._set.discard(key)
            on_change()

        self._set.add(key)
        try:
            return await read(path, changed)
        except BaseException:
            self._set.discard(key)
            raise


async def ensure(znodes: Znodes, path: str) -> None:
    """Create a persistent znode and its parents, if they do not exist. Raises ZooKeeperError."""
    names = path.split("/")[1:]
    for index in range(len(names)):
        await znodes.create("/" + "/".join(names[: index + 1]))


async def run_limited(znodes: Znodes, work: Callable[[ItemT], Awaitable[object]], items: Collection[ItemT]) -> None:
    """Await ``work`` of each item, of as many at a time as requests may be in flight. Raises the first error.

    Thousands of topics are not as many tasks.
    """
    left = iter(items)

    async def work_on_next() -> None:
        for item in left:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(znodes.max_in_flight, len(items))):
                group.create_task(work_on_next())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
