import asyncio
import contextlib
import struct

import pytest

from broker_embedded._server.connection import ResponseFrame
from broker_embedded._server.memory import RequestMemory
from tests.support.broker.connection_client import LIMIT, Client, echo, framed, settle

pytestmark = pytest.mark.usefixtures("closed_clients")


async def test_a_claimed_size_sets_no_memory_aside() -> None:
    client = Client(echo)
    await client.send(struct.pack(">i", LIMIT))
    await settle()
    assert client.buffer_bytes <= LIMIT + 4
    big = Client(echo)
    big.connection._receive_buffer._max_request_bytes = 2**31 - 1
    await big.send(struct.pack(">i", 2**31 - 1) + b"x" * 100)
    await settle()
    assert 100 < big.buffer_bytes <= 2 * 1024 * 1024


async def test_a_reader_that_does_not_read_costs_one_response() -> None:
    served: list[int] = []

    def serve(frame: memoryview) -> ResponseFrame:
        served.append(len(frame))
        return [framed(b"y" * 5_000_000)]

    client = Client(serve)
    await client.send(framed(b"x") * 1000)
    await settle()
    assert len(served) == 1
    for _ in range(3):
        assert len(await client.frame()) == 5_000_000
    assert len(served) <= 4


async def test_a_continuous_writer_holds_one_buffer() -> None:
    client = Client(lambda _: asyncio.Event().wait())  # type: ignore[arg-type,return-value]  # never answered
    with contextlib.suppress(BlockingIOError):
        while client.sock.send(framed(b"x" * 100) * 50):
            await asyncio.sleep(0)  # the connection reads what was sent so far
    assert client.buffer_bytes == 16 * 1024
    client.connection.close("done")


async def test_large_requests_share_a_budget_and_wait_for_it() -> None:
    memory = RequestMemory(100_000)
    gate = asyncio.Event()

    async def response(frame: memoryview) -> ResponseFrame:
        await gate.wait()
        return [framed(bytes(frame[:1]))]

    first, second = (Client(response, memory=memory) for _ in range(2))
    await first.send(framed(b"1" * 150_000)[:-1])
    await settle()
    writing = asyncio.create_task(second.send(framed(b"2" * 800_000)))
    await settle()
    assert not writing.done()
    gate.set()
    await first.send(b"1")
    assert await first.frame() == b"1"
    assert await second.frame() == b"2"
    await writing


async def test_a_connection_that_closes_while_it_waits_for_memory_waits_no_longer() -> None:
    memory = RequestMemory(100_000)
    holding, waiting = Client(echo, memory=memory), Client(echo, memory=memory)
    for client in (holding, waiting):
        await client.send(framed(b"x" * 300_000)[:200_000])
        await settle()
    assert memory.is_short
    waiting.close()
    assert not memory.is_short


async def test_a_large_buffer_is_given_back() -> None:
    client = Client(lambda frame: [framed(bytes(frame[:1]))])
    await client.send(framed(b"x" * 500_000))
    assert await client.frame() == b"x"
    assert client.buffer_bytes > 400_000
    client.connection.shrink()
    assert client.buffer_bytes == 0
    await client.send(framed(b"again"))
    assert await client.frame() == b"a"


async def test_a_connection_that_rests_has_no_buffer_and_others_use_it_again() -> None:
    client, half = Client(echo), Client(echo)
    assert client.buffer_bytes == 0
    for _ in range(3):
        await client.send(framed(b"hello"))
        assert await client.frame() == b"hello"
        assert client.buffer_bytes == 0
    await half.send(framed(b"half")[:6])
    await settle()
    assert half.buffer_bytes == 16 * 1024
    assert len(client.shared.buffers._free) == 1


async def test_a_buffer_that_a_handler_still_looks_into_is_not_lent_again() -> None:
    seen: list[memoryview] = []

    async def response(frame: memoryview) -> ResponseFrame:
        seen.append(frame)
        await asyncio.Event().wait()
        return None

    client = Client(response)
    await client.send(framed(b"precious"))
    await settle()
    client.connection.close("gone")
    await settle()
    assert bytes(seen[0]) == b"precious"
    assert client.shared.buffers.take() is not seen[0].obj
