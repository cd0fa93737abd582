"""Kafka brokers that fail exactly when and how a test says.

    with ScriptedCluster(brokers=2, topics={"t": 1}) as cluster:
        cluster.script(ProduceRequest, Drop(applied=True), Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        ...

The first Produce request is carried out and its connection closed without a response, the second is refused, all others
are answered as a broker would. What was received is in ``cluster.received``. The brokers' stores are in memory, in
``cluster.state``; see `FakeState`. Every connection has a thread, all ended by ``close``.
"""

import contextlib
import dataclasses
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Self, cast

from broker_embedded._testing.refusals import refusal
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._protocol.codec import decode
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.framing import decode_request_header, response_frame
from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from spark_kafka_native._protocol.messages.fetch import FetchRequest, FetchResponse
from spark_kafka_native._protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.wire import FileRegion
from tests.support.scripted.partitions import FakePartition, FakeState
from tests.support.scripted.responses import respond
from tests.support.scripted.security import Guard, Session
from tests.support.scripted.steps import (
    Drop,
    HalfFrame,
    Held,
    Pass,
    Raw,
    Refuse,
    Respond,
    Silent,
    Slow,
    Step,
    Throttle,
    Together,
    WrongCorrelation,
)

Versions = Mapping[int, tuple[int, int]]

KAFKA_0_11: Final[Versions] = {
    0: (0, 3), 1: (0, 5), 2: (0, 2), 3: (0, 4), 8: (0, 3), 9: (0, 3), 10: (0, 1), 18: (0, 1), 19: (0, 2), 20: (0, 1),
    22: (0, 0), 24: (0, 0), 25: (0, 0), 26: (0, 0), 28: (0, 0),
}  # fmt: skip
KAFKA_2_1: Final[Versions] = {
    0: (0, 7), 1: (0, 10), 2: (0, 4), 3: (0, 7), 8: (0, 6), 9: (0, 5), 10: (0, 2), 18: (0, 2), 19: (0, 3), 20: (0, 3),
    22: (0, 1), 24: (0, 1), 25: (0, 1), 26: (0, 1), 28: (0, 2), 37: (0, 1),
}  # fmt: skip
KAFKA_2_3: Final[Versions] = {
    0: (0, 7), 1: (0, 11), 2: (0, 5), 3: (0, 8), 8: (0, 7), 9: (0, 5), 10: (0, 2), 18: (0, 2), 19: (0, 3), 20: (0, 3),
    22: (0, 1), 23: (0, 3), 37: (0, 1),
}  # fmt: skip
KAFKA_4_3: Final[Versions] = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 18: (0, 4), 19: (2, 7),
    20: (1, 6), 22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 28: (0, 5), 37: (0, 3), 61: (0, 0),
    65: (0, 0), 66: (0, 2), 75: (0, 0),
}  # fmt: skip
"""What brokers of these releases answer to ApiVersions, for the APIs that the client uses."""


class ScriptedCluster:
    """``brokers`` brokers, numbered from 1, with ``topics`` of so many partitions each."""

    def __init__(
        self,
        *,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        versions: Versions = KAFKA_4_3,
        topic_ids: bool = True,
        auto_create: int = 0,
        kip_511: bool = True,
        guard: Guard | None = None,
        transaction_version: int = 0,
    ) -> None:
        self.state = FakeState(brokers, topic_ids=topic_ids, auto_create=auto_create)
        self.state.transactions.level = transaction_version
        for name, partitions in (topics or {}).items():
            self.state.create(name, partitions)
        self.versions = {**versions, **(guard.versions if guard else {})}
        self.guard = guard
        self.kip_511 = kip_511
        """Whether an ApiVersions request that is too new is answered with the range that is understood."""
        self.received: list[tuple[int, Request[Any], int]] = []
        """Broker, request, version."""
        self.received_at: list[float] = []
        """When each of them came, in seconds of ``time.monotonic()``."""
        self._scripts: dict[type[Request[Any]], deque[tuple[int | None, Step]]] = {}
        self.brokers = {number: ScriptedBroker(self, number) for number in range(1, brokers + 1)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all brokers."""
        for broker in self.brokers.values():
            broker.close()

    @property
    def bootstrap_servers(self) -> str:
        """All brokers' addresses."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    @property
    def ports(self) -> dict[int, int]:
        """Ports of the brokers that the cluster's metadata names: those that run."""
        return {number: broker.port for number, broker in self.brokers.items() if broker.is_listed}

    def config(self, **options: object) -> ClientConfig:
        """A configuration for this cluster with short pauses; ``acks=1, linger_ms=0`` and so on."""
        named = {name.replace("_", "."): value for name, value in options.items()}
        defaults = {
            "bootstrap.servers": self.bootstrap_servers,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 10,
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 10,
            "fetch.max.wait.ms": 20,
            "default.api.timeout.ms": 60_000,
        }
        return ClientConfig.parse({**defaults, **named}, option_prefix="kafka.")

    def script(self, request: type[Request[Any]], *steps: Step, broker: int | None = None) -> None:
        """What happens to the next requests of a kind, one step each, at any broker or at one."""
        with self.state.lock:
            self._scripts.setdefault(request, deque()).extend((broker, step) for step in steps)

    def next_step(self, request: type[Request[Any]], broker: int) -> Step:
        """The step for a request that ``broker`` has received."""
        with self.state.lock:
            steps = self._scripts.get(request, deque())
            for index, (wanted, step) in enumerate(steps):
                if wanted in {None, broker}:
                    del steps[index]
                    return step
            return Pass()

    def partition(self, topic: str, number: int = 0) -> FakePartition:
        """A partition's store."""
        return self.state.topics[topic].partitions[number]

    def values(self, topic: str = "t") -> list[list[Any]]:
        """The values of each partition's records, in order."""
        return [partition.values() for partition in self.state.topics[topic].partitions.values()]

    def move_leader(self, topic: str, number: int, to: int) -> None:
        """Make another broker the leader, in a new epoch."""
        with self.state.lock:
            partition = self.partition(topic, number)
            partition.leader, partition.leader_epoch = to, partition.leader_epoch + 1

    def requests(self, kind: type[Request[Any]]) -> list[Any]:
        """The requests of a kind that were received, in order."""
        return [request for _, request, _ in self.received if isinstance(request, kind)]

    def nodes(self, kind: type[Request[Any]]) -> list[int]:
        """The brokers that received the requests of a kind, in order."""
        return [node for node, request, _ in self.received if isinstance(request, kind)]


class ScriptedBroker:
    """One broker of a ``ScriptedCluster``."""

    def __init__(self, cluster: ScriptedCluster, number: int) -> None:
        self.number = number
        self.is_listed = True
        self.accepted = 0
        """Connections since its making."""
        self._cluster = cluster
        self._threads: list[threading.Thread] = []
        self._connections: set[socket.socket] = set()
        self._stopping = threading.Event()
        # Bound while the broker has the port and never listening: a client of a stopped broker is refused, and no other
        # process gets the port between the end of one listener and the start of the next.
        self._kept_port = _new_port()
        self.port: int = self._kept_port.getsockname()[1]
        self.start()

    @property
    def address(self) -> HostPort:
        """Where it listens."""
        return HostPort("127.0.0.1", self.port)

    def start(self) -> None:
        """Listen, on the port that it had before."""
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", self.port), reuse_port=True)
        self._spawn(self._accept, self._listener, self._stopping)

    def move(self) -> None:
        """Stop, and start on another port."""
        self.stop()
        kept_port, self._kept_port = self._kept_port, _new_port()
        kept_port.close()
        self.port = self._kept_port.getsockname()[1]
        self.start()

    def stop(self) -> None:
        """Close the listener and every connection, as a killed broker's kernel does. No other process gets the port."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(60)
        self._threads.clear()

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        self._kept_port.close()

    def drop_connections(self) -> None:
        """Close every connection; the listener stays open."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def open_connections(self) -> int:
        """Connections that neither side has closed."""
        return len(self._connections)

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket, stopping: threading.Event) -> None:
        while not stopping.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._connections.add(connection)
            self._spawn(self._serve, connection, stopping)

    def _serve(self, connection: socket.socket, stopping: threading.Event) -> None:
        guard, wrapped = self._cluster.guard, connection
        with connection, contextlib.suppress(OSError, EOFError):
            session = None if guard is None else guard.session()
            if guard is not None:
                wrapped = guard.wrap(connection)
                self._connections ^= {connection, wrapped} if wrapped is not connection else set()
            stream = wrapped.makefile("rb")
            with wrapped, stream:
                while not stopping.is_set():
                    (size,) = struct.unpack(">i", _exactly(stream, 4))
                    frame = memoryview(_exactly(stream, size))
                    if session is not None and (token := session.bare_response(frame)) is not None:
                        wrapped.sendall(struct.pack(">i", len(token)) + token)
                    elif not self._handle(wrapped, frame, stopping, session):
                        break
        self._connections -= {connection, wrapped}

    def _handle(
        self, connection: socket.socket, frame: memoryview, stopping: threading.Event, session: Session | None = None
    ) -> bool:
        """Whether the connection stays open."""
        header = decode_request_header(frame)
        kind = all_requests()[header.api_key]
        call = _Call(self, kind, None, header.api_version, header.correlation_id, session)
        if session is not None and not session.lets_pass(kind):
            return False
        if kind is not ApiVersionsRequest:
            first, last = self._cluster.versions.get(header.api_key, (0, -1))
            assert first <= header.api_version <= last, f"{kind.api_name} v{header.api_version} was not offered"
            call.request = decode(kind, header.body, header.api_version)
            self._cluster.received_at.append(time.monotonic())
            self._cluster.received.append((self.number, call.request, header.api_version))
        step = self._cluster.next_step(kind, self.number)
        data = call.bytes_for(step)
        if data:
            connection.sendall(data)
        if isinstance(step, Silent) or (isinstance(step, HalfFrame) and step.stays_open):
            stopping.wait()
        return not isinstance(step, Drop | HalfFrame | Silent)

    def carry_out(self, request: Request[Any] | None, version: int) -> Response:
        """Do what a request asks for, and the response; None is ApiVersions."""
        if request is None:
            return self._api_versions(version)
        return respond(request, version, self._cluster.state, self.number, self._cluster.ports)

    def _api_versions(self, version: int) -> ApiVersionsResponse:
        offered = tuple(
            ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, (first, last) in self._cluster.versions.items()
        )
        if version <= self._cluster.versions[ApiVersionsRequest.api_key][1]:
            level = self._cluster.state.transactions.level
            feature = FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=level)
            return ApiVersionsResponse(api_keys=offered, finalized_features=(feature,) if level else ())
        own = tuple(api for api in offered if api.api_key == ApiVersionsRequest.api_key)
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own if self._cluster.kip_511 else ()
        )


@dataclasses.dataclass
class _Call:
    """One request that a broker has received."""

    broker: ScriptedBroker
    kind: type[Request[Any]]
    request: Request[Any] | None
    version: int
    correlation_id: int
    session: Session | None = None

    def bytes_for(self, step: Step) -> bytes:
        """What to send back, having done what ``step`` says."""
        match step:
            case Drop(applied) | Silent(applied):
                if applied:
                    self._carry_out()
                return b""
            case HalfFrame(length, _):
                return self._frame(self._carry_out())[:length]
            case Raw(data):
                return data
            case WrongCorrelation():
                self.correlation_id += 7
            case Slow() | Held() | Together():
                step.wait()
            case Refuse(code):
                return self._frame(self._refusal(code))
            case Throttle(ms):
                throttled = FetchResponse() if isinstance(self.request, FetchRequest) else self._carry_out()
                return self._frame(dataclasses.replace(cast("Any", throttled), throttle_time_ms=ms))
            case Respond(make):
                return self._frame(make(self.request))
        response = self._carry_out()
        unasked = isinstance(self.request, ProduceRequest) and self.request.acks == 0
        return b"" if unasked else self._frame(response)

    def _carry_out(self) -> Response:
        answered = self.session.response(self.request) if self.session is not None else None
        return answered or self.broker.carry_out(self.request, self.version)

    def _refusal(self, code: ErrorCode) -> Response:
        assert self.request is not None
        refused = refusal(self.request, self.version, code, in_items=True)
        if not isinstance(refused, MetadataResponse):
            return refused
        # A client ignores Metadata without brokers.
        own = MetadataResponseBroker(node_id=self.broker.number, host="127.0.0.1", port=self.broker.port)
        return dataclasses.replace(refused, brokers=(own,))

    def _frame(self, response: Response) -> bytes:
        version = 0 if isinstance(response, ApiVersionsResponse) and response.error_code else self.version
        chunks = response_frame(response, version, self.correlation_id)
        return b"".join(bytes(chunk) for chunk in chunks if not isinstance(chunk, FileRegion))


def _exactly(stream: Any, size: int) -> bytes:
    data: bytes = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _new_port() -> socket.socket:
    """A socket that is bound to a free port, which a listener may share."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    kept.bind(("127.0.0.1", 0))
    return kept
