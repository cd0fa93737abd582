"""Between a connection with SASL and the handlers: who has not logged in gets no further, and is slow to hear so."""

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
    """Takes the place of ``serve`` for a connection whose client logs in."""

    __slots__ = ("_delay_ms", "_delayed", "_serve", "_session")

    def __init__(self, session: Session, serve: Serve, delayed: DelayedOperations, delay_ms: int) -> None:
        """``serve`` goes by the same session. A client that is not let in waits ``delay_ms`` to be told."""
        self._session = session
        self._serve = serve
        self._delayed = delayed
        self._delay_ms = delay_ms

    def __call__(self, frame: memoryview, throttle: Throttle) -> Answered:
        """Answer a request, or a message of the mechanism that comes without one."""
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
        except SaslRefused as refused:  # brokers say nothing here: the client would take it for a message
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
