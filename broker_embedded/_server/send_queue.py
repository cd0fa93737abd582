"""The send queue of one connection: bytes by ``sendmsg``, regions of log files by ``sendfile``."""

import errno
import os
import socket
from collections import deque
from collections.abc import Iterable
from typing import Final

from spark_kafka_native._protocol.wire import Chunk, FileRegion, HasFileno

_MAX_PIECES: Final = 64
"""Buffers in one ``sendmsg``; systems allow 1024 or more."""
_SMALL_REGION: Final = 16 * 1024
"""Regions up to this size are read and sent with the bytes around them, in one system call instead of three."""
_MAX_BYTES_PER_ITERATION: Final = 4 * 1024 * 1024
"""Upper bound of one ``send``, so that a fast client does not block the other connections."""
_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_SENDFILE: Final = getattr(os, "sendfile", None)
_NO_SENDFILE: Final = {errno.EINVAL, errno.ENOSYS, errno.ENOTSOCK, errno.EOPNOTSUPP}


class RegionLost(Exception):
    """A region of a response cannot be read: its file was removed, cannot be opened, or is too short.

    The connection must be closed.
    """


class SendQueue:
    """Pieces in sending order. Sending never blocks."""

    __slots__ = ("_pieces", "_socket")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._pieces: deque[Chunk] = deque()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def put(self, pieces: Iterable[Chunk]) -> None:
        """Append pieces. They are not copied, and must not be changed until they are sent."""
        self._pieces.extend(piece for piece in pieces if len(piece))

    def send(self) -> bool:
        """Send as much as the system accepts, within a bound; whether it would have accepted more.

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
        """Drop unsent pieces."""
        self._pieces.clear()

    def _send_bytes(self) -> int:
        """Send the first buffers, with small regions read."""
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
        """Remove ``sent`` bytes from the first buffers."""
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
    """The file, opened for this call, so that a slow client holds no descriptor between calls."""
    try:
        return region.owner.file()
    except OSError as error:
        raise RegionLost(
            f"{region.length} bytes cannot be sent, because their segment cannot be opened: {error}"
        ) from error


def _cut_short(region: FileRegion, file: HasFileno) -> RegionLost:
    size = os.fstat(file.fileno()).st_size
    return RegionLost(
        f"{region.length} bytes cannot be sent from position {region.position}, because the file has {size}"
    )
