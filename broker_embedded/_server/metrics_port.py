"""The port for metrics: HTTP for Prometheus and the status page, on the broker's own event loop.

A connection has one request, 10 seconds to send it and 10 to take the response, and at most 16 connections are open, so
that clients of this port cannot slow the broker down.
"""

import asyncio
import functools
import importlib
import logging
import socket
from collections.abc import Awaitable, Callable, Container, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self

from broker_embedded._broker import Broker
from broker_embedded._config.addresses import Endpoint, format_address
from broker_embedded._config.config import BrokerConfig
from broker_embedded._metrics.prometheus import CONTENT_TYPE
from broker_embedded._server.connection import Connection
from broker_embedded._server.dispatch import Peer
from broker_embedded._server.listener import Listener
from broker_embedded._server.status.recent_warnings import RecentWarnings

if TYPE_CHECKING:  # h11, which they import, takes 7 ms of a start
    from broker_embedded._server.http import HttpRequest, HttpResponse
    from broker_embedded._server.status.page import StatusPage

logger = logging.getLogger(__name__)

METRICS_LISTENER: Final = "metrics.listener"
_PATH: Final = "/metrics"
_MAX_CONNECTIONS: Final = 16
_TIMEOUT_S: Final = 10.0
_MAX_HEAD_BYTES: Final = 16 * 1024
_MAX_BODY_BYTES: Final = 256 * 1024
_BACKLOG: Final = 16
_PAGE_MODULE: Final = "broker_embedded._server.status.page"
"""Imported at the first request for the page."""


class MetricsPort:
    """The port. It is bound by ``__init__``, and responds from ``start`` to ``close``."""

    def __init__(self, host: str, port: int) -> None:
        """Raises ListenError."""
        self._listener = Listener(Endpoint(name=METRICS_LISTENER, host=host, port=port), _BACKLOG)
        self._tasks: set[asyncio.Task[None]] = set()
        self._warnings = RecentWarnings()
        self._page_shows = "none"
        self._page: StatusPage | None = None
        """Created at its first request."""

    @classmethod
    def from_config(cls, config: BrokerConfig) -> Self | None:
        """The port of ``metrics.listener``; None if that is not set. Raises ListenError."""
        address = config.metrics_address()
        return None if address is None else cls(*address)

    @property
    def _url(self) -> str:
        return f"http://{format_address(self._listener.host or '127.0.0.1', self._listener.port)}/"

    @property
    def metrics_url(self) -> str:
        """The address of the metrics."""
        return f"{self._url.rstrip('/')}{_PATH}"

    @property
    def status_page_url(self) -> str | None:
        """The address of the status page, or None, as before ``start``."""
        return None if self._page_shows == "none" else self._url

    def start(self, broker: Broker, addresses: list[str], connections: Mapping[Connection, Peer]) -> None:
        """Respond, on the running event loop. The status page shows the listeners' addresses and their connections."""
        self._page_shows = broker.config.status_page_shows(is_loopback=self._listener.is_loopback)
        self._warnings.start()

        hosts = _names_of_this_machine(broker.config)

        async def page() -> "StatusPage":
            if self._page is None:
                module = await broker.threads.on_disk(functools.partial(importlib.import_module, _PAGE_MODULE))
                self._page = self._page or module.StatusPage(
                    broker,
                    self._page_shows,
                    addresses=addresses,
                    connections=connections,
                    warnings=self._warnings,
                    hosts=hosts,
                )
            return self._page

        # On another address a scraper may use any name of this machine.
        scraped_as = hosts if self._listener.is_loopback else None
        self._listener.start(functools.partial(self._on_connection, _Content(broker, page, scraped_as)))

    def stop_listening(self) -> None:
        """Stop listening, and cancel the requests in progress."""
        self._listener.close()
        self._warnings.stop()
        for task in self._tasks:
            task.cancel()
        if self._page is not None:
            self._page.kill()

    async def close(self) -> None:
        """Wait for the end of all connections and of the page's work, after ``stop_listening``."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._page is not None:
            await self._page.close()

    def _on_connection(self, content: "_Content", sock: socket.socket, peer: str) -> None:
        if len(self._tasks) >= _MAX_CONNECTIONS:
            logger.warning(
                "refused the connection from %s: %d other requests for metrics or the status page are open",
                peer,
                len(self._tasks),
            )
            sock.close()
            return
        task = asyncio.get_running_loop().create_task(_serve(sock, content))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: sock.close())  # also of a task that is cancelled before it begins


def _names_of_this_machine(config: BrokerConfig) -> set[str]:
    """Names that requests may be addressed to, apart from IP addresses and localhost."""
    address = config.metrics_address()
    names = {endpoint.host for endpoint in config.advertised().values()}
    return {name.lower() for name in names | ({address[0]} if address else set())}


class _Content:
    """What the port serves."""

    def __init__(
        self, broker: Broker, page: "Callable[[], Awaitable[StatusPage]]", hosts: Container[str] | None
    ) -> None:
        """``hosts`` are the names that requests for metrics may be addressed to; None: all."""
        self._broker = broker
        self._page = page
        self._hosts = hosts

    async def respond(self, request: "HttpRequest") -> "HttpResponse":
        from broker_embedded._server.http import HttpResponse  # noqa: PLC0415  # h11 is slow to import

        if request.target.partition("?")[0] != _PATH:
            return await (await self._page()).respond(request)
        if self._hosts is not None and b"host" in request.headers:  # as in every request of a web browser
            problem = request.web_page_problem(self._hosts, links=True)
            if problem is not None:
                return HttpResponse(status=HTTPStatus.FORBIDDEN, body=f"{problem}\n".encode())
        if request.method not in {"GET", "HEAD"}:
            return HttpResponse(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, HEAD"})
        return HttpResponse(content_type=CONTENT_TYPE, body=(await self._broker.metrics_text()).encode())


async def _serve(sock: socket.socket, content: _Content) -> None:
    try:
        await _respond(sock, content)
    except OSError as error:  # also TimeoutError
        logger.debug("a request for metrics or the status page failed: %r", error)


async def _respond(sock: socket.socket, content: _Content) -> None:
    from broker_embedded._server.http import BadRequest, HttpConnection, HttpResponse  # noqa: PLC0415  # h11 is slow to import

    connection = HttpConnection(sock, max_head_bytes=_MAX_HEAD_BYTES, max_body_bytes=_MAX_BODY_BYTES)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            request = await connection.next_request()
    except BadRequest as error:
        response = HttpResponse(status=error.status, body=f"{error}\n".encode())
    else:
        if request is None:
            return
        try:
            response = await content.respond(request)
        except Exception:  # the next request is served all the same
            logger.exception("a request for metrics or the status page failed")
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            response = HttpResponse(status=status, body=b"the request failed; the broker's log says why\n")
    headers = {"Content-Type": response.content_type, **response.headers}
    async with asyncio.timeout(_TIMEOUT_S):
        await connection.respond(response.status, headers, response.body, close=True)
        await connection.finish()
