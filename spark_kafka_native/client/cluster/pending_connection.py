"""Connecting in a thread, for callers that poll other connections meanwhile."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from spark_kafka_native.net.address import HostPort
from spark_kafka_native.net.blocking import Connection
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.net.errors import BrokerUnreachable, ConnectionLost

_GRACE_MS: Final = 2_000
"""``connect`` ends by its deadline, but resolving the host name may take longer."""


class PendingConnection:
    """A connection that a thread makes.

    A name look-up, a TLS handshake and a login each wait for a server, some in libraries that only block: hence a
    thread, one for each connection. It ends when ``connect`` returns; a name look-up may outlast the deadline.
    """

    def __init__(self, address: HostPort, connect: Callable[[Deadline], Connection], deadline: Deadline) -> None:
        self._address = address
        self._deadline = Deadline.after_ms(deadline.remaining_ms + _GRACE_MS)
        self._process_id = os.getpid()
        self._made: Future[Connection] = Future()
        self._done, self._signal = socket.socketpair()
        threading.Thread(target=self._run, args=(connect, deadline), name=f"connect to {address}", daemon=True).start()

    def _run(self, connect: Callable[[Deadline], Connection], deadline: Deadline) -> None:
        try:
            connection = connect(deadline)
        except BaseException as error:
            self._made.set_exception(error)
        else:
            self._made.set_result(connection)
        # Closing would not wake the poll: a forked child may have a copy of the socket. After ``cancel`` nothing polls.
        with self._signal, contextlib.suppress(OSError):
            self._signal.send(b"\0")

    def fileno(self) -> int:
        """A descriptor that is readable once the connection, or the error, can be taken."""
        return self._done.fileno()

    @property
    def remaining_ms(self) -> float:
        """Milliseconds until ``take`` raises BrokerUnreachable."""
        return self._deadline.remaining_ms

    def take(self) -> Connection | None:
        """The open connection; None while connecting. Not to be called after it has returned one.

        Raises what ``connect`` raises; BrokerUnreachable: it took too long; ConnectionLost: the process has forked.
        """
        if self._process_id != os.getpid():
            raise ConnectionLost(self._address, "connecting began in the process that this one was forked from")
        if not self._made.done():
            if self._deadline.expired:
                reason = f"no connection within {round(self._deadline.allowed_ms)} ms"
                raise BrokerUnreachable({self._address: reason})
            return None
        connection = self._made.result()
        self._done.close()
        return connection

    def cancel(self) -> None:
        """Give up: the connection is closed once it is open."""
        if self._done.fileno() >= 0:
            self._done.close()
            if self._process_id == os.getpid():
                self._made.add_done_callback(_close)


def _close(made: Future[Connection]) -> None:
    if made.exception() is None:
        made.result().close()
