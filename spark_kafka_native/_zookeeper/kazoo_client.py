"""Clients of kazoo with a session, opened and closed within time limits."""

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.protocol.connection import _CONNECTION_DROP
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.errors import ZooKeeperError

_SILENT: Final = logging.getLogger(f"{__name__}.kazoo")
_SILENT.setLevel(logging.CRITICAL + 1)
"""kazoo logs each attempt to connect. Callers log one line for a connection that was lost or opened."""
_MAX_DELAY_S: Final = 1.0
"""Longest pause between two attempts to connect. kazoo's own limit is an hour."""
_CHECK_S: Final = 0.05
_PROBE_S: Final = 1.0
_CLOSE_S: Final = 5.0
"""How long closing a session waits for the server. Without a response the session ends by its timeout."""

_REASONS: Final[dict[type[BaseException], str]] = {
    exceptions.ConnectionClosedError: "the session is closed",
    exceptions.ConnectionLoss: "the connection was lost",
    exceptions.NoAuthError: "access is denied",
    exceptions.NodeExistsError: "the node exists",
    exceptions.NoNodeError: "the node does not exist",
    exceptions.NotEmptyError: "the node has children",
    exceptions.SessionExpiredError: "the session has expired",
}


def open_session(
    connect: ConnectString,
    *,
    session_timeout_ms: int,
    connection_timeout_ms: int,
    on_state: Callable[[KazooState], None] = lambda _: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> KazooClient:
    """Connect, and return the client of a new session. It has no chroot: put that of ``connect`` before each path.

    ``on_state`` is called in a thread of the client with each change of the state. Blocks. Raises ZooKeeperError: no
    server has opened a session within ``connection_timeout_ms``, or it ``is_cancelled``.
    """
    client = KazooClient(
        hosts=connect.hosts,
        timeout=session_timeout_ms / 1000,
        connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=_MAX_DELAY_S),
        logger=_SILENT,
    )
    _keep_negotiated_timeout(client)
    client.add_listener(on_state)
    deadline_s = time.monotonic() + connection_timeout_ms / 1000
    try:
        connected = client.start_async()
        while not connected.wait(_CHECK_S):
            if is_cancelled():
                raise ZooKeeperError(f"the connection to {connect.hosts} was cancelled")
            if time.monotonic() >= deadline_s:
                raise ZooKeeperError(_problem(connect, connection_timeout_ms))
    except BaseException:
        _bounded(client.stop, client.close, wait_s=0)  # there is no session whose end a server must confirm
        raise
    return client


def session_timeout_ms(client: KazooClient) -> int:
    """The timeout of the client's session: the server's, which may differ from the requested one."""
    found: int = client._session_timeout  # noqa: SLF001  # kazoo has no public name for it
    return found


def close_session(client: KazooClient) -> None:
    """End a session, and with it its ephemeral znodes. Blocks for some seconds if the server does not respond."""
    _bounded(client.stop, client.close)


def abandon_session(client: KazooClient) -> None:
    """Close the connection as a crash of the process would: the session ends by its timeout. Blocks briefly."""
    client._stopped.set()  # noqa: SLF001  # kazoo cannot be closed without the end of the session in another way
    client._call(_CONNECTION_DROP, client.handler.async_result())  # noqa: SLF001  # kazoo's own tests lose connections so
    _bounded(client.handler.stop, lambda: client._connection.stop(_CLOSE_S), client.close)  # noqa: SLF001  # as above


def reason_of(error: BaseException) -> str:
    """The reason of an error of kazoo, for people."""
    return _REASONS.get(type(error)) or f"{type(error).__name__} {error}".strip()


def _keep_negotiated_timeout(client: KazooClient) -> None:
    """Let the client keep the session timeout that the server has chosen, which kazoo does not."""
    connection = client._connection  # noqa: SLF001  # as in abandon_session
    connect = connection._connect  # noqa: SLF001  # as above

    def connect_and_keep(*server: object) -> tuple[float, float]:
        read_timeout_ms, connect_timeout_ms = connect(*server)
        client._session_timeout = round(read_timeout_ms * 3 / 2)  # noqa: SLF001  # kazoo's read timeout is two thirds
        return read_timeout_ms, connect_timeout_ms

    connection._connect = connect_and_keep  # noqa: SLF001  # as above


def _bounded(*steps: Callable[[], object], wait_s: float = _CLOSE_S) -> None:
    """Run the steps in a thread, and wait for it for a limited time. An error ends the steps."""

    def run() -> None:
        with suppress(Exception):  # kazoo raises errors of its threads and sockets; the session ends by its timeout
            for step in steps:
                step()

    thread = threading.Thread(target=run, name="zookeeper-close", daemon=True)
    thread.start()
    thread.join(wait_s)


def _problem(connect: ConnectString, connection_timeout_ms: int) -> str:
    """Why no session was opened: the error of each server."""
    problems = (f"{server}: {_probe(server)}" for server in connect.servers)
    return f"no ZooKeeper server has opened a session within {connection_timeout_ms} ms ({'; '.join(problems)})"


def _probe(server: HostPort) -> str:
    """The error of a connection to a server."""
    try:
        socket.create_connection(server, _PROBE_S).close()
    except (OSError, UnicodeError) as error:
        return (error.strerror if isinstance(error, OSError) else None) or str(error)
    return "it accepts connections, but has not answered as a ZooKeeper server"
