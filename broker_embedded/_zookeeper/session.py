"""A session with ZooKeeper on the event loop."""

import asyncio
import functools
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Self, TypeAlias

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol.serialization import Create
from kazoo.protocol.states import KazooState
from kazoo.security import OPEN_ACL_UNSAFE

from broker_embedded._config.zookeeper_settings import ZooKeeperSettings
from broker_embedded._zookeeper.znodes import OnChange, Znode, run_limited
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.errors import ConnectionLost, ZooKeeperError
from spark_kafka_native._zookeeper.kazoo_client import abandon_session, close_session, open_session, reason_of

logger = logging.getLogger(__name__)

_LOST: Final = (ConnectionClosedError, ConnectionLoss, SessionExpiredError)
_MAX_DATA_BYTES: Final = 1_000_000
"""A server closes the connection at a request above ``jute.maxbuffer``, 1,048,575 bytes by default."""
_BYTES_BESIDE: Final = 100
"""More than what a request has beside the path and the data of each znode."""
_QUIET_S: Final = 1.0
"""How long a start waits for ZooKeeper before it logs that it waits."""
_TRIES: Final = 10
"""How often in a row another program may create or delete a znode between two requests."""
_Expected: TypeAlias = type[KazooException] | tuple[type[KazooException], ...]
_Watch: TypeAlias = Callable[[object], None] | None


class ZooKeeperSession:
    """`Znodes` in one session. Belongs to the event loop.

    Requests wait while ZooKeeper cannot be reached. They raise ZooKeeperError when the connection or the session is
    lost.
    """

    def __init__(self, connect: ConnectString, client: KazooClient, lost: asyncio.Event, max_in_flight: int) -> None:
        """Use ``open``."""
        self._connect = connect
        self._client = client
        self._loop = asyncio.get_running_loop()
        self.max_in_flight = max_in_flight
        self._in_flight = asyncio.Semaphore(max_in_flight)
        self.lost = lost
        """Set when the session has ended or is given up. The object is of no use from then on."""

    @classmethod
    async def open(cls, connect: ConnectString, settings: ZooKeeperSettings) -> Self:
        """Open a session, and create the path of the chroot. Raises ZooKeeperError within the time limit."""
        loop, cancelled = asyncio.get_running_loop(), threading.Event()
        states = _States(connect, settings)
        waiting = loop.call_later(
            _QUIET_S,
            logger.info,
            "waiting up to %d ms for ZooKeeper %s",
            settings.connection_timeout_ms,
            connect.hosts,
        )
        opening = loop.run_in_executor(
            None,
            functools.partial(
                open_session,
                connect,
                session_timeout_ms=settings.zookeeper_session_timeout_ms,
                connection_timeout_ms=settings.connection_timeout_ms,
                on_state=lambda state: _call_soon(loop, states.changed, state),
                is_cancelled=cancelled.is_set,
            ),
        )
        try:
            client = await asyncio.shield(opening)
        except asyncio.CancelledError:
            cancelled.set()
            with suppress(ZooKeeperError):
                await loop.run_in_executor(None, close_session, await opening)
            raise
        finally:
            waiting.cancel()
        states.client = client
        self = cls(connect, client, states.lost, settings.zookeeper_max_in_flight_requests)
        try:
            await self._create_chroot()
        except BaseException:
            await self.close()
            raise
        return self

    @property
    def session_id(self) -> int:
        """The id of the session, as in ``owner`` of its ephemeral znodes. Raises ZooKeeperError."""
        client_id = self._client.client_id
        if client_id is None:
            raise ConnectionLost(f"ZooKeeper {self._connect}: the connection was lost")
        return int(client_id[0])

    async def close(self) -> None:
        """End the session, and with it its ephemeral znodes. Waits some seconds at most."""
        await self._loop.run_in_executor(None, close_session, self._client)

    async def abandon(self) -> None:
        """Close the connection as a crash of the process would: the session ends by its timeout."""
        await self._loop.run_in_executor(None, abandon_session, self._client)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def get(self, path: str, on_change: OnChange | None = None) -> Znode | None:
        """A znode, None if it does not exist. Raises ZooKeeperError."""
        watch = self._watch(on_change)
        for _ in range(_TRIES):
            try:
                data, stat = await self._call(path, lambda whole: self._client.get_async(whole, watch))
            except NoNodeError:
                if await self._is_missing(path, watch):
                    return None
            else:
                return Znode(data=data or b"", owner=stat.ephemeralOwner, version=stat.version)
        raise self._changes_too_often(path)

    async def children(self, path: str, on_change: OnChange | None = None) -> tuple[str, ...]:
        """The sorted names of a znode's children; none if it does not exist. Raises ZooKeeperError."""
        watch = self._watch(on_change)
        for _ in range(_TRIES):
            try:
                names = await self._call(path, lambda whole: self._client.get_children_async(whole, watch))
            except NoNodeError:
                if await self._is_missing(path, watch):
                    return ()
            else:
                return tuple(sorted(names))
        raise self._changes_too_often(path)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> bool:
        """Create a znode whose parent exists. False: it exists, unchanged. Raises ZooKeeperError.

        Without data it has none, as in Apache Kafka, which cannot parse empty data.
        """
        self._check_size(path, data)
        try:
            await self._call(
                path, lambda whole: self._client.create_async(whole, data or None, ephemeral=ephemeral), NodeExistsError
            )
        except NodeExistsError:
            return False
        return True

    async def create_all(self, nodes: Mapping[str, bytes]) -> bool:
        """Create persistent znodes in one request, parents before children: all or none.

        False: none was created, because one of them exists, a parent does not, or the request would be too large.
        Raises ZooKeeperError.
        """
        whole = {f"{self._connect.chroot}{path}": data for path, data in nodes.items()}
        if sum(len(path.encode()) + len(data) + _BYTES_BESIDE for path, data in whole.items()) > _MAX_DATA_BYTES:
            return False
        request, acl = self._client.transaction(), self._client.default_acl or OPEN_ACL_UNSAFE
        # Not `request.create`, which cannot create a znode without data.
        request.operations += [Create(path, data or None, acl, 0) for path, data in whole.items()]
        results = await self._call_whole(next(iter(whole)), lambda _: request.commit_async(), ())
        for path, result in zip(whole, results, strict=True):
            if isinstance(result, NodeExistsError | NoNodeError):
                return False
            if isinstance(result, KazooException) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise ZooKeeperError(f"ZooKeeper {self._connect.hosts}: {path}: {reason_of(result)}")
        return True

    async def put(self, path: str, data: bytes) -> None:
        """Create a persistent znode whose parent exists, or replace its data. Raises ZooKeeperError."""
        self._check_size(path, data)
        for _ in range(_TRIES):
            try:
                await self._call(path, lambda whole: self._client.set_async(whole, data))
            except NoNodeError:
                if await self.create(path, data):
                    return
            else:
                return
        raise self._changes_too_often(path)

    async def replace(self, path: str, data: bytes, version: int) -> bool:
        """Replace the data of a znode. False: it has another version, or does not exist. Raises ZooKeeperError."""
        self._check_size(path, data)
        expected = (BadVersionError, NoNodeError)
        try:
            await self._call(path, lambda whole: self._client.set_async(whole, data, version), expected)
        except expected:
            return False
        return True

    async def delete(self, path: str) -> None:
        """Delete a znode, if it exists, after everything below it. Raises ZooKeeperError."""
        await run_limited(self, self.delete, [f"{path}/{name}" for name in await self.children(path)])
        with suppress(NoNodeError):
            await self._call(path, self._client.delete_async)

    async def _create_chroot(self) -> None:
        """Create the path of the chroot, as Apache Kafka does. Raises ZooKeeperError."""
        names = self._connect.chroot.split("/")[1:]
        for index in range(len(names)):
            whole = "/" + "/".join(names[: index + 1])
            with suppress(NodeExistsError):
                await self._call_whole(whole, self._client.create_async, NodeExistsError)
                logger.info("created %s in ZooKeeper %s", whole, self._connect.hosts)

    async def _is_missing(self, path: str, watch: _Watch) -> bool:
        """Set the watch on a znode that does not exist. False: it was created meanwhile."""
        return watch is None or await self._call(path, lambda whole: self._client.exists_async(whole, watch)) is None

    async def _call(self, path: str, start: Callable[[str], Any], expected: _Expected = NoNodeError) -> Any:
        """The result of a request for a path below the chroot. Raises as ``_call_whole``."""
        return await self._call_whole(f"{self._connect.chroot}{path}", start, expected)

    async def _call_whole(self, whole: str, start: Callable[[str], Any], expected: _Expected) -> Any:
        """The result of a request for a whole path. Raises ``expected``; ZooKeeperError for any other error."""
        done: asyncio.Future[Any] = self._loop.create_future()
        async with self._in_flight:
            try:
                start(whole).rawlink(lambda result: _call_soon(self._loop, _settle, done, result))
                return await done
            except expected:
                raise
            except ValueError as error:  # kazoo refuses the path
                raise ZooKeeperError(f"ZooKeeper {self._connect.hosts}: {whole!r}: {error}") from error
            except KazooException as error:
                kind = ConnectionLost if isinstance(error, _LOST) else ZooKeeperError
                raise kind(f"ZooKeeper {self._connect.hosts}: {whole}: {reason_of(error)}") from error

    def _watch(self, on_change: OnChange | None) -> _Watch:
        return None if on_change is None else lambda _: _call_soon(self._loop, on_change)

    def _check_size(self, path: str, data: bytes) -> None:
        if len(data) > _MAX_DATA_BYTES:
            problem = f"{len(data)} bytes are more than {_MAX_DATA_BYTES}, which a znode can have"
            raise ZooKeeperError(f"ZooKeeper {self._connect.hosts}: {self._connect.chroot}{path}: {problem}")

    def _changes_too_often(self, path: str) -> ZooKeeperError:
        problem = f"another program created and deleted it {_TRIES} times between two requests"
        return ZooKeeperError(f"ZooKeeper {self._connect.hosts}: {self._connect.chroot}{path}: {problem}")


class _States:
    """The states of a client. Belongs to the event loop.

    A server that has lost its data, or has older data, refuses the client forever. So the session is given up when the
    connection is not restored within the session timeout.
    """

    def __init__(self, connect: ConnectString, settings: ZooKeeperSettings) -> None:
        self._connect = connect
        self._limit_ms = settings.zookeeper_session_timeout_ms
        self.client: KazooClient | None = None
        self.lost = asyncio.Event()
        self._giving_up: asyncio.TimerHandle | None = None

    def changed(self, state: KazooState) -> None:
        """The client has another state."""
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        if state == KazooState.LOST:
            self.lost.set()
        elif state == KazooState.SUSPENDED:
            logger.warning("the connection to ZooKeeper %s was lost; connecting again", self._connect.hosts)
            self._giving_up = asyncio.get_running_loop().call_later(self._limit_ms / 1000, self._give_up)

    def _give_up(self) -> None:
        logger.warning(
            "the connection to ZooKeeper %s was not restored within %d ms; giving up the session",
            self._connect.hosts,
            self._limit_ms,
        )
        self.lost.set()
        if self.client is not None:
            asyncio.get_running_loop().run_in_executor(None, close_session, self.client)


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> None:
    """Call a function on the event loop, from a thread of kazoo."""
    with suppress(RuntimeError):  # the event loop is closed
        loop.call_soon_threadsafe(function, *arguments)


def _settle(done: "asyncio.Future[Any]", result: Any) -> None:
    """Pass the result of a request on to the task that waits for it, unless that was cancelled."""
    if done.done():
        return
    if result.successful():
        done.set_result(result.value)
    else:
        done.set_exception(result.exception)
