"""The client's end of one connection of the broker, whose requests a test answers itself."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeAlias

from broker_embedded._handlers.support.request_cost import RequestCost
from broker_embedded._platform.platform import ManualClock
from broker_embedded._platform.timers import VirtualTimers
from broker_embedded._server.connection import Connection, ResponseFrame, Shared
from broker_embedded._server.memory import RequestMemory

LIMIT = 1_000_000
SimpleServe: TypeAlias = Callable[[memoryview], ResponseFrame | Awaitable[ResponseFrame]]


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def echo(frame: memoryview) -> ResponseFrame:
    return [framed(bytes(frame))]


class Client:
    """The client's end of a connection that a test's ``serve`` answers."""

    def __init__(self, serve: SimpleServe, *, memory: RequestMemory | None = None) -> None:
        ours, self.sock = socket.socketpair()
        ours.setblocking(False)
        self.sock.setblocking(False)
        self.closed = asyncio.Event()
        self.timers = VirtualTimers(ManualClock())
        self.wait_ms = 0
        self._response = serve
        self.shared = Shared(timers=self.timers, max_request_bytes=LIMIT, memory=memory or RequestMemory(-1))
        self.connection = Connection(
            ours, "client:1", serve=self._serve, shared=self.shared, on_closed=lambda _: self.closed.set()
        )
        self.connection.start()
        self._loop = asyncio.get_running_loop()
        self.opened.append(self)

    opened: ClassVar[list["Client"]] = []

    def _serve(self, frame: memoryview, cost: RequestCost) -> ResponseFrame | Awaitable[ResponseFrame]:
        """Answer a request, and ask for as much silence after it as ``wait_ms`` says now."""
        cost.throttle(self.wait_ms)
        return self._response(frame)

    @property
    def buffer_bytes(self) -> int:
        """What the connection holds to receive into."""
        return self.connection._receive_buffer.buffer_bytes

    def close(self) -> None:
        self.connection.close("the test is over")
        self.sock.close()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.sock, data)

    async def receive(self, length: int) -> bytes:
        received = b""
        while len(received) < length:
            chunk = await asyncio.wait_for(self._loop.sock_recv(self.sock, length - len(received)), 60)
            assert chunk, f"the connection closed after {received!r}"
            received += chunk
        return received

    async def frame(self) -> bytes:
        (length,) = struct.unpack(">i", await self.receive(4))
        return await self.receive(length)

    async def at_end(self) -> bool:
        """Whether the broker has closed, or does within the time that a test may take."""
        await asyncio.wait_for(self.closed.wait(), 60)
        try:
            return await asyncio.wait_for(self._loop.sock_recv(self.sock, 1), 60) == b""
        except ConnectionResetError:  # bytes of ours were not read
            return True


async def settle() -> None:
    """Return when everything sent was handled. Both ends of the sockets are in this loop, so that takes no time.

    Each iteration reads once from every socket, and a buffer of a megabyte is full after five reads.
    """
    for _ in range(50):
        await asyncio.sleep(0)
