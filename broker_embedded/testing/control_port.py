"""The commands of `broker_embedded.testing.control` over HTTP/1.1 on the broker's own event loop, for any language.

A body is JSON, or there is none; answers are JSON with a line's end. Whoever reaches the port can stop the broker and
read what clients have sent, so that it is opened on loopback addresses only, unless that is asked for in so many words,
and web pages are kept out: a request must be addressed to an IP address or to localhost, and must not have an Origin.
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from broker_embedded.config.addresses import Endpoint, spell_address
from broker_embedded.server.listener import Listener
from broker_embedded.testing.control import BAD_REQUEST, Answer, Control
from broker_embedded.testing.control_address import ControlAddress

logger = logging.getLogger(__name__)

_BACKLOG: Final = 50
_FORBIDDEN: Final = 403
_TOO_LARGE: Final = 413
_MOST_BODY_BYTES: Final = 1024 * 1024
_MOST_HEAD_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024
_NUMBERS: Final = {"after", "most"}
"""Fields of queries that are numbers."""


class ControlPort:
    """The port, opened by ``open``."""

    def __init__(self, control: Control, wanted: ControlAddress) -> None:
        """Nothing is open yet."""
        self.address = wanted
        self._control = control
        self._listener: Listener | None = None
        self._conversations: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Listen; ``address`` then has the port that was bound. Raises ListenError: the address cannot be had."""
        endpoint = Endpoint(name="CONTROL", host=self.address.host, port=self.address.port)
        self._listener = Listener(endpoint, _BACKLOG)
        self.address = ControlAddress(host=self.address.host, port=self._listener.port)
        self._listener.start(self._accept)

    @property
    def url(self) -> str:
        """``http://host:port``."""
        return f"http://{spell_address(self.address.host, self.address.port)}"

    async def close(self) -> None:
        """Stop listening; a command that is at work is not answered."""
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
        try:
            await _Conversation(self._control, sock).hold()
        except OSError as error:
            logger.debug("the connection of %s to the control port is broken: %s", peer, error)


class _Conversation:
    """One connection, from its first request to its last."""

    def __init__(self, control: Control, sock: socket.socket) -> None:
        self._control = control
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEAD_BYTES)

    async def hold(self) -> None:
        """Answer requests until one side has had enough."""
        while True:
            try:
                answer = await self._next_answer()
            except h11.RemoteProtocolError as error:
                if self._http.our_state is not h11.SEND_RESPONSE and self._http.our_state is not h11.IDLE:
                    return
                await self._say(Answer(status=error.error_status_hint, body={"problem": str(error)}), last=True)
                return
            if answer is None:
                return
            await self._say(answer)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _next_answer(self) -> Answer | None:
        """Read a request and do it; None at the end of the connection."""
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return None
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            if len(body) > _MOST_BODY_BYTES:
                return Answer(status=_TOO_LARGE, body={"problem": f"the body has more than {_MOST_BODY_BYTES} bytes"})
        if not isinstance(event, h11.EndOfMessage):
            return None
        problem = _stranger(dict(head.headers))
        if problem is not None:
            return Answer(status=_FORBIDDEN, body={"problem": problem})
        return await self._do(head.method.decode(), head.target.decode(), bytes(body))

    async def _do(self, method: str, target: str, body: bytes) -> Answer:
        try:
            parts = urlsplit(target)
            fields = _fields_of_body(body) if body else _fields_of_query(parts.query)
        except ValueError as error:
            return Answer(status=BAD_REQUEST, body={"problem": str(error)})
        return await self._control.do(method, unquote(parts.path), fields)

    async def _next_event(self) -> Any:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(await self._loop.sock_recv(self._socket, _READ_BYTES))

    async def _say(self, answer: Answer, *, last: bool = False) -> None:
        body = json.dumps(answer.body).encode() + b"\n"
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        if last:
            headers.append(("connection", "close"))
        response = h11.Response(status_code=answer.status, headers=headers)
        await self._send(response, h11.Data(data=body), h11.EndOfMessage())

    async def _send(self, *events: Any) -> None:
        data = b"".join(self._http.send(event) or b"" for event in events)
        await self._loop.sock_sendall(self._socket, data)


def _stranger(headers: Mapping[bytes, bytes]) -> str | None:
    """Why a request is from a web page, or as good as one; None if it is not."""
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
        raise ValueError(f"the body is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("the body is JSON, but not an object")
    return fields


def _fields_of_query(query: str) -> dict[str, Any]:
    found: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    for name in _NUMBERS & found.keys():
        with contextlib.suppress(ValueError):  # it is told that it is no number
            found[name] = int(found[name])
    return found
