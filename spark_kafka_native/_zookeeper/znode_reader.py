"""Reading znodes, with watches, in one session of kazoo. The calls block the caller's thread, within a time limit."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, Self

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, KazooException, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent

from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.errors import ConnectionLost, ZooKeeperError
from spark_kafka_native._zookeeper.kazoo_client import close_session, open_session, reason_of

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
    """The session has ended."""


class ReadZnode(NamedTuple):
    """The data of a znode, and its czxid."""

    data: bytes
    created: int


class ZnodeReader:
    """Znodes below the chroot. Each reading sets a watch, whose event waits for ``take_changes``.

    The events of a path are counted once, so there are no more of them than paths.
    """

    def __init__(self, connect: ConnectString, wake: Callable[[], None], timeout_s: float) -> None:
        """Use ``open``."""
        self.timeout_s = timeout_s
        """Longest wait for the responses to one call."""
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
        cancelled: threading.Event,
    ) -> Self:
        """Open a session. ``wake`` is called in threads of kazoo after each change of a znode or of ``state``.

        Blocks. Raises ZooKeeperError: there was no session within ``connection_timeout_ms``, or ``cancelled`` was set.
        """
        self = cls(connect, wake, connection_timeout_ms / 1000)
        self._client = open_session(
            connect,
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=connection_timeout_ms,
            on_state=self._note_state,
            cancelled=cancelled,
        )
        return self

    def close(self) -> None:
        """End the session. Blocks for some seconds at most."""
        close_session(self._client)

    def take_changes(self) -> set[str]:
        """The paths that may have changed since the last call; `EVERYTHING` at first and after a lost connection."""
        with self._lock:
            changes, self._changes = self._changes, set()
        return changes

    def has_chroot(self) -> bool:
        """Whether the path of the chroot exists. Raises ZooKeeperError."""
        chroot = self._connect.chroot
        return not chroot or self._result("", self._kazoo.exists_async(chroot)) is not None

    def children(self, path: str) -> tuple[str, ...]:
        """The names of a znode's children; none if it does not exist. Raises ZooKeeperError."""
        whole = self._whole(path)
        for _ in range(_TRIES):
            try:
                return tuple(self._result(path, self._kazoo.get_children_async(whole, self._note_event)))
            except NoNodeError:
                if self._result(path, self._kazoo.exists_async(whole, self._note_event)) is None:
                    return ()
        raise self._error(path, f"another program created and deleted it {_TRIES} times between two requests")

    def get(self, paths: Iterable[str]) -> dict[str, ReadZnode]:
        """The znodes that exist. A path that does not exist has no watch. Raises ZooKeeperError."""
        found: dict[str, ReadZnode] = {}
        every = list(paths)
        for first in range(0, len(every), _IN_FLIGHT):
            found |= self._get_some(every[first : first + _IN_FLIGHT])
        return found

    def _get_some(self, paths: Sequence[str]) -> dict[str, ReadZnode]:
        requests = [(path, self._kazoo.get_async(self._whole(path), self._note_event)) for path in paths]
        found: dict[str, ReadZnode] = {}
        for path, request in requests:
            try:
                data, stat = self._result(path, request)
            except NoNodeError:
                continue
            found[path] = ReadZnode(data or b"", stat.czxid)
        return found

    @property
    def _kazoo(self) -> KazooClient:
        if self.state is not SessionState.CONNECTED:  # kazoo would collect requests until it is connected again
            raise ConnectionLost(f"ZooKeeper {self._connect}: the connection was lost")
        return self._client

    def _whole(self, path: str) -> str:
        return f"{self._connect.chroot}{path}"

    def _result(self, path: str, request: Any) -> Any:
        """The result of a request. Raises NoNodeError; ZooKeeperError for any other error."""
        try:
            return request.get(timeout=self.timeout_s)
        except NoNodeError:
            raise
        except KazooTimeoutError as error:
            raise ConnectionLost(self._text(path, f"no response within {self.timeout_s:g} s")) from error
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
        path = EVERYTHING if event.path is None else event.path.removeprefix(self._connect.chroot)
        with self._lock:
            self._changes.add(path)
        self._wake()

    def _note_state(self, state: KazooState) -> None:
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
