"""The HTTP port of a broker for tests, on which the commands of `control.commands` are executed.

Bodies are JSON or empty; responses are JSON and a line break. Clients of the port can stop the broker and read requests
of other clients. It therefore listens on loopback addresses only, unless remote access is allowed explicitly, and web
pages are refused: a request must be addressed to an IP address or localhost, and must not have an Origin.
"""

import asyncio
import contextlib
import json
import logging
import socket
from http import HTTPStatus
from typing import Any, Final

from broker_embedded._config.addresses import Endpoint, format_address
from broker_embedded._server.http import BadRequest, HttpConnection, HttpRequest
from broker_embedded._server.listener import Listener
from broker_embedded._testing.control.address import LISTENER_OPTION, ControlAddress
from broker_embedded._testing.control.commands import BAD_REQUEST, Control, ControlResponse

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
        problem = request.web_page_problem()
        if problem is not None:
            return ControlResponse(status=HTTPStatus.FORBIDDEN, body={"problem": problem})
        try:
            path, fields = request.path, _fields(request)
        except ValueError as error:
            return ControlResponse(status=BAD_REQUEST, body={"problem": str(error)})
        return await self._control.do(request.method, path, fields)


def _fields(request: HttpRequest) -> dict[str, Any]:
    """The fields of a request; numbers of a query are text. Raises ValueError."""
    fields = request.fields()
    if not request.body:
        for name in _NUMBERS & fields.keys():
            with contextlib.suppress(ValueError):  # the check of the field reports that it is no number
                fields[name] = int(fields[name])
    return fields
