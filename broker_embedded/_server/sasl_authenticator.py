"""Authentication in front of the handlers: requests before a login are refused, and failures answered with a delay."""

import inspect
from collections.abc import Awaitable
from typing import TypeAlias

from broker_embedded._handlers.support.registry import CloseConnection
from broker_embedded._handlers.support.request_cost import RequestCost
from broker_embedded._replica.delayed import DelayedOperations
from broker_embedded._security.mechanisms import SaslRefused
from broker_embedded._security.session import Session
from broker_embedded._server.connection import ResponseFrame, Serve
from spark_kafka_native._protocol.errors import RemoteProtocolError

Answered: TypeAlias = ResponseFrame | Awaitable[ResponseFrame]


class SaslAuthenticator:
    """The ``serve`` function of a connection with SASL."""

    __slots__ = ("_delay_ms", "_delayed", "_serve", "_session")

    def __init__(self, session: Session, serve: Serve, delayed: DelayedOperations, delay_ms: int) -> None:
        """``serve`` has the same session. A failed login is answered after ``delay_ms``."""
        self._session = session
        self._serve = serve
        self._delayed = delayed
        self._delay_ms = delay_ms

    def __call__(self, frame: memoryview, cost: RequestCost) -> Answered:
        """Answer a request, or a bare message of the mechanism."""
        session = self._session
        if session.is_open:
            response = self._serve(frame, cost)
            return response if session.failure is None else self._finish(response)
        try:
            response = self._take(frame) if session.expects_bare_token else self._serve(frame, cost)
        except (CloseConnection, RemoteProtocolError) as error:
            return self._close(str(error), None)
        return self._finish(response) if inspect.isawaitable(response) or session.failure is not None else response

    def _take(self, token: memoryview) -> ResponseFrame:
        try:
            response = self._session.take(bytes(token))
        except SaslRefused as refused:  # no response, because the client would take it for a message of the mechanism
            raise CloseConnection(f"it did not log in: {refused}") from refused
        return [len(response).to_bytes(4), response]

    async def _finish(self, response: Answered) -> ResponseFrame:
        try:
            frame = await response if inspect.isawaitable(response) else response
        except (CloseConnection, RemoteProtocolError) as error:
            return await self._close(str(error), None)
        if self._session.failure is not None:
            return await self._close(self._session.failure, frame)
        return frame

    async def _close(self, reason: str, response: ResponseFrame) -> ResponseFrame:
        await self._delayed.pause(self._delay_ms)
        raise CloseConnection(reason, response)
