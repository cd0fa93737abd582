"""Znodes in one session of kazoo, read with watches. The calls block the caller's thread, within a time limit."""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, Final, NamedTuple, Self

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent

from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.errors import ConnectionLost, ZooKeeperError
from spark_kafka_native._zookeeper.kazoo_client import close_session, open_session, reason_of, session_timeout_ms

EVERYTHING: Final = ""
"""Instead of a path: any znode may have changed, because all watches were lost."""
_LOST: Final = (ConnectionClosedError, ConnectionLoss, SessionExpiredError)
_TRIES: Final = 10
"""How often in a row another program may create or delete a znode between two requests."""
_IN_FLIGHT: Final = 100
"""Most requests without a response."""


class SessionState(Enum):
    """Whether requests can be sent."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection was lost; it is opened again."""
    LOST = "lost"
    """The session has ended. kazoo opens another one, which is not used."""


class ReadZnode(NamedTuple):
    """The data of a znode, and its czxid."""

    data: bytes
    created: int


class ZnodeClient:
    """Znodes below the chroot. Each reading but ``values`` sets a watch, whose event waits for ``take_changes``.

    The events of a path are counted once, so there are no more of them than paths. Threads may share it.
    """

    def __init__(self, connect: ConnectString, wake: Callable[[], None], timeout_s: float) -> None:
        """Use ``open``."""
        self.timeout_s = timeout_s
        """Longest wait for the responses to one call, or to ``_IN_FLIGHT`` requests of a call with more."""
        self.state = SessionState.CONNECTED
        self.suspended_at = 0.0
        """When the connection was lost, in seconds of ``time.monotonic``."""
        self._connect = connect
        self._wake = wake
        self._lock = threading.Lock()
        self._changes: set[str] = {EVERYTHING}
        self._client: KazooClient | None = None

    @classmethod
    def open(
        cls,
        connect: ConnectString,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        wake: Callable[[], None],
        is_cancelled: Callable[[], bool],
    ) -> Self:
        """Open a session. ``wake`` is called in threads of kazoo after each change of a znode or of ``state``.

        Blocks. Raises ZooKeeperError: there was no session within ``connection_timeout_ms``, or it ``is_cancelled``.
        """
        self = cls(connect, wake, connection_timeout_ms / 1000)
        self._client = open_session(
            connect,
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=connection_timeout_ms,
            on_state=self._note_state,
            is_cancelled=is_cancelled,
        )
        return self

    def close(self) -> None:
        """End the session. Blocks for some seconds at most."""
        close_session(self._client)

    @property
    def session_timeout_ms(self) -> int:
        """The session's timeout, which the server has chosen."""
        return session_timeout_ms(self._client)

    def take_changes(self) -> set[str]:
        """The paths that may have changed since the last call; `EVERYTHING` at first and after a lost connection."""
        with self._lock:
            changes, self._changes = self._changes, set()
        return changes

    def check_session(self) -> None:
        """Raise ConnectionLost: no server confirms now that the session exists; or ZooKeeperError."""
        self._result("/", self._kazoo.exists_async("/"), self._deadline())

    def check_chroot(self) -> None:
        """Raise ZooKeeperError: the path of the chroot does not exist; or as for all requests."""
        chroot = self._connect.chroot
        if chroot and self._result("", self._kazoo.exists_async(chroot), self._deadline()) is None:
            raise ZooKeeperError(
                f"ZooKeeper {self._connect.hosts}: the chroot {chroot} of zookeeper.connect does not exist; "
                "a broker creates it when it registers"
            )

    def children(self, path: str) -> tuple[str, ...]:
        """The names of a znode's children; none if it does not exist. Raises ZooKeeperError."""
        whole, deadline = self._whole(path), self._deadline()
        for _ in range(_TRIES):
            try:
                return tuple(self._result(path, self._kazoo.get_children_async(whole, self._note_event), deadline))
            except NoNodeError:
                if self._result(path, self._kazoo.exists_async(whole, self._note_event), deadline) is None:
                    return ()
        raise self._error(path, f"another program created and deleted it {_TRIES} times between two requests")

    def get(self, paths: Iterable[str]) -> dict[str, ReadZnode]:
        """The znodes that exist. A path that does not exist has no watch. Raises ZooKeeperError."""
        found = self._each(paths, lambda whole: self._kazoo.get_async(whole, self._note_event), self._deadline())
        return {path: ReadZnode(data or b"", stat.czxid) for path, (data, stat) in found.items()}

    def values(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The data of the znodes that exist, without watches. Raises ZooKeeperError."""
        found = self._each(paths, self._kazoo.get_async, self._deadline())
        return {path: data or b"" for path, (data, _) in found.items()}

    def create_ephemeral(self, znodes: Mapping[str, bytes]) -> set[str]:
        """Create znodes that end with the session, and the paths above them -> the paths that other sessions have.

        Raises ZooKeeperError.
        """
        deadline = self._deadline()
        found = self._each(
            znodes,
            lambda whole: self._kazoo.create_async(whole, znodes[self._relative(whole)], ephemeral=True, makepath=True),
            deadline,
            ignored=NodeExistsError,
        )
        exist = znodes.keys() - found.keys()
        return exist - self._own(exist, deadline)

    def delete_ephemeral(self, paths: Iterable[str]) -> None:
        """Delete znodes of this session that may exist; those of other sessions stay. Raises ZooKeeperError."""
        deadline = self._deadline()
        self._each(self._own(paths, deadline), self._kazoo.delete_async, deadline)

    def _own(self, paths: Iterable[str], deadline: Deadline) -> set[str]:
        """The paths whose znodes end with this session."""
        session_id = self._kazoo.client_id[0]
        found = self._each(paths, self._kazoo.exists_async, deadline)
        return {path for path, stat in found.items() if stat is not None and stat.ephemeralOwner == session_id}

    def put(self, znodes: Mapping[str, bytes]) -> None:
        """Write znodes, and create those that do not exist, with the paths above them. Raises ZooKeeperError."""
        left, deadline = dict(znodes), self._deadline()
        for _ in range(_TRIES):
            set_ones = self._each(
                left, lambda whole: self._kazoo.set_async(whole, znodes[self._relative(whole)]), deadline
            )
            left = {path: data for path, data in left.items() if path not in set_ones}
            created = self._each(
                left,
                lambda whole: self._kazoo.create_async(whole, znodes[self._relative(whole)], makepath=True),
                deadline,
                ignored=NodeExistsError,
            )
            left = {path: data for path, data in left.items() if path not in created}
            if not left:
                return
        path = next(iter(left))
        raise self._error(path, f"another program created and deleted it {_TRIES} times between two requests")

    def _each(
        self,
        paths: Iterable[str],
        request: Callable[[str], Any],
        deadline: Deadline,
        ignored: type[KazooException] = NoNodeError,
    ) -> dict[str, Any]:
        """The results of requests for whole paths, without those with the error ``ignored``."""
        found: dict[str, Any] = {}
        in_flight: deque[tuple[str, Any]] = deque()
        waiting = iter(paths)
        for number in itertools.count(1):
            # A server responds in the order of the requests.
            for path in itertools.islice(waiting, _IN_FLIGHT - len(in_flight)):
                in_flight.append((path, request(self._whole(path))))
            if not in_flight:
                break
            path, response = in_flight.popleft()
            with suppress(ignored):
                found[path] = self._result(path, response, deadline)
            if number % _IN_FLIGHT == 0:
                deadline = self._deadline()
        return found

    @property
    def _kazoo(self) -> KazooClient:
        if self.state is not SessionState.CONNECTED:  # kazoo would collect requests until it is connected again
            raise ConnectionLost(f"ZooKeeper {self._connect}: the connection was lost")
        return self._client

    def _deadline(self) -> Deadline:
        return Deadline.after_ms(self.timeout_s * 1000)

    def _whole(self, path: str) -> str:
        return f"{self._connect.chroot}{path}"

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._connect.chroot)

    def _result(self, path: str, request: Any, deadline: Deadline) -> Any:
        """The result of a request. Raises NoNodeError; NodeExistsError; ZooKeeperError for any other error."""
        try:
            return request.get(timeout=deadline.remaining_ms / 1000)
        except (NoNodeError, NodeExistsError):
            raise
        except KazooTimeoutError as error:
            raise ConnectionLost(self._text(path, f"no response within {deadline.allowed_ms / 1000:g} s")) from error
        except KazooException as error:
            if isinstance(error, _LOST):
                raise ConnectionLost(self._text(path, reason_of(error))) from error
            raise self._error(path, reason_of(error)) from error

    def _error(self, path: str, problem: str) -> ZooKeeperError:
        return ZooKeeperError(self._text(path, problem))

    def _text(self, path: str, problem: str) -> str:
        return f"ZooKeeper {self._connect.hosts}: {self._whole(path)}: {problem}"

    # --- in threads of kazoo

    def _note_event(self, event: WatchedEvent) -> None:
        path = EVERYTHING if event.path is None else self._relative(event.path)
        with self._lock:
            self._changes.add(path)
        self._wake()

    def _note_state(self, state: KazooState) -> None:
        if self.state is SessionState.LOST:
            return
        match state:
            case KazooState.CONNECTED:
                with self._lock:
                    self._changes.add(EVERYTHING)
                self.state = SessionState.CONNECTED
            case KazooState.SUSPENDED:
                self.suspended_at = time.monotonic()
                self.state = SessionState.SUSPENDED
            case _:
                self.state = SessionState.LOST
        self._wake()
