"""The port for metrics: HTTP for Prometheus, on the broker's own event loop.

A connection has one request and 10 seconds, and at most 8 connections are open, so that clients of this port cannot
slow the broker down.
"""

import asyncio
import functools
import logging
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, Self

from broker_embedded._config.addresses import Endpoint, format_address
from broker_embedded._config.config import BrokerConfig
from broker_embedded._metrics.prometheus import CONTENT_TYPE
from broker_embedded._server.listener import Listener

logger = logging.getLogger(__name__)

METRICS_LISTENER: Final = "metrics.listener"
_PATH: Final = "/metrics"
_MAX_CONNECTIONS: Final = 8
_TIMEOUT_S: Final = 10.0
_MAX_BYTES: Final = 8 * 1024
"""Of a request's head, and of its body."""
_BACKLOG: Final = 16


class MetricsPort:
    """The port. It is bound by ``__init__``, and responds from ``start`` to ``close``."""

    def __init__(self, host: str, port: int) -> None:
        """Raises ListenError."""
        self._listener = Listener(Endpoint(name=METRICS_LISTENER, host=host, port=port), _BACKLOG)
        self._conversations: set[asyncio.Task[None]] = set()

    @classmethod
    def wanted_by(cls, config: BrokerConfig) -> Self | None:
        """The port of ``metrics.listener``; None if that is not set. Raises ListenError."""
        address = config.metrics_address()
        return None if address is None else cls(*address)

    @property
    def url(self) -> str:
        """The address of the metrics."""
        return f"http://{format_address(self._listener.host or '127.0.0.1', self._listener.port)}{_PATH}"

    def start(self, text: Callable[[], Awaitable[str]]) -> None:
        """Respond, on the running event loop, with what ``text`` returns."""
        self._listener.start(functools.partial(self._on_connection, text))

    def give_back(self) -> None:
        """Stop listening."""
        self._listener.close()

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        self.give_back()
        for conversation in self._conversations:
            conversation.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)

    def _on_connection(self, text: Callable[[], Awaitable[str]], sock: socket.socket, peer: str) -> None:
        if len(self._conversations) >= _MAX_CONNECTIONS:
            logger.warning(
                "refused the connection from %s: %d other metrics requests are open", peer, len(self._conversations)
            )
            sock.close()
            return
        task = asyncio.get_running_loop().create_task(self._converse(sock, text))
        self._conversations.add(task)
        task.add_done_callback(self._conversations.discard)

    async def _converse(self, sock: socket.socket, text: Callable[[], Awaitable[str]]) -> None:
        with sock:
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    await _respond(sock, text)
            except (OSError, TimeoutError) as error:
                logger.debug("a request for metrics failed: %r", error)
            except Exception:  # the next request is served all the same
                logger.exception("a request for metrics failed")


async def _respond(sock: socket.socket, text: Callable[[], Awaitable[str]]) -> None:
    from broker_embedded._server.http import BadRequest, HttpConnection  # noqa: PLC0415  # h11 takes 7 ms of a start

    connection = HttpConnection(sock, max_head_bytes=_MAX_BYTES, max_body_bytes=_MAX_BYTES)
    headers: dict[str, str] = {}
    body = ""
    try:
        request = await connection.next_request()
    except BadRequest as error:
        status: int = error.status
    else:
        if request is None:
            return
        if request.target.partition("?")[0] not in {_PATH, "/"}:
            status = HTTPStatus.NOT_FOUND
        elif request.method not in {"GET", "HEAD"}:
            status, headers = HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"}
        else:
            status, headers, body = HTTPStatus.OK, {"Content-Type": CONTENT_TYPE}, await text()
    await connection.respond(status, headers, body.encode(), close=True)
    await connection.finish()
