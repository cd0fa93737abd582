"""Authentication in front of the handlers: requests before a login are refused, and failures answered with a delay."""

import inspect
from collections.abc import Awaitable
from typing import TypeAlias

from broker_embedded.handlers.support.registry import CloseConnection
from broker_embedded.handlers.support.request_cost import Throttle
from broker_embedded.replica.delayed import DelayedOperations
from broker_embedded.security.mechanisms import SaslRefused
from broker_embedded.security.session import Session
from broker_embedded.server.connection import Answer, Serve
from spark_kafka_native.protocol.errors import RemoteProtocolError

Answered: TypeAlias = Answer | Awaitable[Answer]


class Gate:
    """The ``serve`` function of a connection with SASL."""

    __slots__ = ("_delay_ms", "_delayed", "_serve", "_session")

    def __init__(self, session: Session, serve: Serve, delayed: DelayedOperations, delay_ms: int) -> None:
        """``serve`` has the same session. A failed login is answered after ``delay_ms``."""
        self._session = session
        self._serve = serve
        self._delayed = delayed
        self._delay_ms = delay_ms

    def __call__(self, frame: memoryview, throttle: Throttle) -> Answered:
        """Answer a request, or a bare message of the mechanism."""
        session = self._session
        if session.is_open:
            answer = self._serve(frame, throttle)
            return answer if session.failure is None else self._finish(answer)
        try:
            answer = self._take(frame) if session.expects_bare_token else self._serve(frame, throttle)
        except (CloseConnection, RemoteProtocolError) as error:
            return self._close(str(error), None)
        return self._finish(answer) if inspect.isawaitable(answer) or session.failure is not None else answer

    def _take(self, token: memoryview) -> Answer:
        try:
            answer = self._session.take(bytes(token))
        except SaslRefused as refused:  # no response, because the client would take it for a message of the mechanism
            raise CloseConnection(f"it did not log in: {refused}") from refused
        return [len(answer).to_bytes(4), answer]

    async def _finish(self, answer: Answered) -> Answer:
        try:
            frame = await answer if inspect.isawaitable(answer) else answer
        except (CloseConnection, RemoteProtocolError) as error:
            return await self._close(str(error), None)
        if self._session.failure is not None:
            return await self._close(self._session.failure, frame)
        return frame

    async def _close(self, reason: str, answer: Answer) -> Answer:
        await self._delayed.pause(self._delay_ms)
        raise CloseConnection(reason, answer)
