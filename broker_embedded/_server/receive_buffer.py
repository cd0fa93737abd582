"""The receive buffer of one connection, with complete requests and possibly an incomplete one.

The size field of a request does not reserve memory: the buffer grows with the received bytes, and reserves its size in
`RequestMemory`. An empty `ReceiveBuffer` holds no memory.
"""

import socket
import struct
from collections.abc import Callable
from typing import Final

from broker_embedded._server.memory import BUFFER_BYTES, Buffers, RequestMemory

_SIZE: Final = struct.Struct(">i")
_TLS_HANDSHAKE: Final = 0x1603
"""How a connection with TLS begins: content type 22, version 3."""
_GROWTH: Final = 4
"""Factor by which a full buffer grows, up to `_STEP` bytes. A larger buffer doubles."""
_STEP: Final = 1024 * 1024
_AHEAD: Final = 64 * 1024
"""A full buffer grows to this size, so that requests of Kafka's default batch.size are received several at a time."""
_AHEAD_FROM: Final = BUFFER_BYTES // 2
"""Smaller requests fit into the normal buffer several at a time."""
_KEPT_BUFFER: Final = 2 * 1024 * 1024
"""Buffers up to this size are reused for the next request."""
_NOTHING: Final = memoryview(b"")


class BadSize(Exception):
    """The size field of a request is invalid."""


class ReceiveBuffer:
    """``receive`` bytes, get requests by ``next_frame``, and call ``answered`` after the last use of the frame."""

    __slots__ = (
        "_buffer",
        "_buffers",
        "_end",
        "_limit_setting",
        "_max_request_bytes",
        "_memory",
        "_start",
        "_view",
        "has_space",
        "reserved_bytes",
    )

    def __init__(self, max_request_bytes: int, memory: RequestMemory, buffers: Buffers) -> None:
        self.limit(max_request_bytes, "socket.request.max.bytes")
        self._memory = memory
        self._buffers = buffers
        self._buffer: bytearray | None = None
        self._view = _NOTHING
        self._start = self._end = 0
        self.reserved_bytes = 0
        """Reserved memory of a large request."""
        self.has_space = True
        """Whether more may be received. ``next_frame`` sets it: False while other connections have the memory."""

    def limit(self, max_request_bytes: int, setting: str) -> None:
        """From the next request on none may be larger, because of a setting."""
        self._max_request_bytes = max_request_bytes
        self._limit_setting = setting

    def receive(self, sock: socket.socket) -> int:
        """Receive once; how many bytes came, 0 at the end. Raises OSError."""
        if self._buffer is None:
            self._buffer = self._buffers.take()
            self._view = memoryview(self._buffer)
        received = sock.recv_into(self._view[self._end :])
        self._end += received
        return received

    @property
    def is_full(self) -> bool:
        """Whether the buffer is full."""
        return self._buffer is not None and self._end == len(self._buffer)

    @property
    def waiting_bytes(self) -> int:
        """Received bytes that ``next_frame`` has not returned."""
        return self._end - self._start

    @property
    def has_whole_request(self) -> bool:
        """Whether ``next_frame`` returns a request or raises."""
        have = self._end - self._start
        if have < _SIZE.size:
            return False
        assert self._buffer is not None
        size: int = _SIZE.unpack_from(self._buffer, self._start)[0]
        return have >= _SIZE.size + size

    @property
    def buffer_bytes(self) -> int:
        """Size of the buffer, 0 if there is none."""
        return 0 if self._buffer is None else len(self._buffer)

    def next_frame(self, resume: Callable[[], None]) -> memoryview | None:
        """The next request without its size, as a view of the buffer; None if it is incomplete.

        ``resume`` is called when memory for it may be available, if it was not. Raises BadSize.
        """
        self.has_space = True
        if self._start == self._end:
            self._start = self._end = 0
            if self.buffer_bytes > _KEPT_BUFFER:
                self.rest()
        if self._buffer is None:
            return None
        have = self._end - self._start
        if have < _SIZE.size:
            self._make_space(_SIZE.size, resume)
            return None
        size = _SIZE.unpack_from(self._buffer, self._start)[0]
        if not 0 < size <= self._max_request_bytes:
            if size >> 16 == _TLS_HANDSHAKE:
                raise BadSize("the client speaks TLS (SSL or SASL_SSL), this listener is PLAINTEXT or SASL_PLAINTEXT")
            limit = f"sizes are 1 to {self._max_request_bytes} ({self._limit_setting})"
            raise BadSize(f"it sent a request of {size} bytes; {limit}")
        if have < _SIZE.size + size:
            self._make_space(_SIZE.size + size, resume)
            return None
        begin = self._start + _SIZE.size
        self._start = begin + size
        return self._view[begin : self._start]

    def answered(self) -> None:
        """Release the reserved memory of the last request after its response."""
        if self.reserved_bytes:
            self._memory.release(self)
            self.reserved_bytes = 0

    def close(self) -> None:
        """Stop waiting for memory. Reserved memory stays reserved until ``answered``."""
        self._memory.forget(self)

    def rest_if_small(self) -> None:
        """Release an empty buffer of the normal size. A large one stays for the next large request."""
        if self._start == self._end and self.buffer_bytes == BUFFER_BYTES:
            self.rest()

    def rest(self) -> None:
        """Release the buffer and its content. No view of it must be in use."""
        if self._buffer is not None:
            self._view = _NOTHING
            self._buffers.give_back(self._buffer)
            self._buffer = None
            self._start = self._end = 0

    def _make_space(self, needed: int, resume: Callable[[], None]) -> None:
        """Make room for a request of ``needed`` bytes, if memory is available."""
        assert self._buffer is not None
        have, capacity = self._end - self._start, len(self._buffer)
        if have == capacity < needed:
            capacity = min(needed, max(min(_GROWTH * have, _STEP), 2 * have))
        if not self._reserve(min(needed, capacity), resume):
            self.has_space = False
            return
        if self.is_full and needed > _AHEAD_FROM and capacity < _AHEAD and self._memory.has_room:
            capacity = _AHEAD
            reserved = self._reserve(capacity, resume)
            assert reserved
        if capacity > len(self._buffer):
            bigger = bytearray(capacity)
            bigger[:have] = self._view[self._start : self._end]
            self._buffer, self._view = bigger, memoryview(bigger)
            self._start, self._end = 0, have
        elif self._start and len(self._buffer) - self._start < needed:
            self._buffer[:have] = self._view[self._start : self._end]
            self._start, self._end = 0, have

    def _reserve(self, size: int, resume: Callable[[], None]) -> bool:
        """Reserve memory for a buffer of ``size`` bytes; False if none is available now."""
        more = size - self.reserved_bytes
        if size <= BUFFER_BYTES or more <= 0:
            return True
        if not self._memory.reserve(self, more, resume):
            return False
        self.reserved_bytes = size
        return True
