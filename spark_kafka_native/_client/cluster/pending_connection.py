"""Connecting in a thread, for callers that poll other connections meanwhile."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Final

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable, ConnectionLost

_GRACE_MS: Final = 2_000
"""``connect`` ends by its deadline, but resolving the host name may take longer."""


class PendingConnection:
    """A connection that a thread makes.

    A name look-up, a TLS handshake and a login each wait for a server, some in libraries that only block: hence a
    thread. It ends when ``connect`` returns: after ``socket.connection.setup.timeout.ms`` for each address of the host
    name (up to ``.max.ms`` after failures) or at the deadline, and after the name look-up, which has no deadline.

    The lock is no Condition, and so not in a Future, because an exception of a signal handler in
    ``Condition.__enter__`` would leave it locked.
    """

    def __init__(self, address: HostPort, connect: Callable[[Deadline], Connection], deadline: Deadline) -> None:
        self.address = address
        self.wait_until(deadline)
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._is_done = False
        self._connection: Connection | None = None
        self._error: BaseException | None = None
        self._actions: list[Callable[[PendingConnection], None]] = []
        self._done, self._signal = socket.socketpair()
        try:
            name = f"connect to {address}"
            threading.Thread(target=self._run, args=(connect, deadline), name=name, daemon=True).start()
        except BaseException:
            self._done.close()
            self._signal.close()
            raise

    def wait_until(self, deadline: Deadline) -> None:
        """Set when ``take`` raises BrokerUnreachable. The thread keeps the deadline that it was started with."""
        self._deadline = Deadline.after_ms(deadline.remaining_ms + _GRACE_MS)

    def _run(self, connect: Callable[[Deadline], Connection], deadline: Deadline) -> None:
        try:
            self._connection = connect(deadline)
        except BaseException as error:
            self._error = error
        with self._lock:
            self._is_done = True
        for action in self._actions:
            action(self)
        # Closing would not wake the poll: a forked child may have a copy of the socket. An abandoned one is not polled.
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
        if not self.is_of_this_process:
            raise ConnectionLost(self.address, "connecting began in the process that this one was forked from")
        if not self._is_done:
            if self._deadline.expired:
                reason = f"no connection within {round(self._deadline.allowed_ms)} ms"
                raise BrokerUnreachable({self.address: reason})
            return None
        try:
            if self._error is not None:
                raise self._error
            self._done.close()
            return self._connection
        finally:
            del self  # or the error's traceback refers to the error

    @property
    def is_of_this_process(self) -> bool:
        """Whether its thread is in this process, not in the one that this one was forked from."""
        return self._process_id == os.getpid()

    def when_done(self, action: "Callable[[PendingConnection], None]") -> None:
        """Call ``action`` once connecting has ended, at once if it has."""
        with self._lock:
            if not self._is_done:
                self._actions.append(action)
                return
        action(self)

    def discard(self) -> None:
        """Close the connection. Connecting must have ended, unless in a forked child, which has no thread for it."""
        self._done.close()
        if self.is_of_this_process and self._connection is not None:
            self._connection.close()


class PendingConnections:
    """Connection attempts of a cluster's fetchers, each in a thread.

    A ``BrokerSource`` that gives up abandons its attempt, and the next ``BrokerSource`` of the same broker continues
    it. So the retries of one source start no second thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._abandoned: dict[HostPort, list[PendingConnection]] = {}

    def begin(
        self, address: HostPort, connect: Callable[[Deadline], Connection], deadline: Deadline
    ) -> PendingConnection:
        """Begin to connect, or continue what another source has begun and abandoned. Raises BrokerUnreachable."""
        with self._lock:
            abandoned = self._abandoned.get(address)
            pending = abandoned.pop() if abandoned else None
        if pending is None:
            try:
                return PendingConnection(address, connect, deadline)
            except (OSError, RuntimeError) as error:  # no descriptor is free, or no thread
                raise BrokerUnreachable({address: str(error)}) from error
        pending.wait_until(deadline)
        return pending

    def abandon(self, pending: PendingConnection) -> None:
        """Leave it to the next source of the broker. The connection is closed if it is open before one comes."""
        if not pending.is_of_this_process:
            pending.discard()
            return
        with self._lock:
            self._abandoned.setdefault(pending.address, []).append(pending)
        pending.when_done(self._discard)

    def _discard(self, pending: PendingConnection) -> None:
        with self._lock:
            if pending not in self._abandoned[pending.address]:
                return  # a source waits for it again
            self._abandoned[pending.address].remove(pending)
        pending.discard()
