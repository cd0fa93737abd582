"""What is sent arrives whole and in order: by buffers, by sendfile, and where neither can go on at once."""

import errno
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded.platform import RealFile
from broker_embedded.server import outbox as outbox_module
from broker_embedded.server.outbox import FileCutShort, Outbox
from spark_kafka_native.protocol.wire import Chunk, FileRegion

CONTENT = random.Random(1).randbytes(3_000_000)


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(CONTENT)
    return RealFile(str(path), os.O_RDWR)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection: the broker's end, which does not block, and the client's."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(10)
    with ours, theirs:
        yield ours, theirs


def drain(outbox: Outbox, client: socket.socket) -> bytes:
    """Send all, the client reading whenever the system takes no more."""
    client.setblocking(False)
    received = bytearray()
    while outbox:
        outbox.send()
        try:
            while chunk := client.recv(1 << 20):
                received += chunk
        except BlockingIOError:
            continue
    return bytes(received)


def many_pieces(file: RealFile) -> tuple[list[Chunk], bytes]:
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


def test_pieces_leave_in_order(pair: tuple[socket.socket, socket.socket], file: RealFile) -> None:
    pieces, expected = many_pieces(file)
    outbox = Outbox(pair[0])
    outbox.put(pieces)
    assert drain(outbox, pair[1]) == expected


def test_without_sendfile_the_same_arrives(
    pair: tuple[socket.socket, socket.socket], file: RealFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "not for this file")

    monkeypatch.setattr(outbox_module, "_SENDFILE", refuse)
    pieces, expected = many_pieces(file)
    outbox = Outbox(pair[0])
    outbox.put(pieces)
    assert drain(outbox, pair[1]) == expected


def test_sending_never_blocks_and_says_when_the_system_is_full(
    pair: tuple[socket.socket, socket.socket], file: RealFile
) -> None:
    outbox = Outbox(pair[0])
    outbox.put([FileRegion(file, 0, len(CONTENT))])
    assert outbox.send() is False
    assert outbox


def test_one_turn_is_bounded(pair: tuple[socket.socket, socket.socket]) -> None:
    outbox = Outbox(pair[0])
    outbox.put([b"x"] * 3)
    assert outbox.send() is True
    assert not outbox


@pytest.mark.parametrize("length", [10_000, 100_000])
def test_a_file_cut_short_is_noticed(pair: tuple[socket.socket, socket.socket], file: RealFile, length: int) -> None:
    file.truncate(5_000)
    outbox = Outbox(pair[0])
    outbox.put([b"header", FileRegion(file, 0, length)])
    with pytest.raises(FileCutShort, match="the file has 5000"):
        drain(outbox, pair[1])


def test_a_removed_file_is_still_sent(pair: tuple[socket.socket, socket.socket], file: RealFile) -> None:
    os.remove(file.path)
    outbox = Outbox(pair[0])
    outbox.put([FileRegion(file, 1000, 500_000)])
    assert drain(outbox, pair[1]) == CONTENT[1000:501_000]


def test_a_broken_connection_raises(pair: tuple[socket.socket, socket.socket], file: RealFile) -> None:
    pair[1].close()
    outbox = Outbox(pair[0])
    outbox.put([b"x", FileRegion(file, 0, 100_000)])
    with pytest.raises(BrokenPipeError):
        outbox.send()


def test_forgetting(pair: tuple[socket.socket, socket.socket]) -> None:
    outbox = Outbox(pair[0])
    outbox.put([b"x"])
    outbox.clear()
    assert not outbox
