import socket
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from spark_kafka_native._net.frame_socket import FrameSocket
from spark_kafka_native._protocol.errors import RemoteProtocolError


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def frame_of(reader: FrameSocket, theirs: socket.socket, body: bytes) -> memoryview:
    theirs.setblocking(False)
    waiting = memoryview(len(body).to_bytes(4, "big") + body)
    while True:
        with suppress(BlockingIOError):
            waiting = waiting[theirs.send(waiting) :] if waiting else waiting
        frames = reader.read()
        if frames:
            (frame,) = frames
            assert bytes(frame) == body
            return frame


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


def test_memory_of_a_large_frame_is_used_again_once_it_has_no_view(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    reader = FrameSocket(ours, 1 << 20)

    def sent(size: int, fill: bytes) -> memoryview:
        return frame_of(reader, theirs, fill * size)

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
    assert bytes(part) == b"a" * 10  # long after, as there is still a view
    assert sent(100, b"e").obj is not larger.obj


def test_readers_share_the_memory_that_idle_ones_release(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    first, second, third = (FrameSocket(ours, 1 << 20) for _ in range(3))
    frame = frame_of(first, theirs, b"a" * 400_000)
    memory = frame.obj
    first.release_memory()
    assert bytes(frame) == b"a" * 400_000
    assert frame_of(second, theirs, b"b" * 400_000).obj is not memory  # a view of it is still in use
    del frame
    shared = frame_of(second, theirs, b"c" * 400_000).obj
    second.release_memory()
    assert frame_of(third, theirs, b"d" * 300_000).obj is shared
    assert frame_of(second, theirs, b"e" * 300_000).obj is not shared  # the third reader has it now


def test_memory_of_a_very_large_frame_is_not_kept(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    size = (1 << 26) + 1
    first, second = FrameSocket(ours, size), FrameSocket(ours, size)
    theirs.sendall(size.to_bytes(4, "big"))
    assert first.read() == []  # the memory for the whole frame is reserved
    first.release_memory()
    memory = frame_of(second, theirs, b"a" * 400_000).obj
    assert isinstance(memory, bytearray)
    assert len(memory) < 1 << 20


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\0\0\0\x65"])
def test_impossible_sizes(pair: tuple[socket.socket, socket.socket], size: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(size)
    with pytest.raises(RemoteProtocolError):
        FrameSocket(ours, 100).read()
