"""Listening sockets: bound before the broker says that it is ready, accepting until it stops."""

import asyncio
import errno
import functools
import ipaddress
import logging
import socket
from collections.abc import Callable
from typing import Any, Final

from broker_embedded._config.addresses import Endpoint, format_address

logger = logging.getLogger(__name__)

_ACCEPT_AT_ONCE: Final = 64
_OUT_OF_DESCRIPTORS: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_S: Final = 1.0
"""Time without accepts if no descriptor is free. Connections wait in the backlog."""

Accept = Callable[[socket.socket, str], None]
"""Called with an accepted, non-blocking socket and the peer's address."""
HasSpace = Callable[[], bool]
"""Whether another connection may be accepted now. If not, ``Listener.resume`` must be called later."""


class ListenError(Exception):
    """A listener's address cannot be bound. ``listener`` is its name. ``str()`` has the address and the error."""

    def __init__(self, endpoint: Endpoint, problem: str) -> None:
        super().__init__(f"cannot listen on {endpoint.address}: {problem}")
        self.listener = endpoint.name


class Listener:
    """One configured listener, on every address of its host name."""

    def __init__(self, endpoint: Endpoint, backlog: int) -> None:
        """Bind and listen. Raises ListenError."""
        self.name = endpoint.name
        self._paused: list[Callable[[], None]] = []
        self._sockets = _bind(endpoint, backlog)
        self.host = endpoint.host
        self.port: int = self._sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        """``host:port`` with the port that was bound."""
        return format_address(self.host or "0.0.0.0", self.port)  # noqa: S104  # shown, not bound

    @property
    def is_loopback(self) -> bool:
        """Whether it listens on loopback addresses only."""
        return all(ipaddress.ip_address(sock.getsockname()[0]).is_loopback for sock in self._sockets)

    def start(self, accept: Accept, has_space: HasSpace = lambda: True) -> None:
        """Call ``accept`` with each new connection, on the running event loop, while ``has_space``."""
        loop = asyncio.get_running_loop()
        for sock in self._sockets:
            loop.add_reader(sock, self._on_connection, loop, sock, accept, has_space)

    def resume(self) -> None:
        """Accept again, if ``has_space`` was false before."""
        paused, self._paused = self._paused, []
        for accept_again in paused:
            accept_again()

    def close(self) -> None:
        """Stop listening."""
        for sock in self._sockets:
            if sock.fileno() >= 0:
                asyncio.get_running_loop().remove_reader(sock)
                sock.close()

    def _on_connection(
        self, loop: asyncio.AbstractEventLoop, listening: socket.socket, accept: Accept, has_space: HasSpace
    ) -> None:
        again = functools.partial(self._resume, loop, listening, accept, has_space)
        for _ in range(_ACCEPT_AT_ONCE):
            if not has_space():
                loop.remove_reader(listening)
                self._paused.append(again)
                return
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                logger.warning("cannot accept connections on %s for now: %s", self.address, error)
                loop.remove_reader(listening)
                loop.call_later(_PAUSE_S, again)
                return
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # Detects peers that vanished without closing.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            except OSError:  # closed already
                sock.close()
                continue
            accept(sock, format_address(address[0], address[1]))

    def _resume(
        self, loop: asyncio.AbstractEventLoop, listening: socket.socket, accept: Accept, has_space: HasSpace
    ) -> None:
        if listening.fileno() >= 0:
            loop.add_reader(listening, self._on_connection, loop, listening, accept, has_space)


def _bind(endpoint: Endpoint, backlog: int) -> list[socket.socket]:
    """A socket per address of the host, all with the port of the first one."""
    try:
        found = socket.getaddrinfo(
            endpoint.host or None, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ListenError(endpoint, error.strerror or str(error)) from error
    sockets: list[socket.socket] = []
    for family, kind, protocol, _, address in dict.fromkeys(found):
        port = sockets[0].getsockname()[1] if sockets else endpoint.port
        try:
            sockets.append(_listen(socket.socket(family, kind, protocol), (address[0], port, *address[2:]), backlog))
        except OSError as error:
            # The system may lack one of two address families of a host; the first one is sufficient.
            if not sockets and error.errno != errno.EAFNOSUPPORT:
                raise ListenError(endpoint, error.strerror or str(error)) from error
    if not sockets:
        raise ListenError(endpoint, "the system has none of its address families")
    return sockets


def _listen(sock: socket.socket, address: tuple[Any, ...], backlog: int) -> socket.socket:
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(backlog)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock
