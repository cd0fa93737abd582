"""Decode requests, call their handlers, encode the responses, and count both."""

import dataclasses
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from broker_embedded._broker import Broker
from broker_embedded._handlers.api_versions import unsupported_version
from broker_embedded._handlers.support.quota_charges import charge_time
from broker_embedded._handlers.support.registry import Api, ClientInfo, CloseConnection, RequestContext, Result, apis_of
from broker_embedded._handlers.support.request_cost import RequestCost
from broker_embedded._metadata.image import BrokerNode
from broker_embedded._platform.cancellation import WorkCancelled
from broker_embedded._platform.record_threads import ClientPresence
from broker_embedded._security.session import NO_SASL, Session
from spark_kafka_native._protocol.codec import decode_from
from spark_kafka_native._protocol.framing import decode_request_header, response_frame
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.wire import Chunk

_PRODUCE: Final = 0
_API_VERSIONS: Final = 18

Frame: TypeAlias = list[Chunk] | None
"""A response frame, or None for no response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The client at the other end of a connection to ``listener``; the other fields are those of `RequestContext`."""

    node: BrokerNode
    listener: str = ""
    client_host: str = ""
    session: Session = NO_SASL
    presence: ClientPresence = field(default_factory=ClientPresence)
    client: ClientInfo = field(default_factory=ClientInfo)


@dataclass(slots=True)
class Call:
    """A decoded request and the API that it calls. ``frame`` has the request's bytes."""

    api: Api
    version: int
    request: Request[Any]
    context: RequestContext
    frame: memoryview
    correlation_id: int
    begun_ns: int


Intercept: TypeAlias = Callable[[Call], Result]
"""Answers a call instead of the API's handler."""


class Dispatcher:
    """The served APIs with the components that they need. Belongs to the broker's event loop."""

    def __init__(self, broker: Broker, intercept: Intercept | None = None) -> None:
        """``intercept`` is called for every request instead of its handler.

        Raises MissingComponent: a handler needs a component that the broker does not have.
        """
        components = broker.components()
        self._release = broker.config.release
        self._apis = {key: api.bind(components) for key, api in apis_of(self._release.name).items()}
        self._intercept = intercept
        self._traffic = broker.traffic
        self._quotas = broker.quotas
        self._timers = broker.timers
        self._delayed = broker.delayed

    def serve(self, peer: Peer, frame: memoryview, cost: RequestCost) -> Frame | Awaitable[Frame]:
        """Answer one request frame (without its size), at once or later.

        ``cost`` is the connection's. It has the throttle time after the response.

        Raises CloseConnection: the session does not allow it, the API or its version is not served, or its work was
        cancelled. RemoteProtocolError: the request cannot be decoded.
        """
        begun_ns = time.perf_counter_ns()
        cost.begin()
        header = decode_request_header(frame)
        version = header.api_version
        reason = peer.session.refusal(header.api_key)
        if reason is not None:
            raise CloseConnection(reason)
        api = self._apis.get(header.api_key)
        if api is None:
            raise CloseConnection(f"it sent a request with the unknown API key {header.api_key}")
        if version not in api.served:
            if header.api_key == _API_VERSIONS:
                return response_frame(unsupported_version(self._release), 0, header.correlation_id)
            raise CloseConnection(f"it sent {api.request.api_name} v{version}, but versions {api.served} are served")
        context = RequestContext(
            version=version,
            client_id=header.client_id or "",
            node=peer.node,
            cost=cost,
            client_host=peer.client_host,
            session=peer.session,
            presence=peer.presence,
            client=peer.client,
        )
        # Bytes after the request are ignored, as by Apache Kafka: librdkafka sends some after Metadata v13.
        request, _ = decode_from(api.request, header.body, 0, version)
        return self.run(Call(api, version, request, context, frame, header.correlation_id, begun_ns))

    def run(self, call: Call) -> Frame | Awaitable[Frame]:
        """Process a call, and count it. Raises CloseConnection."""
        intercept = self._intercept
        response = call.api.handler(call.request, call.context) if intercept is None else intercept(call)
        if response is None or isinstance(response, Response):
            return self._finish(call, response)
        return self._finish_later(call, response)

    async def _finish_later(self, call: Call, work: Awaitable[Response | None]) -> Frame:
        """The frame of a response that is awaited."""
        if self._quotas.request.enabled:
            work = call.context.cost.measured(work)
        try:
            response = await work
        except WorkCancelled as cancelled:
            raise CloseConnection(f"{call.api.request.api_name} was cancelled: {cancelled}") from cancelled
        done = self._finish(call, response)
        return done if done is None or isinstance(done, list) else await done

    def _finish(self, call: Call, response: Response | None) -> Frame | Awaitable[Frame]:
        """The frame of a response, with its throttle time."""
        cost = call.context.cost
        if call.api.request.api_key == _PRODUCE:
            self._charge_bytes(call)
        wait_ms = charge_time(call.context, self._quotas, self._timers) if response is not None else cost.wait_ms
        if wait_ms:
            if response is not None:
                response = _with_throttle_time(response, wait_ms)
            if not self._release.answers_before_it_throttles:
                return self._hold_back(call, response, wait_ms)
        return self._frame(call, response)

    def _charge_bytes(self, call: Call) -> None:
        """Charge the request to its client's producer_byte_rate."""
        context, quota = call.context, self._quotas.produce
        if quota.enabled:
            now_ms = self._timers.elapsed_ms()
            context.cost.throttle(quota.record(context.user, context.client_id, len(call.frame), now_ms))

    async def _hold_back(self, call: Call, response: Response | None, wait_ms: int) -> Frame:
        call.context.cost.wait_ms = 0
        await self._delayed.pause(wait_ms)
        return self._frame(call, response)

    def _frame(self, call: Call, response: Response | None) -> Frame:
        chunks = None if response is None else response_frame(response, call.version, call.correlation_id)
        self._traffic.answered(
            call.api.request.api_key,
            call.api.request.api_name,
            call.version,
            bytes_in=len(call.frame),
            bytes_out=sum(map(len, chunks)) if chunks else 0,
            ns=time.perf_counter_ns() - call.begun_ns,
            response=response,
        )
        return chunks


def _with_throttle_time(response: Response, wait_ms: int) -> Response:
    """Set throttle_time_ms, which every response has, though not in every version."""
    changed: Response = dataclasses.replace(cast("Any", response), throttle_time_ms=wait_ms)
    return changed
