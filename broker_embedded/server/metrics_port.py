"""The port that tells metrics: HTTP for Prometheus and whoever reads text, on the broker's own event loop.

One request per connection, a few connections at once, little time for each: whoever plays with this port hurts nobody.
"""

import asyncio
import functools
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final, Self

from broker_embedded.config.addresses import Endpoint, spell_address
from broker_embedded.config.config import BrokerConfig
from broker_embedded.metrics.prometheus import CONTENT_TYPE
from broker_embedded.server.listener import Listener

logger = logging.getLogger(__name__)

_PATH: Final = "/metrics"
_AT_ONCE: Final = 8
_PATIENCE_S: Final = 10.0
_MOST_HEAD_BYTES: Final = 8 * 1024
_BACKLOG: Final = 16

_OK: Final = "200 OK"
_BAD_REQUEST: Final = "400 Bad Request"
_NOT_FOUND: Final = "404 Not Found"
_BAD_METHOD: Final = "405 Method Not Allowed"
_TOO_LARGE: Final = "431 Request Header Fields Too Large"


class MetricsPort:
    """The port, bound when it is made and answering from ``start`` to ``close``."""

    def __init__(self, host: str, port: int) -> None:
        """Raises ListenError."""
        self._listener = Listener(Endpoint(name="metrics.listener", host=host, port=port), _BACKLOG)
        self._conversations: set[asyncio.Task[None]] = set()

    @classmethod
    def wanted_by(cls, config: BrokerConfig) -> Self | None:
        """The port that ``metrics.listener`` asks for, if it does. Raises ListenError."""
        address = config.metrics_address()
        return None if address is None else cls(*address)

    @property
    def url(self) -> str:
        """Where to ask."""
        return f"http://{spell_address(self._listener.host or '127.0.0.1', self._listener.port)}{_PATH}"

    def start(self, text: Callable[[], Awaitable[str]]) -> None:
        """Answer, from the running event loop, with what ``text`` gives at the moment."""
        self._listener.start(functools.partial(self._on_connection, text))

    def give_back(self) -> None:
        """Let others have the port, at once."""
        self._listener.close()

    async def close(self) -> None:
        """Stop listening; who is not answered yet never is."""
        self.give_back()
        for conversation in self._conversations:
            conversation.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)

    def _on_connection(self, text: Callable[[], Awaitable[str]], sock: socket.socket, peer: str) -> None:
        if len(self._conversations) >= _AT_ONCE:
            logger.warning("refused the connection from %s: %d others read metrics", peer, len(self._conversations))
            sock.close()
            return
        task = asyncio.get_running_loop().create_task(self._converse(sock, text))
        self._conversations.add(task)
        task.add_done_callback(self._conversations.discard)

    async def _converse(self, sock: socket.socket, text: Callable[[], Awaitable[str]]) -> None:
        loop = asyncio.get_running_loop()
        with sock:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await loop.sock_sendall(sock, await _answer(await _head(sock), text))
                    sock.shutdown(socket.SHUT_WR)
                    while await loop.sock_recv(sock, _MOST_HEAD_BYTES):  # or what was not read would reset the answer
                        pass
            except (OSError, TimeoutError) as error:
                logger.debug("a reader of metrics was not answered: %r", error)
            except Exception:  # the edge of a server loop: one reader's trouble is not the next one's
                logger.exception("metrics cannot be told")


async def _head(sock: socket.socket) -> bytes | None:
    """The lines of a request up to the empty one, None if they are too many. Raises OSError: it ended before."""
    received = bytearray()
    while b"\r\n\r\n" not in received:
        if len(received) > _MOST_HEAD_BYTES:
            return None
        chunk = await asyncio.get_running_loop().sock_recv(sock, _MOST_HEAD_BYTES)
        if not chunk:
            raise ConnectionResetError("the request is not whole")
        received += chunk
    return bytes(received)


async def _answer(head: bytes | None, text: Callable[[], Awaitable[str]]) -> bytes:
    if head is None:
        return _response(_TOO_LARGE)
    line = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(line) != 3 or not line[2].startswith("HTTP/1."):
        return _response(_BAD_REQUEST)
    method, target, _ = line
    if target.partition("?")[0] not in {_PATH, "/"}:
        return _response(_NOT_FOUND)
    if method not in {"GET", "HEAD"}:
        return _response(_BAD_METHOD, ("Allow: GET, HEAD",))
    body = (await text()).encode()
    return _response(_OK, (f"Content-Type: {CONTENT_TYPE}",), body, with_body=method == "GET")


def _response(status: str, headers: tuple[str, ...] = (), body: bytes = b"", *, with_body: bool = True) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + (body if with_body else b"")
