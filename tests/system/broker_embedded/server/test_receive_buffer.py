import random
import socket
import struct
from collections.abc import Iterator

import pytest

from broker_embedded._server.memory import BUFFER_BYTES, Buffers, RequestMemory
from broker_embedded._server.receive_buffer import BadSize, ReceiveBuffer

LIMIT = 10_000_000


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Pipe:
    """A receive buffer at the end of a socket."""

    def __init__(self, memory: RequestMemory | None = None) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.memory = memory or RequestMemory(-1)
        self.buffers = Buffers()
        self.receive_buffer = ReceiveBuffer(LIMIT, self.memory, self.buffers)
        self.resumed = 0

    def send(self, data: bytes) -> list[bytes]:
        """Receive bytes; the requests that are complete now."""
        found: list[bytes] = []
        while data:
            sent = self.theirs.send(data[:60_000])
            data = data[sent:]
            while True:
                try:
                    self.receive_buffer.receive(self.ours)
                except BlockingIOError:
                    break
                found += self.frames()
        return found

    def frames(self) -> list[bytes]:
        found = []
        while (frame := self.receive_buffer.next_frame(self._resume)) is not None:
            found.append(bytes(frame))
            self.receive_buffer.answered()
        return found

    def _resume(self) -> None:
        self.resumed += 1


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.ours.close()
    made.theirs.close()


def test_a_receive_buffer_without_bytes_has_no_memory(pipe: Pipe) -> None:
    assert pipe.receive_buffer.buffer_bytes == 0
    assert not pipe.receive_buffer.is_full
    assert not pipe.receive_buffer.has_whole_request
    assert pipe.receive_buffer.next_frame(lambda: None) is None
    assert pipe.receive_buffer.has_space


def test_byte_by_byte(pipe: Pipe) -> None:
    stream = framed(b"hello") + framed(b"x")
    found = []
    for byte in stream:
        found += pipe.send(bytes([byte]))
    assert found == [b"hello", b"x"]
    pipe.receive_buffer.rest_if_small()
    assert pipe.receive_buffer.buffer_bytes == 0


@pytest.mark.parametrize("seed", range(6))
def test_frames_are_complete_however_they_are_split(pipe: Pipe, seed: int) -> None:
    rng = random.Random(seed)
    bodies = [rng.randbytes(rng.choice([1, 7, 4000, 16_380, 16_384, 17_000, 100_000, 3_000_000])) for _ in range(25)]
    stream, position, found = b"".join(map(framed, bodies)), 0, []
    while position < len(stream):
        length = rng.choice([1, 3, 5000, 16_384, 400_000])
        found += pipe.send(stream[position : position + length])
        position += length
    assert found == bodies
    assert pipe.memory.used == 0
    assert pipe.receive_buffer.waiting_bytes == 0


def test_a_frame_is_not_moved_while_others_follow_it(pipe: Pipe) -> None:
    pipe.theirs.send(framed(b"first") + framed(b"second"))
    pipe.receive_buffer.receive(pipe.ours)
    first = pipe.receive_buffer.next_frame(lambda: None)
    assert first is not None
    pipe.theirs.send(b"x" * 1000)
    pipe.receive_buffer.receive(pipe.ours)
    assert bytes(first) == b"first"


def test_a_receive_buffer_is_full_when_its_memory_is(pipe: Pipe) -> None:
    pipe.theirs.send(framed(b"x" * 100) * 300)
    pipe.receive_buffer.receive(pipe.ours)
    assert pipe.receive_buffer.is_full
    assert pipe.receive_buffer.waiting_bytes == BUFFER_BYTES
    assert pipe.receive_buffer.next_frame(lambda: None) is not None


def test_a_claimed_size_reserves_no_memory_but_what_has_come_does(pipe: Pipe) -> None:
    pipe.send(struct.pack(">i", LIMIT) + b"x" * 100)
    assert (pipe.receive_buffer.buffer_bytes, pipe.receive_buffer.reserved_bytes) == (BUFFER_BYTES, 0)
    received = 104
    while received + 10_000 < LIMIT:
        pipe.send(b"x" * 10_000)
        received += 10_000
        assert pipe.receive_buffer.buffer_bytes <= max(BUFFER_BYTES, 4 * received)
        assert pipe.receive_buffer.reserved_bytes == (
            pipe.receive_buffer.buffer_bytes if pipe.receive_buffer.buffer_bytes > BUFFER_BYTES else 0
        )
        assert pipe.memory.used == pipe.receive_buffer.reserved_bytes


@pytest.mark.parametrize("size", [0, -1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_impossible_sizes(pipe: Pipe, size: int) -> None:
    with pytest.raises(BadSize, match=f"it sent a request of {size} bytes; sizes are 1 to {LIMIT}"):
        pipe.send(struct.pack(">i", size) + b"abc")


def test_the_largest_request(pipe: Pipe) -> None:
    assert pipe.send(framed(b"y" * LIMIT)[:-1]) == []
    assert pipe.receive_buffer.buffer_bytes == LIMIT + 4
    (found,) = pipe.send(b"y")
    assert len(found) == LIMIT
    assert pipe.receive_buffer.buffer_bytes <= BUFFER_BYTES  # one of that size is not kept


def test_a_large_buffer_stays_for_the_next_large_request_until_it_is_to_rest(pipe: Pipe) -> None:
    pipe.send(framed(b"y" * 500_000))
    pipe.receive_buffer.rest_if_small()
    assert pipe.receive_buffer.buffer_bytes >= 500_000
    pipe.receive_buffer.rest()
    assert pipe.receive_buffer.buffer_bytes == 0


def test_requests_as_large_as_a_producer_sends_them_are_received_together(pipe: Pipe) -> None:
    requests = framed(b"z" * 16_300) * 4
    assert pipe.send(requests) == [b"z" * 16_300] * 4
    assert pipe.receive_buffer.buffer_bytes == 64 * 1024
    pipe.theirs.send(requests)
    pipe.receive_buffer.receive(pipe.ours)
    assert pipe.receive_buffer.waiting_bytes == len(requests)
    assert len(pipe.frames()) == 4
    assert pipe.memory.used == 0


def test_a_buffer_for_several_requests_is_counted_and_waits_for_no_memory() -> None:
    request = framed(b"z" * 16_300)
    for limit, expected in ((100_000, 64 * 1024), (1, BUFFER_BYTES)):
        pipe = Pipe(RequestMemory(limit))
        assert pipe.memory.reserve("another", 1, lambda: None)
        assert pipe.send((request * 2)[:BUFFER_BYTES]) == [request[4:]]
        assert pipe.receive_buffer.buffer_bytes == expected
        assert pipe.receive_buffer.reserved_bytes == (expected if expected > BUFFER_BYTES else 0)
        assert pipe.receive_buffer.has_space
        assert pipe.send((request * 2)[BUFFER_BYTES:]) == [request[4:]]
        assert pipe.memory.used == 1
        pipe.ours.close()
        pipe.theirs.close()


def test_a_receive_buffer_without_memory_is_called_when_memory_is_free() -> None:
    memory = RequestMemory(100)
    pipe = Pipe(memory)
    assert memory.reserve("another", 100, lambda: None)
    request = framed(b"z" * 50_000)
    pipe.theirs.send(request[:20_000])
    pipe.receive_buffer.receive(pipe.ours)
    assert pipe.frames() == []
    assert not pipe.receive_buffer.has_space
    assert (pipe.receive_buffer.buffer_bytes, pipe.receive_buffer.reserved_bytes) == (BUFFER_BYTES, 0)
    memory.release("another")
    assert pipe.resumed == 1
    assert pipe.frames() == []
    assert pipe.receive_buffer.has_space
    assert pipe.receive_buffer.reserved_bytes == len(request)
    assert pipe.send(request[20_000:]) == [b"z" * 50_000]
    assert (pipe.receive_buffer.reserved_bytes, memory.used) == (0, 0)
    pipe.ours.close()
    pipe.theirs.close()


def test_whether_a_request_is_whole(pipe: Pipe) -> None:
    request = framed(b"abc")
    for length in range(len(request) + 1):
        if length:
            pipe.theirs.send(request[length - 1 : length])
            pipe.receive_buffer.receive(pipe.ours)
        assert pipe.receive_buffer.has_whole_request == (length == len(request))


def test_the_end_of_the_stream_is_reported(pipe: Pipe) -> None:
    pipe.theirs.send(b"xy")
    pipe.theirs.close()
    assert pipe.receive_buffer.receive(pipe.ours) == 2
    assert pipe.receive_buffer.receive(pipe.ours) == 0
    assert pipe.receive_buffer.waiting_bytes == 2
