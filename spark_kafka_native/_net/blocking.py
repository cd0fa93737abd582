"""Sockets for Spark workers: no thread, no event loop, a deadline on every wait.

Inside, sockets never block. The calls that wait (``send``, ``receive``, ``call``) poll the socket for as long as their
deadline allows, and read while they wait to write, so that two full pipes cannot wait for each other. A caller with
several connections uses the calls that do not wait (``enqueue``, ``write_some``, ``read_some``) and polls by itself.

``enqueue`` waits until the throttle time of the connection's responses is over (KIP-219), for every caller. Callers
with several connections look at ``throttle_ms`` first, and use the others meanwhile.

Any error closes the connection, and names the broker and the API that was waiting.
"""

import math
import os
import random
import select
import time
from collections import deque
from typing import Any, Final, Self, TypeVar

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.connection import ClientConnection, InFlightRequest, api_versions
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.dialing import (
    DEFAULT_MAX_FRAME_BYTES,
    QuietStream,
    SocketOptions,
    Stream,
    Target,
    closing_server,
    connect,
    first_to_succeed,
    foreign_server,
    reason_of,
    targets_of,
)
from spark_kafka_native._net.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ConnectionLost,
    PropertyReason,
    RequestTimeout,
    Throttled,
    UnsupportedApiVersion,
)
from spark_kafka_native._net.frame_socket import EndOfFrames, FrameSocket
from spark_kafka_native._net.sasl.exchange import Exchange
from spark_kafka_native._net.sasl.mechanism import Mechanism
from spark_kafka_native._protocol.errors import KafkaError, LocalProtocolError, RemoteProtocolError
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.wire import Chunk, FileRegion

__all__ = ["DEFAULT_MAX_FRAME_BYTES", "MAX_API_VERSIONS_BYTES", "Connection", "SocketOptions"]

ResponseT = TypeVar("ResponseT", bound=Response)

MAX_API_VERSIONS_BYTES: Final = 1 << 20
"""No ApiVersions response is larger. TLS, HTTP and SSH servers announce frames beyond this when read as Kafka."""

_CLOSED: Final = (EndOfFrames, ConnectionResetError)
"""Ends of a connection between two responses; a reset if the broker had unread bytes."""
_PIECES_PER_WRITE: Final = 512
"""Half of Linux's IOV_MAX."""
_TIMED_OUT_AFTER_MS: Final = 1_000
"""A broker counts as timed out if it had this time for its response, or half of ``request_timeout_ms`` if that is less.

A request may be sent a few ms before its caller's deadline; no response by then says nothing about the broker.
"""


class Connection:
    """One connection to one broker, its API versions known. One thread at a time may use it."""

    def __init__(self, sock: Stream, address: HostPort, options: SocketOptions) -> None:
        """Takes over a connected socket. Use ``Connection.open``."""
        sock.setblocking(False)
        self.address = address
        self.options = options
        self.process_id = os.getpid()
        self.idle_since = time.monotonic()
        self.lent_for: int | None = None
        """The broker that a pool has lent it for, if its address is that of several brokers."""
        self.timed_out = False
        """Whether RequestTimeout was raised because of the broker, not because the caller's deadline was too near."""
        self._socket = sock
        self._protocol = ClientConnection(address, options.client_id, options.response_cache)
        self._reader = FrameSocket(sock, MAX_API_VERSIONS_BYTES)
        self._outgoing: deque[memoryview] = deque()
        self._responses: deque[tuple[InFlightRequest, Response]] = deque()
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._authenticate_at = math.inf
        self._throttled_until = 0.0
        self._last_request_at = self.idle_since
        self._has_responded = False
        """Whether the broker has answered to a request that follows ApiVersions."""

    @classmethod
    def open(cls, address: HostPort, options: SocketOptions, deadline: Deadline | None = None) -> "Connection":
        """Connect to the first usable address of the host name, learn the broker's API versions, and authenticate.

        Each address has the options' ``connect_timeout_ms`` for all of it, see ``first_to_succeed``.
        Raises BrokerUnreachable: no server listens, the name is unknown, there was no response in time, or the server
        does not speak Kafka. AuthenticationFailed: the TLS handshake or the authentication failed.
        """

        def attempt(target: Target, setup: Deadline) -> Connection:
            mechanism = options.security.mechanism_for(address)
            connection = cls(connect(address, target, options, setup), address, options)
            try:
                connection._negotiate(setup)
                if mechanism is not None:
                    connection._authenticate_first(mechanism, setup)
            except BaseException:
                connection.close()
                raise
            connection._reader.max_frame_bytes = options.max_frame_bytes
            return connection

        with options.security.naming_options():
            return first_to_succeed(address, targets_of(address), attempt, options.connect_timeout_ms, deadline)

    def close(self) -> None:
        """Close the socket. Requests in flight stay without a response; may be called twice."""
        self._socket.close()
        self._outgoing.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """The socket's descriptor, -1 once closed."""
        return self._socket.fileno()

    @property
    def closed(self) -> bool:
        """Whether the connection was closed, by ``close`` or because it broke."""
        return self._socket.fileno() == -1

    @property
    def in_flight(self) -> int:
        """Requests whose responses have not been returned yet."""
        return self._protocol.in_flight + len(self._responses)

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait to be written."""
        return bool(self._outgoing)

    @property
    def throttle_ms(self) -> float:
        """Milliseconds until the end of the throttle (KIP-219); 0 if the connection is not throttled."""
        return max(self._throttled_until - time.monotonic(), 0.0) * 1000

    def throttled(self, api_name: str) -> Throttled:
        """The error for a request that has to wait for the end of the throttle."""
        return Throttled(self.address, api_name, math.ceil(self.throttle_ms))

    def version_of(self, request: type[Request[Any]], max_version: int | None = None) -> int:
        """The version that a request would go out in. Raises UnsupportedApiVersion."""
        return self._protocol.versions.choose(request, max_version)

    def feature_level(self, feature: str) -> int:
        """The level at which the cluster has finalized a feature, as far as this connection knows; 0 if it has not."""
        return self._protocol.versions.level_of(feature)

    def is_stale(self) -> bool:
        """Whether an idle connection cannot be used again: closed, forked, at its end, or with unexpected bytes."""
        if self.closed or self.process_id != os.getpid() or self.in_flight or self._outgoing:
            return True
        # The bytes of a TLS socket may be TLS's own, such as session tickets.
        return bool(self._poll.poll(0)) and not (isinstance(self._socket, QuietStream) and self._socket.is_quiet())

    def release_memory(self) -> None:
        """Keep no memory of large responses while the connection is idle. Responses in use stay valid."""
        self._reader.release_memory()

    # --- calls that wait

    def call(
        self, request: Request[ResponseT], *, timeout_ms: float | None = None, max_version: int | None = None
    ) -> ResponseT:
        """Send a request and wait for its response; nothing else may be in flight.

        ``timeout_ms`` counts from now, a throttle included; None: the options' ``request_timeout_ms``, which also
        bounds how long the response may take.
        Raises ConnectionLost, RequestTimeout, Throttled, UnsupportedApiVersion.
        """
        if self.in_flight:
            raise LocalProtocolError(f"{self.address}: call() while {self.in_flight} requests are in flight")
        deadline = Deadline.after_ms(self.options.request_timeout_ms if timeout_ms is None else timeout_ms)
        self.send(request, deadline=deadline, max_version=max_version)
        _, response = self.receive(deadline.at_most_ms(self.options.request_timeout_ms))
        return response  # type: ignore[return-value]  # the response's class is the request's own

    def renew_versions(self, *, timeout_ms: float | None = None) -> None:
        """Request the broker's API versions and features again: a cluster changes its features while it runs.

        Nothing else may be in flight. Raises as ``call``.
        """
        self._protocol.update_versions(self.call(api_versions(), timeout_ms=timeout_ms))

    def send(self, request: Request[Any], *, deadline: Deadline, max_version: int | None = None) -> InFlightRequest:
        """Write a whole request, after the throttle if there is one, without waiting for its response.

        The options' ``request_timeout_ms`` bounds how long writing may take. Raises ConnectionLost, RequestTimeout;
        Throttled, UnsupportedApiVersion: these leave the connection usable.
        """
        sent = self.enqueue(request, max_version=max_version, deadline=deadline)
        self._write_all(deadline.at_most_ms(self.options.request_timeout_ms), sent.request.api_name)
        return sent

    def receive(self, deadline: Deadline) -> tuple[InFlightRequest, Response]:
        """The next response, in the order of the requests. Raises ConnectionLost, RequestTimeout."""
        while True:
            self.write_some()
            self.read_some()
            if self._responses:
                return self._responses.popleft()
            self._wait(deadline, select.POLLIN | (select.POLLOUT if self._outgoing else 0))

    # --- calls that do not wait

    def enqueue(
        self, request: Request[Any], *, max_version: int | None = None, deadline: Deadline | None = None
    ) -> InFlightRequest:
        """Take a request for ``write_some`` to write. Raises UnsupportedApiVersion, LocalProtocolError.

        It waits while the connection is throttled (``throttle_ms``), and raises Throttled at once if that lasts beyond
        ``deadline``, by default ``request_timeout_ms`` from now.
        Once in the life of a session (KIP-368) it waits, for a new authentication, and raises what that raises:
        AuthenticationFailed, ConnectionLost, RequestTimeout, BrokerUnreachable.
        """
        self._check_usable()
        if throttle_ms := self.throttle_ms:
            if throttle_ms > (self.options.request_timeout_ms if deadline is None else deadline.remaining_ms):
                raise self.throttled(request.api_name)
            time.sleep(throttle_ms / 1000)
        if time.monotonic() >= self._authenticate_at:
            self._authenticate_again()
        return self._enqueue(request, max_version)

    def _enqueue(self, request: Request[Any], max_version: int | None = None) -> InFlightRequest:
        sent, chunks = self._protocol.encode(request, max_version)
        self._take(chunks)
        self._last_request_at = time.monotonic()
        return sent

    def write_some(self) -> bool:
        """Write what the socket accepts now. Whether everything is written. Raises ConnectionLost."""
        while self._outgoing:
            pieces = [self._outgoing[index] for index in range(min(len(self._outgoing), _PIECES_PER_WRITE))]
            try:
                written = self._socket.sendmsg(pieces)
            except BlockingIOError:
                return False
            except OSError as error:
                raise self._lost(reason_of(error)) from error
            except AuthenticationFailed:
                self.close()
                raise
            self._drop_written(written)
        return True

    def read_some(self) -> None:
        """Read what has come; whole responses are then returned by ``next_response``. Raises ConnectionLost."""
        self._check_usable()
        try:
            for frame in self._reader.read():
                self._responses.append(self._protocol.decode(frame))
                self._has_responded = True
                self._note_throttle()
        except (OSError, EOFError) as error:
            # Responses that came before the end are returned; the next call finds the end again.
            if not self._responses:
                raise self._lost(reason_of(error), self._unanswered_hint(error)) from error
        except RemoteProtocolError as error:
            raise self._lost(f"broke the protocol: {error}") from error
        except AuthenticationFailed:
            self.close()
            raise

    def next_response(self) -> tuple[InFlightRequest, Response] | None:
        """A response that ``read_some`` has read, in the order of the requests; None if there is none."""
        return self._responses.popleft() if self._responses else None

    # --- inside

    def _check_usable(self) -> None:
        """A forked child must not take bytes that are meant for its parent."""
        if self.process_id != os.getpid():
            raise self._lost("the connection belongs to the process that this one was forked from")
        if self.closed:
            raise ConnectionLost(self.address, "the connection is closed")

    def _note_throttle(self) -> None:
        self._throttled_until = max(self._throttled_until, time.monotonic() + self._protocol.throttle_ms / 1000)

    def _negotiate(self, deadline: Deadline) -> None:
        chunks: list[Chunk] | None = self._protocol.api_versions_request()
        try:
            while chunks is not None:
                self._take(chunks)
                self._write_all(deadline, "ApiVersions")
                chunks = self._protocol.api_versions_response(self._next_frame(deadline))
            self._note_throttle()
        except _CLOSED as error:
            raise closing_server(self.address, self.options.security) from error
        except (OSError, EOFError) as error:
            raise BrokerUnreachable({self.address: reason_of(error)}) from error
        except RemoteProtocolError as error:
            raise foreign_server(self.address, self._reader.head, self.options.security, error) from error
        except (ConnectionLost, RequestTimeout) as error:
            raise BrokerUnreachable({self.address: str(error).removeprefix(f"{self.address}: ")}) from error

    # --- authentication

    def _authenticate_first(self, mechanism: Mechanism, deadline: Deadline) -> None:
        raw = self._protocol.versions.range_of(SaslAuthenticateRequest) is None
        exchange = Exchange(mechanism, self.address, raw=raw)
        try:
            self._exchange(exchange, deadline)
        except UnsupportedApiVersion as error:
            raise AuthenticationFailed(self.address, "security.protocol", "the broker has no SASL") from error
        except (OSError, EOFError, RemoteProtocolError) as error:
            raise exchange.cut_off() from error
        except (ConnectionLost, RequestTimeout) as error:
            raise BrokerUnreachable({self.address: str(error).removeprefix(f"{self.address}: ")}) from error

    def _authenticate_again(self) -> None:
        """Authenticate again before the session ends (KIP-368), and keep the responses to earlier requests."""
        deadline = Deadline.after_ms(self.options.request_timeout_ms)
        with self.options.security.naming_options():
            mechanism = self.options.security.mechanism_for(self.address)
            assert mechanism is not None
            try:
                self._exchange(Exchange(mechanism, self.address, raw=False), deadline)
            except BaseException:
                self.close()
                raise

    def _exchange(self, exchange: Exchange, deadline: Deadline) -> None:
        response = self._ask_beside(exchange.handshake, deadline, max_version=0 if exchange.raw else None)
        token: bytes | None = exchange.begin(response)
        self._reader.takes_empty = exchange.raw
        while token is not None:
            if not exchange.raw:
                token = exchange.take(self._ask_beside(SaslAuthenticateRequest(auth_bytes=token), deadline))
                continue
            self._take([len(token).to_bytes(4, "big"), token])
            self._write_all(deadline, "SASL")
            token = None if exchange.is_heard_out else exchange.next_token(bytes(self._next_frame(deadline)))
        self._reader.takes_empty = False
        self._authenticate_at = math.inf
        if exchange.session_lifetime_ms > 0:
            # As Kafka's own client: some time before the end, and not all connections at once.
            lifetime_s = exchange.session_lifetime_ms / 1000
            self._authenticate_at = time.monotonic() + lifetime_s * random.uniform(0.85, 0.95)

    def _ask_beside(self, request: Request[ResponseT], deadline: Deadline, max_version: int | None = None) -> ResponseT:
        """The response to a request while others are in flight: they come first, and wait to be taken."""
        sent = self._enqueue(request, max_version)
        self._write_all(deadline, sent.request.api_name)
        earlier: list[tuple[InFlightRequest, Response]] = []
        while True:
            while self._responses:
                of, response = self._responses.popleft()
                if of is sent:
                    self._responses.extend(earlier)
                    return response  # type: ignore[return-value]  # the response's class is the request's own
                earlier.append((of, response))
            self._wait(deadline, select.POLLIN)
            self.read_some()

    def _next_frame(self, deadline: Deadline) -> memoryview:
        while True:
            frames = self._reader.read()
            if len(frames) > 1:
                raise RemoteProtocolError("unexpected response: no request is in flight")
            if frames:
                return frames[0]
            self._wait(deadline, select.POLLIN)

    def _take(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            if isinstance(chunk, FileRegion):
                raise LocalProtocolError("a client does not send regions of files")
            if len(chunk):
                self._outgoing.append(memoryview(chunk))

    def _write_all(self, deadline: Deadline, api_name: str) -> None:
        while not self.write_some():
            self._wait(deadline, select.POLLIN | select.POLLOUT, api_name)
            if self._protocol.in_flight:
                self.read_some()

    def _wait(self, deadline: Deadline, events: int, api_name: str | None = None) -> None:
        """Poll until something can be done. Raises RequestTimeout, having closed the connection."""
        self._poll.modify(self._socket, events)
        ready = self._poll.poll(deadline.remaining_ms)
        self._poll.modify(self._socket, select.POLLIN)
        # A peer that sends a byte now and then must not keep the client waiting for ever.
        if not ready or deadline.expired:
            oldest = self._protocol.oldest
            waited_ms = (time.monotonic() - self._last_request_at) * 1000
            self.timed_out = waited_ms >= min(_TIMED_OUT_AFTER_MS, self.options.request_timeout_ms / 2)
            self.close()
            raise RequestTimeout(
                self.address, api_name or (oldest.request.api_name if oldest else "?"), round(deadline.allowed_ms)
            )

    def _drop_written(self, written: int) -> None:
        while written:
            first = self._outgoing.popleft()
            if written < len(first):
                self._outgoing.appendleft(first[written:])
                return
            written -= len(first)

    def _unanswered_hint(self, error: Exception) -> str:
        """A listener with SASL answers to ApiVersions only, unless the client logs in."""
        security = self.options.security
        if self._has_responded or security.sasl is not None or not isinstance(error, _CLOSED):
            return ""
        return f"; the listener may need SASL ({security})"

    def _lost(self, reason: str, hint: str = "") -> KafkaError:
        oldest = self._protocol.oldest
        text = f"{reason}; {oldest} has no response{hint}" if oldest else reason + hint
        self.close()
        return ConnectionLost(self.address, PropertyReason(text) if hint else text)
