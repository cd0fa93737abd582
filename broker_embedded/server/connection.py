"""One client's connection: requests in, answers out, in the same order.

As in Apache Kafka, one request of a connection is worked on at a time and the next is taken up when its answer has
left: a client may send many ahead, they wait in the receive buffer and, when that is full, in the client's own. That
bounds what a client can make the broker hold to one request and one answer, however fast it writes or slowly it reads.
Short answers to requests that came together leave together, because each one sent alone wakes the client.

A request's bytes are received into the buffer in which they stay until it is answered; handlers get views of it. A
connection that rests has no buffer.

A client whose quota is used up is answered, and its next request is not taken up before the time that it was told.
"""

import asyncio
import contextlib
import logging
import select
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from broker_embedded.handlers.support.registry import CloseConnection
from broker_embedded.handlers.support.request_cost import Throttle
from broker_embedded.platform.record_threads import ClientPresence
from broker_embedded.platform.timers import Timer, Timers
from broker_embedded.server.inbox import BadSize, Inbox
from broker_embedded.server.memory import Buffers, RequestMemory
from broker_embedded.server.outbox import Outbox, RegionLost
from spark_kafka_native.protocol.errors import RemoteProtocolError
from spark_kafka_native.protocol.wire import Chunk

logger = logging.getLogger(__name__)

Answer: TypeAlias = list[Chunk] | None
"""A whole response frame, or None when the request wants none."""
Serve: TypeAlias = Callable[[memoryview, Throttle], Answer | Awaitable[Answer]]
"""Works on one request frame (without its size), and says in the throttle how long the next one must wait.

May raise CloseConnection or RemoteProtocolError.
"""

_PROGRESS_MS: Final = 10_000
_PROGRESS_BYTES: Final = 256 * 1024
"""Bytes of a large request that must arrive in each `_PROGRESS_MS` while other connections wait for memory."""
_LONGEST_HOLD_MS: Final = 60_000
"""Time for the whole request, even if it waits for memory itself. A client's request.timeout.ms is 30 s by default."""
_MAX_REQUESTS_PER_ITERATION: Final = 16
"""Requests of one connection worked on before the other connections have a turn."""
_HELD_BYTES: Final = 64 * 1024
"""Bytes of answers that may wait for the next ones of the same turn."""
_POLLRDHUP: Final = getattr(select, "POLLRDHUP", 0)
"""The client has closed its side. Linux has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all connections of a server have in common."""

    timers: Timers
    max_request_bytes: int
    memory: RequestMemory
    buffers: Buffers = field(default_factory=Buffers)


class _State(Enum):
    READING = 1
    WORKING = 2
    SENDING = 3
    CLOSED = 4


class Connection:
    """A connection, registered with the event loop from ``start`` until ``on_closed`` is called."""

    __slots__ = (
        "_closing",
        "_ended",
        "_held_bytes",
        "_held_since",
        "_in_work_loop",
        "_inbox",
        "_loop",
        "_muted",
        "_on_closed",
        "_outbox",
        "_presence",
        "_progress",
        "_reading",
        "_received",
        "_serve",
        "_shared",
        "_socket",
        "_state",
        "_task",
        "_throttle",
        "_writing",
        "last_active_ms",
        "peer",
    )

    def __init__(
        self,
        sock: socket.socket,
        peer: str,
        *,
        serve: Serve,
        shared: Shared,
        on_closed: Callable[["Connection"], None],
        presence: ClientPresence | None = None,
    ) -> None:
        """``presence`` is what ``serve`` goes by: it hears when the client leaves."""
        self.peer = peer
        self.last_active_ms = 0
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._serve = serve
        self._shared = shared
        self._on_closed = on_closed
        self._presence = presence or ClientPresence()
        self._inbox = Inbox(shared.max_request_bytes, shared.memory, shared.buffers)
        self._outbox = Outbox(sock)
        self._held_bytes = 0
        self._in_work_loop = False
        self._state = _State.READING
        self._reading = self._writing = False
        self._ended = self._closing = False
        self._received = 0
        self._held_since: int | None = None
        self._progress: tuple[int, int] | None = None
        """When `receives_too_slowly` began to measure a request that holds memory, and the bytes received by then."""
        self._task: asyncio.Task[None] | None = None
        self._throttle = Throttle()
        self._muted: Timer | None = None

    def start(self) -> None:
        """Begin to read."""
        self.last_active_ms = self._shared.timers.elapsed_ms()
        self._set_reading(True)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being worked on and no answer is on its way."""
        return self._state is _State.READING

    def receives_too_slowly(self, now_ms: int) -> bool:
        """Whether a large request is received too slowly: less than 256 KiB in 10 s, or not complete in 60 s.

        Call it every second, because it measures from one call to the next.
        """
        if not self.is_idle or not self._inbox.reserved_bytes:
            self._held_since = self._progress = None
            return False
        if self._held_since is None:
            self._held_since = now_ms
        if now_ms - self._held_since >= _LONGEST_HOLD_MS:
            return True
        if not self._inbox.has_room:
            self._progress = None
            return False
        if self._progress is None:
            self._progress = now_ms, self._received
        since_ms, received = self._progress
        if now_ms - since_ms < _PROGRESS_MS:
            return False
        self._progress = now_ms, self._received
        return self._received - received < _PROGRESS_BYTES

    @property
    def is_parked(self) -> bool:
        """Whether nothing moves because a request is worked on: the client waits for its answer, or acks is 0."""
        return self._state is _State.WORKING and self._presence.is_waited_for

    def limit_requests(self, max_bytes: int, setting: str) -> None:
        """From the next request on none may be larger, because of a setting."""
        self._inbox.limit(max_bytes, setting)

    def close_when_idle(self) -> None:
        """Take up no further request; close as soon as the present one is answered."""
        self._closing = True
        if self.is_idle:
            self.close("the broker stops")

    def close(self, reason: str, level: int = logging.DEBUG) -> None:
        """Close now; what the system does not take at once is lost. A second call does nothing."""
        if self._state is _State.CLOSED:
            return
        if self.is_idle:
            self._inbox.rest()
        self._state = _State.CLOSED
        logger.log(level, "closed the connection from %s: %s", self.peer, reason)
        self._set_reading(False)
        self._set_writing(False)
        if self._task is not None and self._task is not asyncio.current_task():
            self._loop.call_soon(self._task.cancel)  # by then it has begun, and can clean up what was begun for it
        if self._muted is not None:
            self._muted.cancel()
        if self._outbox:
            with contextlib.suppress(OSError, RegionLost):  # answers held back until now, or the last one
                self._outbox.send()
            self._outbox.clear()
        self._socket.close()
        self._inbox.close()
        self._presence.close(reason)
        self._presence.when_released(self._inbox.answered)
        self._on_closed(self)

    def shrink(self) -> None:
        """Give back the memory of a large buffer that is not in use."""
        if self.is_idle and not self._inbox.waiting_bytes:
            self._inbox.rest()

    # --- receiving -------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._inbox.is_full:
            self._set_reading(False)
            return
        try:
            received = self._inbox.receive(self._socket)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._on_reset(f"reading failed: {error}")
            return
        self._received += received
        self.last_active_ms = self._shared.timers.elapsed_ms()
        if received == 0:
            self._on_end()
        else:
            self._work()

    def look_for_end(self) -> None:
        """Notice that the client has left although nothing can be read, because its requests fill the buffer.

        To be called each second. A client that has closed its side with more bytes unsent than the system receives for
        the connection is not noticed.
        """
        if self._state is not _State.WORKING or self._reading or self._ended:
            return
        poll = select.poll()
        poll.register(self._socket, _POLLRDHUP)
        for _, events in poll.poll(0):
            if events & select.POLLERR:
                self._on_reset("the client reset it")
            else:
                self._presence.leave()

    def _on_end(self) -> None:
        """The client will send no more. What it asked before is answered; then the connection closes.

        What takes long is cancelled: see `ClientPresence`.
        """
        self._ended = True
        self._set_reading(False)
        self._presence.leave()
        if self._state is _State.READING and not self._inbox.has_whole_request:
            left = self._inbox.waiting_bytes
            if left:
                self.close(f"the client closed it {left} bytes into a request", logging.INFO)
            else:
                self.close("the client closed it")

    def _on_reset(self, reason: str) -> None:
        """The connection is broken: close it, once a Produce with acks=0 that is worked on has ended.

        Requests that were received after it are dropped: while one is worked on, Kafka does not read the next one.
        """
        self._presence.leave()
        if self.is_parked:
            self._ended = True
            self._set_reading(False)
        else:
            self.close(reason)

    def _work(self) -> None:
        """Take a turn: whole requests from the buffer, for as long as they are answered at once."""
        if self._in_work_loop:
            return
        self._in_work_loop = True
        for _ in range(_MAX_REQUESTS_PER_ITERATION):
            frame = self._next_frame() if self._state is _State.READING and self._muted is None else None
            if frame is None:
                break
            self._state = _State.WORKING
            self._answer(frame)
        else:
            self._loop.call_soon(self._work)
        self._in_work_loop = False
        if self._state is _State.READING:
            self._state = _State.SENDING
            self._flush()
        elif self._state is _State.WORKING and self._held_bytes:  # what is worked on may take long
            self._flush()

    def _next_frame(self) -> memoryview | None:
        try:
            frame = self._inbox.next_frame(self._resume)
        except BadSize as error:
            self.close(str(error), logging.WARNING)
            return None
        if frame is None:
            self._set_reading(self._inbox.has_room and not self._ended)
        return frame

    def _resume(self) -> None:
        """There may be memory again for the request at the front of the buffer."""
        self._loop.call_soon(self._work)  # whoever gave it back finishes first

    # --- answering -------------------------------------------------------------------------------------------------

    def _answer(self, frame: memoryview) -> None:
        try:
            answer = self._serve(frame, self._throttle)
        except Exception as error:  # the edge: whatever a request breaks, only its connection closes
            self._fail(error)
            return
        if answer is None or isinstance(answer, list):
            self._send(answer)
        else:
            self._task = self._loop.create_task(self._finish(answer))

    async def _finish(self, answer: Awaitable[Answer]) -> None:
        try:
            pieces = await answer
        except Exception as error:  # the edge: whatever a request breaks, only its connection closes
            self._fail(error)
            return
        finally:
            self._task = None
        self._send(pieces)
        self._work()

    def _fail(self, error: Exception) -> None:
        match error:
            case CloseConnection():
                self._outbox.put(error.answer or ())
                self.close(str(error), logging.INFO)
            case RemoteProtocolError():
                self.close(f"bad request: {error}", logging.WARNING)
            case _:
                logger.error("a request from %s failed unexpectedly", self.peer, exc_info=error)
                self.close("a request failed unexpectedly", logging.WARNING)

    def _send(self, answer: Answer) -> None:
        if self._state is _State.CLOSED:
            return
        self._inbox.answered()
        self._held_since = None
        if self._throttle.wait_ms:
            self._mute(self._throttle.wait_ms)
        if answer:
            self._outbox.put(answer)
            self._held_bytes += sum(map(len, answer))
        if self._in_work_loop and self._held_bytes <= _HELD_BYTES:
            self._state = _State.READING
        else:
            self._state = _State.SENDING
            self._flush()

    def _mute(self, wait_ms: int) -> None:
        """Take up nothing more for a while."""
        self._throttle.wait_ms = 0
        timers = self._shared.timers
        self._muted = timers.at(timers.now_ms() + wait_ms, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self._work()

    def _flush(self) -> None:
        """Send what can be sent, whether the next request is being worked on or waits for it."""
        try:
            willing = self._outbox.send()
        except (OSError, RegionLost) as error:
            self.close(f"sending failed: {error}", logging.WARNING if isinstance(error, RegionLost) else logging.DEBUG)
            return
        self.last_active_ms = self._shared.timers.elapsed_ms()
        if not self._outbox:
            self._held_bytes = 0
            self._set_writing(False)
            if self._state is _State.SENDING:
                self._on_sent()
        elif willing:  # the turn is over, others come first
            self._set_writing(False)
            self._loop.call_soon(self._on_writable)
        else:
            self._set_writing(True)

    def _on_writable(self) -> None:
        if self._outbox:
            self._flush()
            self._work()

    def _on_sent(self) -> None:
        self._state = _State.READING
        if self._closing:
            self.close("the broker stops")
        elif self._ended and not self._inbox.has_whole_request:
            self.close("the client closed it")
        else:
            self._inbox.rest_if_small()

    # --- the event loop --------------------------------------------------------------------------------------------

    def _set_reading(self, wanted: bool) -> None:
        if wanted != self._reading:
            self._reading = wanted
            if wanted:
                self._loop.add_reader(self._socket, self._on_readable)
            else:
                self._loop.remove_reader(self._socket)

    def _set_writing(self, wanted: bool) -> None:
        if wanted != self._writing:
            self._writing = wanted
            if wanted:
                self._loop.add_writer(self._socket, self._on_writable)
            else:
                self._loop.remove_writer(self._socket)
