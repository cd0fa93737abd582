"""Frames from a socket that does not block."""

import contextlib
import struct
from typing import Final, Protocol

from spark_kafka_native._protocol.errors import RemoteProtocolError

_SIZE: Final = struct.Struct(">i")
_LARGE: Final = 1 << 16
"""Memory of so many bytes is kept for the next frame."""
_ROUND: Final = 1 << 18
"""It is a little larger than needed, since frames of the same kind differ a little."""
_KEPT_BYTES: Final = 1 << 26
"""Larger memory is not kept for the next frame of another connection."""

_released: list[bytearray] = []
"""The memory of the last reader that released some; at most one. All connections of the process share it."""


class EndOfFrames(EOFError):
    """The peer closed the connection after a whole frame, or before the first."""


class Readable(Protocol):
    """The part of a socket that frames are read from."""

    def recv_into(self, target: memoryview, /) -> int:
        """As of ``socket.socket``."""


class FrameSocket:
    """Frames from a socket that does not block, each read straight into its memory.

    The memory of a large frame is used again once no view of it is left, because to clear and fault in megabytes for
    each Fetch response takes as long as to receive some of them. Idle connections release it to each other, so that a
    process keeps the memory of one large frame for all of them.
    """

    def __init__(self, sock: Readable, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.takes_empty = False
        """Whether a frame may be empty, as bare SASL tokens are."""
        self.head = bytearray(_SIZE.size)
        self._socket = sock
        self._body: memoryview | None = None
        self._spare = bytearray()
        self._target = memoryview(self.head)

    def read(self) -> list[memoryview]:
        """The frames that came whole, without waiting for more.

        Raises EndOfFrames, EOFError: the peer closed after a frame, or within one. RemoteProtocolError: an impossible
        size. OSError: the socket's own.
        Frames read before such an end are returned first; the next call raises.
        """
        frames: list[memoryview] = []
        while True:
            try:
                count = self._socket.recv_into(self._target)
            except BlockingIOError:
                return frames
            except OSError:
                if frames:
                    return frames
                raise
            if not count:
                if frames:
                    return frames
                raise self._end()
            self._target = self._target[count:]
            if not self._target:
                self._advance(frames)

    def release_memory(self) -> None:
        """Give the memory of large frames to the next reader of one, while no frame is expected here."""
        if 0 < len(self._spare) <= _KEPT_BYTES:
            _released[:] = [self._spare]
        self._spare = bytearray()

    def _advance(self, frames: list[memoryview]) -> None:
        """The size, or the body, is whole."""
        if self._body is not None:
            frames.append(self._body)
            self._body, self._target = None, memoryview(self.head)
            return
        (size,) = _SIZE.unpack(self.head)
        if size == 0 and self.takes_empty:
            frames.append(memoryview(b""))
            self._target = memoryview(self.head)
            return
        if not 0 < size <= self.max_frame_bytes:
            raise RemoteProtocolError(f"a frame of {size} bytes; the limit is {self.max_frame_bytes}")
        self._body = self._target = self._memory(size)

    def _memory(self, size: int) -> memoryview:
        if size < _LARGE:
            return memoryview(bytearray(size))
        if not self._spare:
            with contextlib.suppress(IndexError):
                self._spare = _released.pop()
        if size > len(self._spare) or not _is_free(self._spare):
            self._spare = bytearray(-(-size // _ROUND) * _ROUND)
        return memoryview(self._spare)[:size]

    def _end(self) -> EOFError:
        whole = _SIZE.size if self._body is None else len(self._body)
        if self._body is None and len(self._target) == whole:
            return EndOfFrames("the broker closed the connection")
        what = "size" if self._body is None else f"frame of {whole} bytes"
        return EOFError(f"the broker closed the connection {whole - len(self._target)} bytes into a {what}")


def _is_free(memory: bytearray) -> bool:
    """Whether no view is left: a bytearray with views refuses to change its size."""
    try:
        memory.append(memory.pop())
    except BufferError:
        return False
    return True
