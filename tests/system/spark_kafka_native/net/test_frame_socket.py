import socket
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from spark_kafka_native.net.frame_socket import FrameSocket
from spark_kafka_native.protocol.errors import RemoteProtocolError


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_frames_come_whole(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    reader = FrameSocket(ours, 100)
    theirs.sendall(b"\0\0\0\x03abc\0\0\0\x02")
    assert [bytes(frame) for frame in reader.read()] == [b"abc"]
    assert reader.read() == []
    theirs.sendall(b"de")
    theirs.close()
    assert [bytes(frame) for frame in reader.read()] == [b"de"]
    with pytest.raises(EOFError, match="the broker closed the connection"):
        reader.read()


def test_an_empty_frame_is_one_only_where_it_may_be(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    reader = FrameSocket(ours, 100)
    reader.takes_empty = True
    theirs.sendall(b"\0\0\0\0\0\0\0\x01a")
    assert [bytes(frame) for frame in reader.read()] == [b"", b"a"]
    reader.takes_empty = False
    theirs.sendall(b"\0\0\0\0")
    with pytest.raises(RemoteProtocolError, match="a frame of 0 bytes"):
        reader.read()


def test_memory_of_a_large_frame_is_used_again_once_nobody_looks_at_it(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    reader = FrameSocket(ours, 1 << 20)

    def sent(size: int, fill: bytes) -> memoryview:
        body = fill * size
        theirs.setblocking(False)
        waiting = memoryview(size.to_bytes(4, "big") + body)
        while True:
            with suppress(BlockingIOError):
                waiting = waiting[theirs.send(waiting) :] if waiting else waiting
            frames = reader.read()
            if frames:
                (frame,) = frames
                assert bytes(frame) == body
                return frame

    first = sent(200_000, b"a")
    part = np.frombuffer(first, np.uint8)[10:20]
    second = sent(200_000, b"b")
    assert second.obj is not first.obj
    assert bytes(first) == b"a" * 200_000
    memory = second.obj
    second.release()
    third = sent(199_000, b"c")  # a little smaller
    assert third.obj is memory
    del third
    larger = sent(900_000, b"d")
    assert larger.obj is not memory
    assert bytes(part) == b"a" * 10  # long after, as there is still somebody who looks at it
    small = sent(100, b"e")
    assert small.obj is not larger.obj


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\0\0\0\x65"])
def test_impossible_sizes(pair: tuple[socket.socket, socket.socket], size: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(size)
    with pytest.raises(RemoteProtocolError):
        FrameSocket(ours, 100).read()
