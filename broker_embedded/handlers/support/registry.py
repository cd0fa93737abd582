"""Which function answers which API, in which versions: what the code can, and what of it a release offers."""

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from broker_embedded.config.releases import release
from broker_embedded.handlers.support.throttling import Throttle
from broker_embedded.metadata.image import BrokerNode
from broker_embedded.platform.record_threads import ClientPresence
from broker_embedded.security.session import NO_SASL, Session
from spark_kafka_native.protocol.schema import Request, Response, VersionRange
from spark_kafka_native.protocol.wire import Chunk

if TYPE_CHECKING:
    from broker_embedded.broker import Broker


class CloseConnection(Exception):
    """Close the connection that the request came by, as Kafka does where no answer is possible; ``str()`` is why.

    ``answer`` is a frame to send before, if there is one.
    """

    def __init__(self, reason: str, answer: list[Chunk] | None = None) -> None:
        super().__init__(reason)
        self.answer = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """What surrounds a request: the broker, the version it came in, and what the client calls itself.

    ``node`` is this broker as clients of the listener that the request came by reach it. ``throttle`` is what the
    request costs its client. ``client_host`` is the client's address, as Java writes addresses. ``session`` knows who
    the client is, ``presence`` whether it is still there.
    """

    broker: "Broker"
    version: int
    client_id: str
    node: BrokerNode
    throttle: Throttle = field(default_factory=Throttle)
    client_host: str = ""
    session: Session = NO_SASL
    presence: ClientPresence = field(default_factory=ClientPresence)

    @property
    def user(self) -> str:
        """Who the client is; ``ANONYMOUS`` on a listener without SASL."""
        return self.session.user


Handler: TypeAlias = Callable[[Any, RequestContext], Response | Awaitable[Response | None] | None]
"""Answers a request. One that never has to wait returns the answer itself; None sends nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One served API. ``advertised`` is what ApiVersions says, which a release may let start before ``served``."""

    request: type[Request[Any]]
    served: VersionRange
    advertised: VersionRange
    handler: Handler


APIS: Final[dict[int, Api]] = {}
"""Every served API by key, in all versions; filled as `broker_embedded.handlers` is imported."""

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])


def handles(request: type[Request[Any]], versions: str) -> Callable[[HandlerT], HandlerT]:
    """Make a function the handler of an API, in these versions."""

    def register(handler: HandlerT) -> HandlerT:
        served = VersionRange.parse(versions)
        APIS[request.api_key] = Api(request=request, served=served, advertised=served, handler=handler)
        return handler

    return register


@functools.cache
def apis_of(name: str) -> Mapping[int, Api]:
    """What a broker serves that passes for a release of Kafka, by key. Call it once all handlers are there."""
    known = release(name)
    return MappingProxyType(
        {
            key: replace(api, served=known.served(key).within(api.served), advertised=known.offered[key])
            for key, api in sorted(APIS.items())
            if key in known.offered
        }
    )
