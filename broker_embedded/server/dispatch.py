"""From a request's bytes to its handler, and from the answer to bytes; what that took is counted on the way."""

import dataclasses
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, cast

from broker_embedded.broker import Broker
from broker_embedded.handlers import CloseConnection, RequestContext
from broker_embedded.handlers.api_versions import unsupported_version
from broker_embedded.handlers.support.registry import Api, apis_of
from broker_embedded.handlers.support.throttling import Throttle, charge_time
from broker_embedded.metadata.image import BrokerNode
from broker_embedded.platform.cancellation import WorkCancelled
from broker_embedded.platform.record_threads import ClientPresence
from broker_embedded.security.session import NO_SASL, Session
from spark_kafka_native.protocol.codec import decode_from
from spark_kafka_native.protocol.framing import RequestHeader, decode_request_header, response_frame
from spark_kafka_native.protocol.schema import Request, Response
from spark_kafka_native.protocol.wire import Chunk

_PRODUCE: Final = 0
_API_VERSIONS: Final = 18

Frame: TypeAlias = list[Chunk] | None
"""A response frame, or None for no response."""
Intercept: TypeAlias = Callable[
    [Api, Request[Any], RequestContext, memoryview], Response | Awaitable[Response | None] | None
]
"""Answers a request, of which it also gets the frame, as the API's handler does, or in another way."""


def serve(
    frame: memoryview,
    *,
    broker: Broker,
    node: BrokerNode,
    throttle: Throttle | None = None,
    client_host: str = "",
    session: Session = NO_SASL,
    presence: ClientPresence | None = None,
    intercept: Intercept | None = None,
) -> Frame | Awaitable[Frame]:
    """Answer one request frame (without its size), at once or later.

    ``intercept`` takes the request in place of its handler. ``throttle`` is the connection's: when the answer is there
    it says how long the next request has to wait. ``presence`` is the connection's, too.

    Raises CloseConnection: the session does not allow it, the API or its version is not served, or its work was
    cancelled. RemoteProtocolError: the bytes are not the request.
    """
    begun_ns = time.perf_counter_ns()
    throttle = throttle or Throttle()
    throttle.begin()
    header = decode_request_header(frame)
    reason = session.refusal(header.api_key)
    if reason is not None:
        raise CloseConnection(reason)
    release = broker.config.release
    api = apis_of(release.name).get(header.api_key)
    if api is None:
        raise CloseConnection(f"it asked for the unknown API key {header.api_key}")
    if header.api_version not in api.served:
        if header.api_key == _API_VERSIONS:
            return response_frame(unsupported_version(release), 0, header.correlation_id)
        raise CloseConnection(
            f"it asked for {api.request.api_name} in version {header.api_version}; versions {api.served} are served"
        )
    context = RequestContext(
        broker=broker,
        version=header.api_version,
        client_id=header.client_id or "",
        node=node,
        throttle=throttle,
        client_host=client_host,
        session=session,
        presence=presence or ClientPresence(),
    )
    # Bytes behind the request are ignored, as by Apache Kafka: librdkafka sends some after Metadata v13.
    request, _ = decode_from(api.request, header.body, 0, header.api_version)
    exchange = _Exchange(context, header, api.request.api_name, len(frame), begun_ns)
    answer = api.handler(request, context) if intercept is None else intercept(api, request, context, frame)
    if inspect.isawaitable(answer):
        return exchange.finish_later(answer)
    return exchange.finish(answer)


def _with_throttle_time(answer: Response, wait_ms: int) -> Response:
    """Every answer has the field, though not in every version."""
    changed: Response = dataclasses.replace(cast("Any", answer), throttle_time_ms=wait_ms)
    return changed


class _Exchange:
    """A request that was understood, on its way to an answer."""

    __slots__ = ("_begun_ns", "_context", "_header", "_name", "_size")

    def __init__(self, context: RequestContext, header: RequestHeader, name: str, size: int, begun_ns: int) -> None:
        self._context = context
        self._header = header
        self._name = name
        self._size = size
        self._begun_ns = begun_ns

    async def finish_later(self, work: Awaitable[Response | None]) -> Frame:
        """The frame of an answer that is not there yet."""
        context = self._context
        if context.broker.quotas.request.enabled:
            work = context.throttle.measured(work)
        try:
            answer = await work
        except WorkCancelled as cancelled:
            raise CloseConnection(f"{self._name} was cancelled: {cancelled}") from cancelled
        done = self.finish(answer)
        return await done if inspect.isawaitable(done) else done

    def finish(self, answer: Response | None) -> Frame | Awaitable[Frame]:
        """The frame of an answer, with the silence that it asks of the client."""
        if self._header.api_key == _PRODUCE:
            self._charge_bytes()
        wait_ms = charge_time(self._context) if answer is not None else self._context.throttle.wait_ms
        if wait_ms:
            if answer is not None:
                answer = _with_throttle_time(answer, wait_ms)
            if not self._context.broker.config.release.answers_before_it_throttles:
                return self._hold_back(answer, wait_ms)
        return self._frame(answer)

    def _charge_bytes(self) -> None:
        """Count the whole request against its client's producer_byte_rate."""
        context, quota = self._context, self._context.broker.quotas.produce
        if quota.enabled:
            now_ms = context.broker.timers.elapsed_ms()
            context.throttle.at_least(quota.record(context.user, context.client_id, self._size, now_ms))

    async def _hold_back(self, answer: Response | None, wait_ms: int) -> Frame:
        self._context.throttle.wait_ms = 0
        await self._context.broker.delayed.pause(wait_ms)
        return self._frame(answer)

    def _frame(self, answer: Response | None) -> Frame:
        header = self._header
        chunks = None if answer is None else response_frame(answer, header.api_version, header.correlation_id)
        self._context.broker.traffic.answered(
            header.api_key,
            self._name,
            header.api_version,
            bytes_in=self._size,
            bytes_out=sum(map(len, chunks)) if chunks else 0,
            ns=time.perf_counter_ns() - self._begun_ns,
            answer=answer,
        )
        return chunks
