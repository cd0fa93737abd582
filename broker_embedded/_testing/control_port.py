"""The commands of `broker_embedded._testing.control` over HTTP/1.1 on the broker's event loop, for any language.

Bodies are JSON or empty; responses are JSON and a line break. Clients of the port can stop the broker and read requests
of other clients. It therefore listens on loopback addresses only, unless remote access is allowed explicitly, and web
pages are refused: a request must be addressed to an IP address or localhost, and must not have an Origin.
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
import socket
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from broker_embedded._config.addresses import Endpoint, format_address
from broker_embedded._server.http import BadRequest, HttpConnection, HttpRequest
from broker_embedded._server.listener import Listener
from broker_embedded._testing.control import BAD_REQUEST, Control, ControlResponse
from broker_embedded._testing.control_address import LISTENER_OPTION, ControlAddress

logger = logging.getLogger(__name__)

_BACKLOG: Final = 50
_MAX_BODY_BYTES: Final = 1024 * 1024
_MAX_HEAD_BYTES: Final = 64 * 1024
_NUMBERS: Final = {"after", "most"}
"""Numeric fields of queries."""


class ControlPort:
    """The port, opened by ``open``."""

    def __init__(self, control: Control, wanted: ControlAddress) -> None:
        """Nothing is open yet."""
        self.address = wanted
        self._control = control
        self._listener: Listener | None = None
        self._conversations: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Listen; ``address`` then has the bound port. Raises ListenError."""
        endpoint = Endpoint(name=LISTENER_OPTION, host=self.address.host, port=self.address.port)
        self._listener = Listener(endpoint, _BACKLOG)
        self.address = ControlAddress(host=self.address.host, port=self._listener.port)
        self._listener.start(self._accept)

    @property
    def url(self) -> str:
        """``http://host:port``."""
        return f"http://{format_address(self.address.host, self.address.port)}"

    async def close(self) -> None:
        """Stop listening. A command in progress is not answered."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for conversation in self._conversations:
            conversation.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)

    def _accept(self, sock: socket.socket, peer: str) -> None:
        conversation = asyncio.get_running_loop().create_task(self._converse(sock, peer))
        self._conversations.add(conversation)
        conversation.add_done_callback(self._conversations.discard)
        conversation.add_done_callback(lambda _: sock.close())

    async def _converse(self, sock: socket.socket, peer: str) -> None:
        connection = HttpConnection(sock, max_head_bytes=_MAX_HEAD_BYTES, max_body_bytes=_MAX_BODY_BYTES)
        try:
            while await self._respond(connection):
                pass
            await connection.finish()
        except OSError as error:
            logger.debug("the connection of %s to the control port is broken: %s", peer, error)

    async def _respond(self, connection: HttpConnection) -> bool:
        """Read a command, run it and respond; whether the connection can have another one."""
        try:
            request = await connection.next_request()
            response = None if request is None else await self._do(request)
        except BadRequest as error:
            response, request = ControlResponse(status=error.status, body={"problem": str(error)}), None
        if response is None:
            return False
        body = json.dumps(response.body).encode() + b"\n"
        headers = {"Content-Type": "application/json"}
        return await connection.respond(response.status, headers, body, close=request is None)

    async def _do(self, request: HttpRequest) -> ControlResponse:
        problem = _stranger(request.headers)
        if problem is not None:
            return ControlResponse(status=HTTPStatus.FORBIDDEN, body={"problem": problem})
        try:
            parts = urlsplit(request.target)
            fields = _fields_of_body(request.body) if request.body else _fields_of_query(parts.query)
        except ValueError as error:
            return ControlResponse(status=BAD_REQUEST, body={"problem": str(error)})
        return await self._control.do(request.method, unquote(parts.path), fields)


def _stranger(headers: Mapping[bytes, bytes]) -> str | None:
    """The reason to refuse a request that may be from a web page, or None."""
    if b"origin" in headers:
        return "web pages may not use this port"
    host = headers.get(b"host", b"").decode(errors="replace")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name.lower() != "localhost":
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return f"the request is for the host {name!r}; address it to an IP address or to localhost"
    return None


def _fields_of_body(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("the body is JSON, but not an object")
    return fields


def _fields_of_query(query: str) -> dict[str, Any]:
    found: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    for name in _NUMBERS & found.keys():
        with contextlib.suppress(ValueError):  # the check of the field reports that it is no number
            found[name] = int(found[name])
    return found
