"""A TCP proxy that loses responses and breaks connections on request."""

import itertools
import socket
import struct
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Self

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with no time: what was not sent is thrown away


class BreakingProxy:
    """Stands between clients and the server at `target` (`host:port`, to be set before clients come).

    A context manager. Let the server advertise `address`, or clients will go round it.
    """

    def __init__(self) -> None:
        self.target = ""
        self._deaf = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._closed = False
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def address(self) -> str:
        """`host:port` where the proxy listens."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        # Closing alone does not wake who waits in accept.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Break all connections at once, and lose what is under way on them."""
        with self._lock:
            doomed, self._sockets = self._sockets, set()
        for sock in doomed:
            _reset(sock)
        self._deaf.clear()

    def lose_responses(self) -> None:
        """Until `cut`, pass requests on and drop the responses."""
        self._deaf.set()

    def _next_target(self) -> str:
        """The server of the next connection."""
        return self.target

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            host, port = self._next_target().rsplit(":", 1)
            try:
                server = socket.create_connection((host, int(port)), timeout=5)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= {client, server}
            for source, sink, responses in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pump, args=(source, sink, responses), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, responses: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                if not (responses and self._deaf.is_set()):
                    sink.sendall(piece)
        with self._lock:
            self._sockets -= {source, sink}
        for sock in (source, sink):
            _reset(sock)


class LoadBalancer(BreakingProxy):
    """Spreads connections over the servers at ``targets``, one after the other: a layer-4 load balancer."""

    def __init__(self, targets: Iterable[str]) -> None:
        self._targets = itertools.cycle(targets)
        super().__init__()

    def _next_target(self) -> str:
        return next(self._targets)


def _reset(sock: socket.socket) -> None:
    """Close for both directions, and wake a thread that reads from the socket."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
