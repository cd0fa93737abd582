import asyncio
import logging
import random
import socket
import struct
from collections.abc import Awaitable

import pytest

from broker_embedded._handlers.support.registry import CloseConnection
from broker_embedded._server.connection import ResponseFrame
from broker_embedded._server.send_queue import SendQueue
from spark_kafka_native._protocol.errors import LocalProtocolError, RemoteProtocolError
from tests.support.broker.connection_client import LIMIT, Client, echo, framed, settle
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.usefixtures("closed_clients")


async def test_the_largest_request_passes_and_the_next_size_does_not(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(lambda frame: [framed(bytes(frame[:1]))])
    for _ in range(2):
        await client.send(framed(b"x" * LIMIT))
        assert await client.frame() == b"x"
    await client.send(struct.pack(">i", LIMIT + 1))
    assert await client.at_end()
    assert f"closed the connection from client:1: it sent a request of {LIMIT + 1} bytes" in caplog.text


async def test_a_client_with_tls_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(echo)
    await client.send(b"\x16\x03\x01\x02\x00\x01\x00")
    assert await client.at_end()
    assert "the client speaks TLS (SSL or SASL_SSL), this listener is PLAINTEXT" in caplog.text


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1])
async def test_impossible_sizes_close_the_connection_with_a_reason(caplog: pytest.LogCaptureFixture, size: int) -> None:
    client = Client(echo)
    await client.send(struct.pack(">i", size) + b"garbage")
    assert await client.at_end()
    assert f"it sent a request of {size} bytes; sizes are 1 to {LIMIT}" in caplog.text


async def test_the_next_request_waits_for_the_response_before_it() -> None:
    gates = [asyncio.Event() for _ in range(3)]
    begun: list[int] = []

    def serve(frame: memoryview) -> Awaitable[ResponseFrame]:
        number = frame[0]
        begun.append(number)

        async def response() -> ResponseFrame:
            await gates[number].wait()
            return [framed(bytes([number]))]

        return response()

    client = Client(serve)
    await client.send(b"".join(framed(bytes([number])) for number in range(3)))
    gates[2].set()
    await settle()
    assert begun == [0]
    gates[0].set()
    assert await client.frame() == b"\x00"
    await settle()
    assert begun == [0, 1]
    gates[1].set()
    assert [await client.frame(), await client.frame()] == [b"\x01", b"\x02"]


async def test_a_client_that_disconnects_within_a_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    client = Client(echo)
    await client.send(framed(b"hello")[:6])
    client.sock.close()
    await asyncio.wait_for(client.closed.wait(), 10)

    assert "the client closed it 6 bytes into a request" in caplog.text


async def test_requests_before_a_half_close_are_answered() -> None:
    async def response(frame: bytes) -> ResponseFrame:
        await eventually_async(lambda: client.connection._ended, True)
        return [framed(frame)]

    client = Client(lambda frame: response(bytes(frame)))
    await client.send(framed(b"one") + framed(b"two") + framed(b"half")[:5])
    client.sock.shutdown(socket.SHUT_WR)
    assert [await client.frame(), await client.frame()] == [b"one", b"two"]
    assert await client.at_end()


@pytest.mark.parametrize("first_later", [False, True])
async def test_the_connection_of_a_client_that_wants_no_responses_and_disconnects_is_closed(first_later: bool) -> None:
    served: list[bytes] = []

    def serve(frame: memoryview) -> ResponseFrame | Awaitable[ResponseFrame]:
        async def later() -> ResponseFrame:
            await eventually_async(lambda: client.connection._ended, True)
            return None

        served.append(bytes(frame))
        return later() if first_later and len(served) == 1 else None

    client = Client(serve)
    await client.send(b"".join(framed(b"%d" % number) for number in range(40)))
    client.sock.shutdown(socket.SHUT_WR)
    assert await client.at_end()
    assert served == [b"%d" % number for number in range(40)]


async def test_responses_before_a_long_request_do_not_wait_for_it() -> None:
    gate = asyncio.Event()

    async def long() -> ResponseFrame:
        await gate.wait()
        return [framed(b"long")]

    client = Client(lambda frame: long() if frame[0] == ord("l") else echo(frame))
    await client.send(framed(b"a") + framed(b"b" * 40_000) + framed(b"l") + framed(b"c"))
    assert [len(await client.frame()) for _ in range(2)] == [1, 40_000]
    gate.set()
    assert [await client.frame(), await client.frame()] == [b"long", b"c"]


async def test_responses_above_the_socket_buffer_are_sent_while_a_long_request_waits() -> None:
    gate = asyncio.Event()

    async def long() -> ResponseFrame:
        await gate.wait()
        return [framed(b"long")]

    def serve(frame: memoryview) -> ResponseFrame | Awaitable[ResponseFrame]:
        return long() if frame[0] == ord("l") else [framed(b"y" * 60_000)]

    client = Client(serve)
    client.connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    await client.send(framed(b"a") + framed(b"l") + framed(b"l"))
    await settle()
    assert client.connection.is_parked
    assert len(await client.frame()) == 60_000
    gate.set()
    assert [await client.frame(), await client.frame()] == [b"long"] * 2


async def test_responses_before_a_malformed_request_are_sent() -> None:
    client = Client(echo)
    await client.send(framed(b"one") + framed(b"two") + struct.pack(">i", -1))
    assert [await client.frame(), await client.frame()] == [b"one", b"two"]
    assert await client.at_end()


async def test_short_responses_of_one_loop_iteration_are_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    send = SendQueue.send
    client = Client(echo)
    sends: list[int] = []
    send_queue = client.connection._send_queue

    def counted(self: SendQueue) -> bool:
        sends.append(len(self._pieces))
        return send(self)

    monkeypatch.setattr(type(send_queue), "send", counted)
    await client.send(b"".join(framed(b"%d" % number) for number in range(10)))
    assert [await client.frame() for _ in range(10)] == [b"%d" % number for number in range(10)]
    assert sends == [10]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (CloseConnection("no such API"), "closed the connection from client:1: no such API"),
        (RemoteProtocolError("cut short"), "bad request: cut short"),
        (LocalProtocolError("ours"), "a request from client:1 failed unexpectedly"),
        (ZeroDivisionError("oops"), "a request from client:1 failed unexpectedly"),
    ],
)
async def test_a_request_that_breaks_closes_its_connection_alone(
    caplog: pytest.LogCaptureFixture, error: Exception, said: str, later: bool
) -> None:
    def serve(frame: memoryview) -> ResponseFrame | Awaitable[ResponseFrame]:
        async def fail() -> ResponseFrame:
            raise error

        if later:
            return fail()
        raise error

    caplog.set_level(logging.INFO)
    other = Client(echo)
    client = Client(serve)
    await client.send(framed(b"x") * 3)
    assert await client.at_end()
    await other.send(framed(b"still here"))
    assert await other.frame() == b"still here"

    assert said in caplog.text


async def test_closing_when_idle_lets_the_present_response_out() -> None:
    gate = asyncio.Event()

    async def response() -> ResponseFrame:
        await gate.wait()
        return [framed(b"done")]

    client, idle = Client(lambda _: response()), Client(echo)
    await client.send(framed(b"x") * 2)
    await settle()
    client.connection.close_when_idle()
    idle.connection.close_when_idle()
    assert await idle.at_end()
    assert not client.closed.is_set()
    gate.set()
    assert await client.frame() == b"done"
    assert await client.at_end()


async def no_response(ended: asyncio.Event) -> ResponseFrame:
    """Waits until it is cancelled, and sets ``ended``."""
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()
    return None


async def test_closing_cancels_the_request_that_is_worked_on() -> None:
    cancelled = asyncio.Event()
    client = Client(lambda _: no_response(cancelled))
    await client.send(framed(b"x"))
    await settle()
    assert client.connection.is_parked
    client.connection.close("enough")
    client.connection.close("twice")
    await asyncio.wait_for(cancelled.wait(), 10)


async def test_the_work_of_a_request_is_cleaned_up_when_the_connection_closes() -> None:
    cleaned = asyncio.Event()

    def serve(_: memoryview) -> Awaitable[ResponseFrame]:
        asyncio.get_running_loop().call_soon(client.connection.close, "before the response's task has begun")
        return no_response(cleaned)

    client = Client(serve)
    await client.send(framed(b"x"))
    await asyncio.wait_for(cleaned.wait(), 10)


def mixed(frame: memoryview) -> ResponseFrame | Awaitable[ResponseFrame]:
    """Answers at once, later, with much, or not at all, by the first letter."""

    async def later(content: bytes) -> ResponseFrame:
        for _ in range(content[5] % 2 * 10):
            await asyncio.sleep(0)  # the connection reads and sends while this request is worked on
        return [framed(content)]

    match chr(frame[0]):
        case "n":
            return None
        case "l":
            return later(bytes(frame[:6]))
        case "h":
            return [framed(bytes(frame[:6]) + b"y" * 300_000)]
        case _:
            return echo(frame[:6])


@pytest.mark.parametrize("seed", range(8))
async def test_responses_have_the_order_of_their_requests(seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.choices("snlh", [10, 3, 2, 1], k=150)
    requests = [
        f"{kind}{number:05}".encode() + b"x" * rng.choice([0, 9, 16_374, 16_378, 70_000])
        for number, kind in enumerate(kinds)
    ]
    stream = b"".join(map(framed, requests))
    client = Client(mixed)

    async def write() -> None:
        position = 0
        while position < len(stream):
            length = rng.choice([1, 3, 4, 100, 10_000, 200_000])
            await client.send(stream[position : position + length])
            position += length
            await asyncio.sleep(0)  # the connection reads what was sent so far
        client.sock.shutdown(socket.SHUT_WR)

    writing = asyncio.create_task(write())
    responses = [await client.frame() for kind in kinds if kind != "n"]
    assert [response[:6] for response in responses] == [request[:6] for request in requests if request[:1] != b"n"]
    assert {len(response) for response in responses} == {6, 300_006}
    await writing
    assert await client.at_end()
