"""What one connection has still to send: bytes by ``sendmsg``, regions of log files by ``sendfile``."""

import errno
import os
import socket
from collections import deque
from collections.abc import Iterable
from typing import Final

from spark_kafka_native.protocol.wire import Chunk, FileRegion, HasFileno

_MAX_PIECES: Final = 64
"""Buffers in one ``sendmsg``; systems allow 1024 or more."""
_SMALL_REGION: Final = 16 * 1024
"""Regions up to this size are read and sent with the bytes around them: one call to the system instead of three."""
_MAX_BYTES_PER_ITERATION: Final = 4 * 1024 * 1024
"""Sent at once at most, so that one fast reader does not hold up the other connections."""
_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_SENDFILE: Final = getattr(os, "sendfile", None)
_NO_SENDFILE: Final = {errno.EINVAL, errno.ENOSYS, errno.ENOTSOCK, errno.EOPNOTSUPP}


class RegionLost(Exception):
    """A region that the response contains cannot be read: its file was removed, cannot be opened, or ends before it.

    The connection must be closed.
    """


class Outbox:
    """Pieces in the order in which they must leave. Sending never blocks."""

    __slots__ = ("_pieces", "_socket")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._pieces: deque[Chunk] = deque()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def put(self, pieces: Iterable[Chunk]) -> None:
        """Add pieces behind the others. They are kept by reference: do not change them until they are sent."""
        self._pieces.extend(piece for piece in pieces if len(piece))

    def send(self) -> bool:
        """Send as much as the system takes, up to a turn's worth; whether the system would have taken more.

        Raises OSError: the connection is broken. RegionLost.
        """
        left = _MAX_BYTES_PER_ITERATION
        while self._pieces and left > 0:
            head = self._pieces[0]
            try:
                region = isinstance(head, FileRegion) and head.length > _SMALL_REGION
                sent = self._send_region(head) if region and isinstance(head, FileRegion) else self._send_bytes()
            except (BlockingIOError, InterruptedError):
                return False
            left -= sent
        return True

    def clear(self) -> None:
        """Forget what was not sent."""
        self._pieces.clear()

    def _send_bytes(self) -> int:
        """Send the buffers at the front, small regions read in."""
        pieces = self._pieces
        buffers = []
        for index, piece in enumerate(pieces):
            if isinstance(piece, FileRegion):
                if piece.length > _SMALL_REGION:
                    break
                piece = pieces[index] = _read(piece)  # noqa: PLW2901  # the piece is replaced by its bytes
            buffers.append(piece)
            if len(buffers) == _MAX_PIECES:
                break
        more = _MSG_MORE if len(buffers) < len(pieces) else 0
        sent = self._socket.sendmsg(buffers, (), more)
        self._drop(sent)
        return sent

    def _drop(self, sent: int) -> None:
        """Take ``sent`` bytes off the buffers at the front."""
        pieces = self._pieces
        while sent:
            head = pieces.popleft()
            if sent < len(head):
                assert not isinstance(head, FileRegion)
                pieces.appendleft(memoryview(head)[sent:])
                return
            sent -= len(head)

    def _send_region(self, region: FileRegion) -> int:
        sent = _sendfile(self._socket, region)
        self._pieces.popleft()
        if sent < region.length:
            self._pieces.appendleft(FileRegion(region.owner, region.position + sent, region.length - sent))
        return sent


def _sendfile(sock: socket.socket, region: FileRegion) -> int:
    count = min(region.length, _MAX_BYTES_PER_ITERATION)
    if _SENDFILE is not None:
        file = _opened(region)
        try:
            sent: int = _SENDFILE(sock.fileno(), file.fileno(), region.position, count)
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
        else:
            if sent == 0:
                raise _cut_short(region, file)
            return sent
    return sock.send(_read(FileRegion(region.owner, region.position, min(count, 256 * 1024))))


def _read(region: FileRegion) -> bytes:
    file = _opened(region)
    data = os.pread(file.fileno(), region.length, region.position)
    if len(data) < region.length:
        raise _cut_short(region, file)
    return data


def _opened(region: FileRegion) -> HasFileno:
    """The file, open while the result is held: between calls a slow client holds no descriptor."""
    try:
        return region.owner.file()
    except OSError as error:
        raise RegionLost(
            f"{region.length} bytes were to be sent from a segment that cannot be opened: {error}"
        ) from error


def _cut_short(region: FileRegion, file: HasFileno) -> RegionLost:
    size = os.fstat(file.fileno()).st_size
    return RegionLost(f"{region.length} bytes were to be sent from position {region.position}; the file has {size}")
