"""Offsets of groups in ``/consumers/GROUP/offsets/TOPIC/PARTITION``, as decimal text: OffsetCommit v0, OffsetFetch v0.

The znodes are persistent, and stay when the topic is deleted, as in Apache Kafka. Consumers and tools of Kafka 0.8 to
1.1 use the same znodes.

A request to ZooKeeper is repeated if the connection is lost, because it is not known whether it was executed. If the
session has ended, it is repeated in the next one. Apache Kafka waits without a limit; here all requests of a client's
request end after ``zookeeper.session.timeout.ms``.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Set
from contextlib import asynccontextmanager
from typing import Final, Protocol

from broker_embedded._zookeeper.znodes import ANY_VERSION, Znodes, run_limited
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._zookeeper.consumer_znodes import GroupPaths, decode_offset
from spark_kafka_native._zookeeper.errors import ConnectionLost, ZooKeeperError
from spark_kafka_native._zookeeper.json_data import InvalidZnode

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 0.1
"""Before a request is repeated, so that the end of the session is known by then."""
_TRIES: Final = 10
"""How often in a row another program may create or delete a znode between two requests."""
_MAX_PARENTS_BYTES: Final = 200_000
"""Upper bound of the number of names in a group id with slashes, times its size. Each name is a znode, and one request
creates all of them. So a group id has 316 names at most. Apache Kafka has no such limit."""
_SHOWN: Final = 100
"""How many characters of a group id are logged."""
_INVALID: Final = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""Characters that ZooKeeper's Java client refuses in paths (its class PathUtils)."""


class Session(Znodes, Protocol):
    """The znodes of a session that ends."""

    lost: asyncio.Event


class ConsumerOffsets:
    """`OffsetStore` in the broker's sessions. Belongs to the event loop."""

    def __init__(self, session: Session, timeout_ms: int) -> None:
        """``timeout_ms`` limits each ``store`` and ``read``."""
        self._session = session
        self._timeout_ms = timeout_ms
        self._slots = asyncio.Semaphore(session.max_in_flight)
        """Few requests wait in the session at a time, so that requests for topics do not wait long after them."""
        self._attempts: set[asyncio.Timeout] = set()
        """The time limits of the requests in flight, without a time until the session is replaced."""
        self._replaced = asyncio.Event()
        self._is_stopped = False

    def use(self, session: Session) -> None:
        """Repeat the requests in flight in a new session."""
        self._session = session
        self._end_attempts()

    def stop(self) -> None:
        """End all requests, which fail."""
        self._is_stopped = True
        self._end_attempts()

    async def store(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> Set[TopicPartition]:
        """Store offsets. The partitions that were stored; of others that is not known, and the error is logged."""
        stored: set[TopicPartition] = set()

        async def store_one(partition: TopicPartition) -> None:
            path, data = GroupPaths(group_id).offset(partition), str(offsets[partition]).encode()
            await self._with_session(lambda znodes: _write(znodes, path, data))
            stored.add(partition)

        await self._each(f"offsets of group {group_id[:_SHOWN]!r} are not stored", group_id, offsets, store_one)
        return stored

    async def read(self, group_id: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """The offset of each partition, None if it has none. Absent if it cannot be read; the error is logged."""
        found: dict[TopicPartition, int | None] = {}

        async def read_one(partition: TopicPartition) -> None:
            path = GroupPaths(group_id).offset(partition)
            found[partition] = await self._with_session(lambda znodes: _read(znodes, path))

        await self._each(f"offsets of group {group_id[:_SHOWN]!r} are not read", group_id, partitions, read_one)
        return found

    async def _each(
        self,
        problem: str,
        group_id: str,
        partitions: Collection[TopicPartition],
        work: Callable[[TopicPartition], Awaitable[None]],
    ) -> None:
        """Await the work on each partition, within the time limit. Log the first error, after ``problem``."""
        if not partitions:
            return
        errors: list[str] = []

        async def work_on(partition: TopicPartition) -> None:
            try:
                await work(partition)
            except ZooKeeperError as error:
                errors.append(str(error))

        if not _is_in_paths(group_id):
            errors.append("a znode cannot have this name")
        else:
            try:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    await run_limited(self._session, work_on, partitions)
            except TimeoutError:
                errors.append(
                    f"ZooKeeper has not responded within {self._timeout_ms} ms (zookeeper.session.timeout.ms)"
                )
        if errors:
            logger.warning("%s: %s", problem, errors[0])

    async def _with_session(self, work: Callable[[Znodes], Awaitable["int | None"]]) -> int | None:
        """The result of requests in the present session, or in the next one. Raises ZooKeeperError.

        It does not end while ZooKeeper cannot be reached: the caller has the time limit.
        """
        while True:
            async with self._slots:
                session = await self._open_session()
                try:
                    async with self._attempt():
                        return await work(session)
                except TimeoutError:
                    continue
                except ConnectionLost as error:
                    logger.debug("repeating a request: %s", error)
            await asyncio.sleep(_PAUSE_S)

    @asynccontextmanager
    async def _attempt(self) -> AsyncIterator[None]:
        """Requests in the present session. Raises TimeoutError: it was replaced."""
        async with asyncio.timeout(None) as attempt:
            self._attempts.add(attempt)
            try:
                yield
            finally:
                self._attempts.discard(attempt)

    def _end_attempts(self) -> None:
        self._replaced.set()
        self._replaced = asyncio.Event()
        for attempt in self._attempts:
            attempt.reschedule(0)
        self._attempts.clear()

    async def _open_session(self) -> Session:
        """The present session, as soon as one is open. Raises ZooKeeperError: the broker stops."""
        while not self._is_stopped and self._session.lost.is_set():
            await self._replaced.wait()
        if self._is_stopped:
            raise ZooKeeperError("the broker stops")
        return self._session


def _is_in_paths(group_id: str) -> bool:
    """Whether a group id can be in a path. Slashes separate names, as in Apache Kafka."""
    names = group_id.split("/")
    if _INVALID.search(group_id) or {"", ".", ".."} & set(names):
        return False
    return len(names) * len(group_id.encode()) <= _MAX_PARENTS_BYTES


async def _write(znodes: Znodes, path: str, data: bytes) -> None:
    """Replace the data of a znode, or create it. Raises ZooKeeperError."""
    for _ in range(_TRIES):
        if await znodes.replace(path, data, ANY_VERSION) or await _create(znodes, path, data):
            return
    raise ZooKeeperError(f"{path}: another program created and deleted it {_TRIES} times between two requests")


async def _create(znodes: Znodes, path: str, data: bytes) -> bool:
    """Create a znode and those of its parents that do not exist. False: another program has created one of them."""
    nodes = {path: data}
    while not await znodes.create_all(nodes):
        path = path.rpartition("/")[0]
        if not path:
            return False
        nodes = {path: b"", **nodes}
    return True


async def _read(znodes: Znodes, path: str) -> int | None:
    """The offset in a znode, None if it does not exist or has no data. Raises ZooKeeperError."""
    znode = await znodes.get(path)
    if znode is None or not znode.data:
        return None
    try:
        return decode_offset(znode.data)
    except InvalidZnode as error:
        raise ZooKeeperError(f"{path}: {error}") from None
