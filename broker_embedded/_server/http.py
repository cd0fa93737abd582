"""The server's side of an HTTP/1.1 connection on the running event loop, for the ports of metrics and of tests."""

import asyncio
import contextlib
import ipaddress
import json
import socket
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

_READ_BYTES: Final = 64 * 1024
_CLOSE_TIMEOUT_S: Final = 10.0
_CAN_RESPOND: Final = (h11.IDLE, h11.SEND_RESPONSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A whole request. The names of ``headers`` are in small letters."""

    method: str
    target: str
    headers: Mapping[bytes, bytes]
    body: bytes

    @property
    def path(self) -> str:
        """The path of the target. Raises ValueError: it is malformed."""
        return unquote(urlsplit(self.target).path)

    def fields(self) -> dict[str, Any]:
        """The fields of a JSON object in the body, or if that is empty, of the query. Raises ValueError."""
        if not self.body:
            return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))
        try:
            fields = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the body is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ValueError("the body is JSON, but not an object")
        return fields

    @property
    def is_navigation(self) -> bool:
        """Whether a browser opens the target as a page of its own, for example by a link of another site."""
        return (
            self.method == "GET"
            and self.headers.get(b"sec-fetch-mode") == b"navigate"
            and self.headers.get(b"sec-fetch-dest") == b"document"
        )

    def web_page_problem(self, hosts: Container[str] = (), *, links: bool = False) -> str | None:
        """The reason to refuse a request that a web page of another site may have sent, or None.

        Such a page sends an Origin or Sec-Fetch-Site, or has a host name that it resolves to this machine (DNS
        rebinding). ``hosts`` are names of this machine in lower case; localhost and IP addresses are allowed always.
        ``links``: other sites may have links to the target.
        """
        site = self.headers.get(b"sec-fetch-site", b"none")
        foreign = site in {b"cross-site", b"same-site"} and not (links and self.is_navigation)
        if foreign or (b"origin" in self.headers and self._origin() != self._host()):
            return "web pages of other sites may not use this port"
        host = self._host()
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if name != "localhost" and name not in hosts:
            try:
                ipaddress.ip_address(name.strip("[]"))
            except ValueError:
                return f"the request is for the host {name!r}; address it to an IP address or to localhost"
        return None

    def _host(self) -> str:
        return self.headers.get(b"host", b"").decode(errors="replace").lower()

    def _origin(self) -> str:
        return self.headers[b"origin"].decode(errors="replace").lower().removeprefix("http://")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A response: its status, the type of its body, and further headers."""

    status: int = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class BadRequest(Exception):
    """A request is malformed or too large; ``status`` is for the response, which ends the connection."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


class HttpConnection:
    """Requests one after the other, each with a response. One request is in memory, with bounds for head and body."""

    def __init__(self, sock: socket.socket, *, max_head_bytes: int, max_body_bytes: int) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._max_body_bytes = max_body_bytes
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=max_head_bytes)
        self._is_head = False

    async def next_request(self) -> HttpRequest | None:
        """Read a request; None: the client has closed the connection. Raises BadRequest, OSError."""
        try:
            head = await self._next_event()
            if not isinstance(head, h11.Request):
                return None
            self._is_head = head.method == b"HEAD"
            body = bytearray()
            while isinstance(event := await self._next_event(), h11.Data):
                body += event.data
                if len(body) > self._max_body_bytes:
                    problem = f"the body has more than {self._max_body_bytes} bytes"
                    raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, str(error)) from error
        if not isinstance(event, h11.EndOfMessage):
            return None
        return HttpRequest(
            method=head.method.decode(), target=head.target.decode(), headers=dict(head.headers), body=bytes(body)
        )

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes = b"", *, close: bool = False) -> bool:
        """Send a response; whether the connection can have another request. HEAD gets no body. Raises OSError."""
        if self._http.our_state not in _CAN_RESPOND:
            return False
        lines = [*headers.items(), ("Content-Length", str(len(body)))]
        if close:
            lines.append(("Connection", "close"))
        response = h11.Response(status_code=status, reason=HTTPStatus(status).phrase, headers=lines)
        await self._send(response, h11.Data(data=b"" if self._is_head else body), h11.EndOfMessage())
        if set(self._http.states.values()) != {h11.DONE}:
            return False
        self._http.start_next_cycle()
        return True

    async def finish(self) -> None:
        """End the sending side, and read until the client has closed, for 10 seconds at most. Raises OSError.

        Closing a socket with unread bytes resets the connection, and the client may lose the response.
        """
        self._socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                while await self._loop.sock_recv(self._socket, _READ_BYTES):
                    pass

    async def _next_event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[]))
            self._http.receive_data(await self._loop.sock_recv(self._socket, _READ_BYTES))
        return event

    async def _send(self, *events: Any) -> None:
        data = b"".join(self._http.send(event) or b"" for event in events)
        await self._loop.sock_sendall(self._socket, data)
