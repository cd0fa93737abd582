"""The registry of APIs: the handler and the versions of each, and the versions that a release offers."""

import functools
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias, TypeVar

from broker_embedded._config.releases import release
from broker_embedded._handlers.support.request_cost import RequestCost
from broker_embedded._metadata.image import BrokerNode
from broker_embedded._platform.record_threads import ClientPresence
from broker_embedded._security.session import NO_SASL, Session
from spark_kafka_native._protocol.schema import Request, Response, VersionRange
from spark_kafka_native._protocol.wire import Chunk

_PACKAGE: Final = "broker_embedded._handlers"
_MAX_INFO_CHARS: Final = 100


class CloseConnection(Exception):
    """Close the connection of the request, as Kafka does if no response is possible. ``str()`` is the reason.

    ``response`` is a frame to send before, or None.
    """

    def __init__(self, reason: str, response: list[Chunk] | None = None) -> None:
        super().__init__(reason)
        self.response = response


class MissingComponent(Exception):
    """A handler needs a component that the broker does not have; ``str()`` names the module and the parameter."""


@dataclass(slots=True)
class ClientInfo:
    """The description of a connection's client in its last ApiVersions request (KIP-511), each at most 100 characters.

    Empty before the request. Versions before 3 have no name and version of the software.
    """

    client_id: str = ""
    software_name: str = ""
    software_version: str = ""

    def use(self, client_id: str, software_name: str, software_version: str) -> None:
        """Set the description."""
        self.client_id = client_id[:_MAX_INFO_CHARS]
        self.software_name = software_name[:_MAX_INFO_CHARS]
        self.software_version = software_version[:_MAX_INFO_CHARS]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The version, the client and the connection of a request.

    ``node`` is this broker with the address of the request's listener. ``cost`` has the time and the throttle time
    of the request. ``client_host`` is the client's address, in Java's format. ``session`` has the client's user,
    ``presence`` whether the client is still connected. ``client`` is for the status page.
    """

    version: int
    client_id: str
    node: BrokerNode
    cost: RequestCost = field(default_factory=RequestCost)
    client_host: str = ""
    session: Session = NO_SASL
    presence: ClientPresence = field(default_factory=ClientPresence)
    client: ClientInfo = field(default_factory=ClientInfo)

    @property
    def user(self) -> str:
        """The client's user; ``ANONYMOUS`` on a listener without SASL."""
        return self.session.user


Result: TypeAlias = Response | Awaitable[Response | None] | None
"""A handler that never waits returns the response itself. None sends no response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One served API. ``advertised`` is the range in ApiVersions, which may begin before ``served``.

    ``handler`` is called with the request and its context. Until `bind` it also needs ``components``: the type of each
    further parameter.
    """

    request: type[Request[Any]]
    served: VersionRange
    advertised: VersionRange
    handler: Callable[..., Result]
    components: Mapping[str, type]

    @classmethod
    def of(cls, request: type[Request[Any]], versions: str, handler: Callable[..., Result]) -> Self:
        """The API that a function handles in these versions. Its parameters after the second are components."""
        served = VersionRange.parse(versions)
        hints = typing.get_type_hints(handler)
        components = {name: hints[name] for name in list(inspect.signature(handler).parameters)[2:]}
        return cls(request=request, served=served, advertised=served, handler=handler, components=components)

    def bind(self, components: Mapping[type, object]) -> Self:
        """The API with the components that its handler needs, from all components by type. Raises MissingComponent."""
        bound = {}
        for parameter, wanted in self.components.items():
            if wanted not in components:
                problem = f"no component of the broker has the type {wanted} of the parameter {parameter}"
                raise MissingComponent(f"{self.handler.__module__}: {problem}")
            bound[parameter] = components[wanted]
        return replace(self, handler=functools.partial(self.handler, **bound), components={}) if bound else self


_APIS: Final[dict[int, Api]] = {}
HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])


def handles(request: type[Request[Any]], versions: str) -> Callable[[HandlerT], HandlerT]:
    """Make a function the handler of an API, in these versions."""

    def register(handler: HandlerT) -> HandlerT:
        assert request.api_key not in _APIS, f"{request.api_name} has two handlers"
        _APIS[request.api_key] = Api.of(request, versions, handler)
        return handler

    return register


@functools.cache
def registered_apis() -> Mapping[int, Api]:
    """Every served API by key, in all versions. Imports every module of `broker_embedded._handlers`."""
    package = importlib.import_module(_PACKAGE)
    for module in pkgutil.iter_modules(package.__path__, f"{_PACKAGE}."):
        if not module.ispkg:
            importlib.import_module(module.name)
    return MappingProxyType(_APIS)


@functools.cache
def apis_of(name: str) -> Mapping[int, Api]:
    """The APIs of a release of Kafka that this broker serves, by key."""
    known = release(name)
    return MappingProxyType(
        {
            key: replace(api, served=known.served(key).within(api.served), advertised=known.offered[key])
            for key, api in sorted(registered_apis().items())
            if key in known.offered
        }
    )
