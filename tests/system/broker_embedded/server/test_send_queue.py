import errno
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded._platform.platform import RealFile
from broker_embedded._server import send_queue as send_queue_module
from broker_embedded._server.send_queue import RegionLost, SendQueue
from spark_kafka_native._protocol.wire import Chunk, FileRegion

CONTENT = random.Random(1).randbytes(3_000_000)


class LogFile:
    """A file that is opened each time it is used, as by a segment whose file is not cached."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(CONTENT)

    def file(self) -> RealFile:
        return RealFile(str(self.path), os.O_RDWR)


@pytest.fixture
def file(tmp_path: Path) -> LogFile:
    return LogFile(tmp_path / "00000000000000000000.log")


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection: the broker's end, which does not block, and the client's."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(10)
    with ours, theirs:
        yield ours, theirs


def drain(send_queue: SendQueue, client: socket.socket) -> bytes:
    """Send all; the client reads when the socket is full."""
    client.setblocking(False)
    received = bytearray()
    while send_queue:
        send_queue.send()
        try:
            while chunk := client.recv(1 << 20):
                received += chunk
        except BlockingIOError:
            continue
    return bytes(received)


def many_pieces(file: LogFile) -> tuple[list[Chunk], bytes]:
    """Buffers of all kinds and regions of all sizes, and what they come to."""
    pieces: list[Chunk] = []
    expected = b""
    rng = random.Random(2)
    for _ in range(300):
        start, length = rng.randrange(2_000_000), rng.choice([0, 1, 100, 16_384, 16_385, 200_000])
        part = CONTENT[start : start + length]
        region = FileRegion(file, start, length)
        kinds: list[Chunk] = [part, bytearray(part), memoryview(part), region, region]
        pieces.append(rng.choice(kinds))
        expected += part
    return pieces, expected


def test_pieces_leave_in_order(pair: tuple[socket.socket, socket.socket], file: LogFile) -> None:
    pieces, expected = many_pieces(file)
    send_queue = SendQueue(pair[0])
    send_queue.put(pieces)
    assert drain(send_queue, pair[1]) == expected


def test_without_sendfile_the_same_arrives(
    pair: tuple[socket.socket, socket.socket], file: LogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "not for this file")

    monkeypatch.setattr(send_queue_module, "_SENDFILE", refuse)
    pieces, expected = many_pieces(file)
    send_queue = SendQueue(pair[0])
    send_queue.put(pieces)
    assert drain(send_queue, pair[1]) == expected


def test_send_never_blocks_and_returns_whether_the_socket_is_full(
    pair: tuple[socket.socket, socket.socket], file: LogFile
) -> None:
    send_queue = SendQueue(pair[0])
    send_queue.put([FileRegion(file, 0, len(CONTENT))])
    assert send_queue.send() is False
    assert send_queue


def test_one_turn_is_bounded(pair: tuple[socket.socket, socket.socket]) -> None:
    send_queue = SendQueue(pair[0])
    send_queue.put([b"x"] * 3)
    assert send_queue.send() is True
    assert not send_queue


@pytest.mark.parametrize("length", [10_000, 100_000])
def test_a_file_cut_short_is_noticed(pair: tuple[socket.socket, socket.socket], file: LogFile, length: int) -> None:
    file.file().truncate(5_000)
    send_queue = SendQueue(pair[0])
    send_queue.put([b"header", FileRegion(file, 0, length)])
    with pytest.raises(RegionLost, match="the file has 5000"):
        drain(send_queue, pair[1])


def test_regions_that_wait_hold_no_descriptor(pair: tuple[socket.socket, socket.socket], file: LogFile) -> None:
    send_queue, before = SendQueue(pair[0]), open_descriptors()
    send_queue.put([FileRegion(file, position, 100_000) for position in range(0, 2_000_000, 1000)])
    assert open_descriptors() == before
    assert send_queue.send() is False
    assert open_descriptors() == before


@pytest.mark.parametrize("length", [10_000, 100_000])
def test_a_removed_file_ends_the_connection(
    pair: tuple[socket.socket, socket.socket], file: LogFile, length: int
) -> None:
    send_queue = SendQueue(pair[0])
    send_queue.put([b"header", FileRegion(file, 0, length)])
    file.path.unlink()
    with pytest.raises(RegionLost, match="cannot be sent, because their segment cannot be opened"):
        drain(send_queue, pair[1])


def test_a_broken_connection_raises(pair: tuple[socket.socket, socket.socket], file: LogFile) -> None:
    pair[1].close()
    send_queue = SendQueue(pair[0])
    send_queue.put([b"x", FileRegion(file, 0, 100_000)])
    with pytest.raises(BrokenPipeError):
        send_queue.send()


def test_forgetting(pair: tuple[socket.socket, socket.socket]) -> None:
    send_queue = SendQueue(pair[0])
    send_queue.put([b"x"])
    send_queue.clear()
    assert not send_queue
