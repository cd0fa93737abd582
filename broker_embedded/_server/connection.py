"""One client's connection: requests and responses in the same order.

As in Apache Kafka, one request of a connection is processed at a time, and the next one when the response was sent. A
client may send many requests ahead, which wait in the receive buffer and, if that is full, in the client's send buffer.
This bounds the memory of a client to one request and one response. Short responses to requests that were received
together are sent together, because each send wakes the client.

A request's bytes are received into the buffer in which they stay until the response; handlers get views of it. An idle
connection has no buffer.

The connection of a client over its quota is muted: its next request is not processed before the throttle time ends.
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

from broker_embedded._handlers.support.registry import CloseConnection
from broker_embedded._handlers.support.request_cost import RequestCost
from broker_embedded._platform.record_threads import ClientPresence
from broker_embedded._platform.timers import Timer, Timers
from broker_embedded._server.memory import Buffers, RequestMemory
from broker_embedded._server.receive_buffer import BadSize, ReceiveBuffer
from broker_embedded._server.send_queue import RegionLost, SendQueue
from spark_kafka_native._protocol.errors import RemoteProtocolError
from spark_kafka_native._protocol.wire import Chunk

logger = logging.getLogger(__name__)

ResponseFrame: TypeAlias = list[Chunk] | None
"""A response frame, or None for a request without a response."""
Serve: TypeAlias = Callable[[memoryview, RequestCost], ResponseFrame | Awaitable[ResponseFrame]]
"""Processes one request frame (without its size), and sets the throttle time of the connection.

May raise CloseConnection or RemoteProtocolError.
"""

_PROGRESS_MS: Final = 10_000
_PROGRESS_BYTES: Final = 256 * 1024
"""Bytes of a large request that must arrive in each `_PROGRESS_MS` while other connections wait for memory."""
_LONGEST_HOLD_MS: Final = 60_000
"""Time for the whole request, even if it waits for memory itself. A client's request.timeout.ms is 30 s by default."""
_MAX_REQUESTS_PER_ITERATION: Final = 16
"""Requests of one connection that are processed before other connections."""
_HELD_BYTES: Final = 64 * 1024
"""Bytes of responses that may wait for the next responses of the same iteration."""
_POLLRDHUP: Final = getattr(select, "POLLRDHUP", 0)
"""The client has closed its side. Only on Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The objects that all connections of a server share."""

    timers: Timers
    max_request_bytes: int
    memory: RequestMemory
    buffers: Buffers = field(default_factory=Buffers)


class _ConnectionState(Enum):
    READING = 1
    WORKING = 2
    SENDING = 3
    CLOSED = 4


class Connection:
    """A connection, registered with the event loop from ``start`` until ``on_closed`` is called."""

    __slots__ = (
        "_closing",
        "_cost",
        "_ended",
        "_held_bytes",
        "_held_since",
        "_in_work_loop",
        "_loop",
        "_muted",
        "_on_closed",
        "_presence",
        "_progress",
        "_reading",
        "_receive_buffer",
        "_received",
        "_send_queue",
        "_serve",
        "_shared",
        "_socket",
        "_state",
        "_task",
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
        """``presence`` is notified when the client disconnects."""
        self.peer = peer
        self.last_active_ms = 0
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._serve = serve
        self._shared = shared
        self._on_closed = on_closed
        self._presence = presence or ClientPresence()
        self._receive_buffer = ReceiveBuffer(shared.max_request_bytes, shared.memory, shared.buffers)
        self._send_queue = SendQueue(sock)
        self._held_bytes = 0
        self._in_work_loop = False
        self._state = _ConnectionState.READING
        self._reading = self._writing = False
        self._ended = self._closing = False
        self._received = 0
        self._held_since: int | None = None
        self._progress: tuple[int, int] | None = None
        """When `receives_too_slowly` began to measure a request that holds memory, and the bytes received by then."""
        self._task: asyncio.Task[None] | None = None
        self._cost = RequestCost()
        self._muted: Timer | None = None

    def start(self) -> None:
        """Start reading."""
        self.last_active_ms = self._shared.timers.elapsed_ms()
        self._set_reading(True)

    @property
    def is_idle(self) -> bool:
        """Whether no request is processed and no response is being sent."""
        return self._state is _ConnectionState.READING

    def receives_too_slowly(self, now_ms: int) -> bool:
        """Whether a large request is received too slowly: less than 256 KiB in 10 s, or not complete in 60 s.

        Call it every second, because it measures from one call to the next.
        """
        if not self.is_idle or not self._receive_buffer.reserved_bytes:
            self._held_since = self._progress = None
            return False
        if self._held_since is None:
            self._held_since = now_ms
        if now_ms - self._held_since >= _LONGEST_HOLD_MS:
            return True
        if not self._receive_buffer.has_space:
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
        """Whether nothing is received while a request is processed: the client waits for the response, or acks is 0."""
        return self._state is _ConnectionState.WORKING and self._presence.is_waited_for

    def limit_requests(self, max_bytes: int, setting: str) -> None:
        """Limit the size of further requests, because of a setting."""
        self._receive_buffer.limit(max_bytes, setting)

    def close_when_idle(self) -> None:
        """Process no further request, and close after the present response."""
        self._closing = True
        if self.is_idle:
            self.close("the broker stops")

    def close(self, reason: str, level: int = logging.DEBUG) -> None:
        """Close now. Unsent bytes that the system does not accept at once are lost. A second call does nothing."""
        if self._state is _ConnectionState.CLOSED:
            return
        if self.is_idle:
            self._receive_buffer.rest()
        self._state = _ConnectionState.CLOSED
        logger.log(level, "closed the connection from %s: %s", self.peer, reason)
        self._set_reading(False)
        self._set_writing(False)
        if self._task is not None and self._task is not asyncio.current_task():
            self._loop.call_soon(self._task.cancel)  # later, so that the task has started and can clean up
        if self._muted is not None:
            self._muted.cancel()
        if self._send_queue:
            with contextlib.suppress(OSError, RegionLost):  # buffered responses, or the last one
                self._send_queue.send()
            self._send_queue.clear()
        self._socket.close()
        self._receive_buffer.close()
        self._presence.close(reason)
        self._presence.when_released(self._receive_buffer.answered)
        self._on_closed(self)

    def shrink(self) -> None:
        """Release a large buffer that is not in use."""
        if self.is_idle and not self._receive_buffer.waiting_bytes:
            self._receive_buffer.rest()

    # --- receiving -------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._receive_buffer.is_full:
            self._set_reading(False)
            return
        try:
            received = self._receive_buffer.receive(self._socket)
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
        """Detect that the client has disconnected although nothing is read, because its requests fill the buffer.

        Must be called each second. A client is not detected if it has more unsent bytes than the system receives for
        the connection.
        """
        if self._state is not _ConnectionState.WORKING or self._reading or self._ended:
            return
        poll = select.poll()
        poll.register(self._socket, _POLLRDHUP)
        for _, events in poll.poll(0):
            if events & select.POLLERR:
                self._on_reset("the client reset it")
            else:
                self._presence.leave()

    def _on_end(self) -> None:
        """The client has closed its side: answer the received requests, then close.

        Work in threads is cancelled: see `ClientPresence`.
        """
        self._ended = True
        self._set_reading(False)
        self._presence.leave()
        if self._state is _ConnectionState.READING and not self._receive_buffer.has_whole_request:
            left = self._receive_buffer.waiting_bytes
            if left:
                self.close(f"the client closed it {left} bytes into a request", logging.INFO)
            else:
                self.close("the client closed it")

    def _on_reset(self, reason: str) -> None:
        """The connection was reset: close it, after a Produce with acks=0 that is being processed.

        Requests after it are dropped, as in Kafka, which does not read them before.
        """
        self._presence.leave()
        if self.is_parked:
            self._ended = True
            self._set_reading(False)
        else:
            self.close(reason)

    def _work(self) -> None:
        """Process complete requests of the buffer, as long as they are answered at once."""
        if self._in_work_loop:
            return
        self._in_work_loop = True
        for _ in range(_MAX_REQUESTS_PER_ITERATION):
            frame = self._next_frame() if self._state is _ConnectionState.READING and self._muted is None else None
            if frame is None:
                break
            self._state = _ConnectionState.WORKING
            self._respond(frame)
        else:
            self._loop.call_soon(self._work)
        self._in_work_loop = False
        if self._state is _ConnectionState.READING:
            self._state = _ConnectionState.SENDING
            self._flush()
        elif self._state is _ConnectionState.WORKING and self._held_bytes:  # the present request may take long
            self._flush()

    def _next_frame(self) -> memoryview | None:
        try:
            frame = self._receive_buffer.next_frame(self._resume)
        except BadSize as error:
            self.close(str(error), logging.WARNING)
            return None
        if frame is None:
            self._set_reading(self._receive_buffer.has_space and not self._ended)
        return frame

    def _resume(self) -> None:
        """Memory may be available for the first request of the buffer."""
        self._loop.call_soon(self._work)  # after the caller that released it

    # --- answering -------------------------------------------------------------------------------------------------

    def _respond(self, frame: memoryview) -> None:
        try:
            response = self._serve(frame, self._cost)
        except Exception as error:  # after any error of a request only its connection is closed
            self._fail(error)
            return
        if response is None or isinstance(response, list):
            self._send(response)
        else:
            self._task = self._loop.create_task(self._finish(response))

    async def _finish(self, response: Awaitable[ResponseFrame]) -> None:
        try:
            pieces = await response
        except Exception as error:  # after any error of a request only its connection is closed
            self._fail(error)
            return
        finally:
            self._task = None
        self._send(pieces)
        self._work()

    def _fail(self, error: Exception) -> None:
        match error:
            case CloseConnection():
                self._send_queue.put(error.response or ())
                self.close(str(error), logging.INFO)
            case RemoteProtocolError():
                self.close(f"bad request: {error}", logging.WARNING)
            case _:
                logger.error("a request from %s failed unexpectedly", self.peer, exc_info=error)
                self.close("a request failed unexpectedly", logging.WARNING)

    def _send(self, response: ResponseFrame) -> None:
        if self._state is _ConnectionState.CLOSED:
            return
        self._receive_buffer.answered()
        self._held_since = None
        if self._cost.wait_ms:
            self._mute(self._cost.wait_ms)
        if response:
            self._send_queue.put(response)
            self._held_bytes += sum(map(len, response))
        if self._in_work_loop and self._held_bytes <= _HELD_BYTES:
            self._state = _ConnectionState.READING
        else:
            self._state = _ConnectionState.SENDING
            self._flush()

    def _mute(self, wait_ms: int) -> None:
        """Process no further request for a time."""
        self._cost.wait_ms = 0
        timers = self._shared.timers
        self._muted = timers.at(timers.now_ms() + wait_ms, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self._work()

    def _flush(self) -> None:
        """Send as much as possible, in any state."""
        try:
            willing = self._send_queue.send()
        except (OSError, RegionLost) as error:
            self.close(f"sending failed: {error}", logging.WARNING if isinstance(error, RegionLost) else logging.DEBUG)
            return
        self.last_active_ms = self._shared.timers.elapsed_ms()
        if not self._send_queue:
            self._held_bytes = 0
            self._set_writing(False)
            if self._state is _ConnectionState.SENDING:
                self._on_sent()
        elif willing:  # other connections are served first
            self._set_writing(False)
            self._loop.call_soon(self._on_writable)
        else:
            self._set_writing(True)

    def _on_writable(self) -> None:
        if self._send_queue:
            self._flush()
            self._work()

    def _on_sent(self) -> None:
        self._state = _ConnectionState.READING
        if self._closing:
            self.close("the broker stops")
        elif self._ended and not self._receive_buffer.has_whole_request:
            self.close("the client closed it")
        else:
            self._receive_buffer.rest_if_small()

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
