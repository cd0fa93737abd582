import asyncio
import contextlib

import pytest

from tests.support.broker.connection_client import Client, echo, framed, settle

pytestmark = pytest.mark.usefixtures("closed_clients")


async def test_a_throttled_client_is_answered_and_then_muted() -> None:
    client = Client(echo)
    client.wait_ms = 1000
    await client.send(framed(b"one") + framed(b"two") + framed(b"three"))
    assert await client.frame() == b"one"
    client.wait_ms = 0
    await client.timers.advance(999)
    assert client.connection.is_idle
    assert client.connection._muted is not None
    await client.timers.advance(1)
    assert [await client.frame(), await client.frame()] == [b"two", b"three"]


async def test_a_throttled_client_without_a_response_is_muted_too() -> None:
    client = Client(lambda frame: None if frame[0] == ord("-") else echo(frame))
    client.wait_ms = 1000
    await client.send(framed(b"-quiet") + framed(b"loud"))
    await settle()
    assert client.connection._muted is not None
    await client.timers.advance(1000)
    assert await client.frame() == b"loud"


async def test_a_throttled_client_cannot_make_the_broker_hold_more_than_a_buffer() -> None:
    client = Client(echo)
    client.wait_ms = 1000
    await client.send(framed(b"first"))
    assert await client.frame() == b"first"
    with contextlib.suppress(BlockingIOError):
        while client.sock.send(framed(b"x" * 100) * 50):
            await settle()
    assert client.buffer_bytes == 16 * 1024
    client.wait_ms = 0
    await client.timers.advance(1000)
    assert await client.frame() == b"x" * 100


async def test_requests_of_a_throttled_client_that_disconnected_are_handled_after_the_throttle_time() -> None:
    served: list[bytes] = []
    client = Client(lambda frame: served.append(bytes(frame)))
    client.wait_ms = 500
    await client.send(framed(b"1") + framed(b"2") + framed(b"3"))
    client.sock.close()
    await settle()
    assert served == [b"1"]
    await client.timers.advance(500)
    assert served == [b"1", b"2"]
    await client.timers.advance(500)
    await asyncio.wait_for(client.closed.wait(), 10)
    assert served == [b"1", b"2", b"3"]


async def test_a_throttled_connection_is_closed_at_once_when_the_broker_stops() -> None:
    client = Client(echo)
    client.wait_ms = 60_000
    await client.send(framed(b"one"))
    assert await client.frame() == b"one"
    client.connection.close_when_idle()
    assert await client.at_end()
    await client.timers.advance(60_000)
