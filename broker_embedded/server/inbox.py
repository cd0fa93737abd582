"""What one connection has received: requests, the last one maybe not whole, in the buffer in which they stay.

A claimed size reserves no memory: a buffer grows with the received bytes, and reserves its size in `RequestMemory`. A
connection that has received nothing has no buffer.
"""

import socket
import struct
from collections.abc import Callable
from typing import Final

from broker_embedded.server.memory import BUFFER_BYTES, Buffers, RequestMemory

_SIZE: Final = struct.Struct(">i")
_GROWTH: Final = 4
"""Factor by which a full buffer grows, up to `_STEP` bytes. A larger buffer doubles."""
_STEP: Final = 1024 * 1024
_KEPT_BUFFER: Final = 2 * 1024 * 1024
"""Buffers up to this size are used again for the next request."""
_NOTHING: Final = memoryview(b"")


class BadSize(Exception):
    """A request claims a size that none may have; ``str()`` says it."""


class Inbox:
    """Receive with ``receive``, take out with ``next_frame``, and say with ``answered`` when nobody looks into it."""

    __slots__ = (
        "_buffer",
        "_buffers",
        "_end",
        "_limit_setting",
        "_max_request_bytes",
        "_memory",
        "_reserved",
        "_start",
        "_view",
        "has_room",
    )

    def __init__(self, max_request_bytes: int, memory: RequestMemory, buffers: Buffers) -> None:
        self.limit(max_request_bytes, "socket.request.max.bytes")
        self._memory = memory
        self._buffers = buffers
        self._buffer: bytearray | None = None
        self._view = _NOTHING
        self._start = self._end = 0
        self._reserved = 0
        self.has_room = True
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
        """Whether the buffer has no room: of requests that wait for the one being worked on."""
        return self._buffer is not None and self._end == len(self._buffer)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were received and not taken out."""
        return self._end - self._start

    @property
    def has_whole_request(self) -> bool:
        """Whether ``next_frame`` has something to give, or to complain of."""
        have = self._end - self._start
        if have < _SIZE.size:
            return False
        assert self._buffer is not None
        size: int = _SIZE.unpack_from(self._buffer, self._start)[0]
        return have >= _SIZE.size + size

    @property
    def reserved_bytes(self) -> int:
        """Memory that a large request has reserved."""
        return self._reserved

    @property
    def buffer_bytes(self) -> int:
        """Size of the buffer, 0 if there is none."""
        return 0 if self._buffer is None else len(self._buffer)

    def next_frame(self, resume: Callable[[], None]) -> memoryview | None:
        """The next request without its size, as a view of the buffer; None if it is not whole yet.

        ``resume`` is called once there may be memory for it, if there was none. Raises BadSize.
        """
        self.has_room = True
        if self._start == self._end:
            self._start = self._end = 0
            if self.buffer_bytes > _KEPT_BUFFER:
                self.rest()
        if self._buffer is None:
            return None
        have = self._end - self._start
        if have < _SIZE.size:
            self._make_room(_SIZE.size, resume)
            return None
        size = _SIZE.unpack_from(self._buffer, self._start)[0]
        if not 0 < size <= self._max_request_bytes:
            limit = f"sizes are 1 to {self._max_request_bytes} ({self._limit_setting})"
            raise BadSize(f"it sent a request of {size} bytes; {limit}")
        if have < _SIZE.size + size:
            self._make_room(_SIZE.size + size, resume)
            return None
        begin = self._start + _SIZE.size
        self._start = begin + size
        return self._view[begin : self._start]

    def answered(self) -> None:
        """The last request taken out is answered: release the memory that it has reserved."""
        if self._reserved:
            self._memory.release(self)
            self._reserved = 0

    def close(self) -> None:
        """Nothing more will be received: wait no longer for memory. What is reserved stays so until ``answered``."""
        self._memory.forget(self)

    def rest_if_small(self) -> None:
        """Give the buffer back if nothing is in it; a large one stays for a while, for the next large request."""
        if self._start == self._end and self.buffer_bytes == BUFFER_BYTES:
            self.rest()

    def rest(self) -> None:
        """Give the buffer back, with all that is in it. Only when nobody looks into it any more."""
        if self._buffer is not None:
            self._view = _NOTHING
            self._buffers.give_back(self._buffer)
            self._buffer = None
            self._start = self._end = 0

    def _make_room(self, needed: int, resume: Callable[[], None]) -> None:
        """Let more of a request of ``needed`` bytes be received, if there is memory for it."""
        assert self._buffer is not None
        have, capacity = self._end - self._start, len(self._buffer)
        if have == capacity < needed:
            capacity = min(needed, max(min(_GROWTH * have, _STEP), 2 * have))
        if not self._reserve(min(needed, capacity), resume):
            self.has_room = False
        elif capacity > len(self._buffer):
            bigger = bytearray(capacity)
            bigger[:have] = self._view
            self._buffer, self._view = bigger, memoryview(bigger)
        elif self._start and len(self._buffer) - self._start < needed:
            self._buffer[:have] = self._view[self._start : self._end]
            self._start, self._end = 0, have

    def _reserve(self, size: int, resume: Callable[[], None]) -> bool:
        """Reserve memory for a buffer of ``size`` bytes; False if there is none for now."""
        more = size - self._reserved
        if size <= BUFFER_BYTES or more <= 0:
            return True
        if not self._memory.reserve(self, more, resume):
            return False
        self._reserved = size
        return True
