"""Connecting to a broker, and the errors if that fails."""

import contextlib
import dataclasses
import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.channel_security import PLAINTEXT, ChannelSecurity
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable, PropertyReason, UnknownHost
from spark_kafka_native._net.response_cache import ResponseCache
from spark_kafka_native._protocol.errors import RemoteProtocolError

T = TypeVar("T")

DEFAULT_MAX_FRAME_BYTES: Final = 1 << 29
_MIN_SHARE_MS: Final = 1000.0
"""The least time for one address, because no connection is made within a few milliseconds."""
MAX_PREFERRED: Final = 1000
preferred: Final[dict[HostPort, str]] = {}
"""Of host names whose first address has failed, the one that answered. The next connection begins there.

At most ``MAX_PREFERRED``; all are forgotten when there would be more. Single operations on it need no lock.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SocketOptions:
    """How connections are made."""

    client_id: str | None = None
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    receive_buffer_bytes: int = -1
    send_buffer_bytes: int = -1
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    security: ChannelSecurity = PLAINTEXT
    response_cache: ResponseCache | None = None
    """Spares the decoding of a response that comes again."""


class Stream(Protocol):
    """The part of a socket that connections use."""

    def fileno(self) -> int:
        """As of ``socket.socket``."""

    def close(self) -> None:
        """As of ``socket.socket``."""

    def setblocking(self, blocking: bool, /) -> None:
        """As of ``socket.socket``."""

    def recv_into(self, target: memoryview, /) -> int:
        """As of ``socket.socket``."""

    def sendmsg(self, pieces: Sequence[memoryview], /) -> int:
        """As of ``socket.socket``."""


@runtime_checkable
class QuietStream(Protocol):
    """A stream that also carries bytes of its own protocol."""

    def is_quiet(self) -> bool:
        """Whether all bytes that came are the stream's own."""


class Target(NamedTuple):
    """One address of a host name, as ``socket.getaddrinfo`` returns it."""

    family: int
    kind: int
    protocol: int
    name: str
    where: tuple[Any, ...]


def targets_of(address: HostPort) -> list[Target]:
    """Every address that the host name has, in the resolver's order. Raises BrokerUnreachable: it has none."""
    try:
        return [Target(*found) for found in socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        raise BrokerUnreachable({address: UnknownHost(f"the host name is unknown ({reason_of(error)})")}) from error


def first_to_succeed(
    address: HostPort,
    targets: Sequence[Target],
    attempt: Callable[[Target, Deadline], T],
    timeout_ms: float,
    deadline: Deadline | None,
) -> T:
    """The result of ``attempt`` for the first of ``targets`` that does not raise BrokerUnreachable.

    They are tried in their order, but the one that answered after others had failed comes first the next time.
    Each has ``timeout_ms``, as in Java's client, but at most an equal share of the time left until ``deadline``, or
    a second if the share is less.
    Raises BrokerUnreachable naming every target and its reason, and what else ``attempt`` raises.
    """
    reasons: list[str] = []
    kind: type[str] = str
    known = preferred.get(address)
    for index, target in enumerate(sorted(targets, key=lambda target: target.where[0] != known)):
        limit_ms = timeout_ms
        if deadline is not None:
            left_ms = deadline.remaining_ms
            share_ms = max(left_ms / (len(targets) - index), _MIN_SHARE_MS)
            limit_ms = min(timeout_ms, share_ms, left_ms)
        try:
            made = attempt(target, Deadline.after_ms(limit_ms))
        except BrokerUnreachable as error:
            if len(targets) == 1:
                raise
            reason = error.tried.get(address, str(error))
            reasons.append(f"{target.where[0]} {reason}")
            if isinstance(reason, PropertyReason):
                kind = PropertyReason
        else:
            if reasons:
                if len(preferred) >= MAX_PREFERRED:
                    preferred.clear()
                preferred[address] = target.where[0]
            return made
    raise BrokerUnreachable({address: kind(", ".join(reasons))})


def connect(address: HostPort, target: Target, options: SocketOptions, deadline: Deadline) -> Stream:
    """A socket connected to ``target``, encrypted if that is wanted. Raises BrokerUnreachable, AuthenticationFailed."""
    sock = _connect(address, target, options, deadline)
    tls = options.security.tls
    if tls is None:
        return sock
    from spark_kafka_native._net.tls_socket import TlsSocket  # noqa: PLC0415 -- imports ssl

    return TlsSocket.shake_hands(sock, address, tls, deadline, setting=str(options.security))


def _connect(address: HostPort, target: Target, options: SocketOptions, deadline: Deadline) -> socket.socket:
    timeout_ms = max(deadline.remaining_ms, 1.0)
    try:
        sock = socket.socket(target.family, target.kind, target.protocol)
    except OSError as error:
        raise BrokerUnreachable({address: reason_of(error)}) from error
    try:
        _set_options(sock, options)
        sock.settimeout(timeout_ms / 1000)
        sock.connect(target.where)
        if sock.getsockname() == sock.getpeername():
            # TCP lets a socket connect to itself when it picks the port it connects to; no server listens there.
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    except OSError as error:
        sock.close()
        is_timeout = isinstance(error, TimeoutError) and error.errno is None  # not the operating system's
        reason = _timeout_reason(timeout_ms, deadline, options) if is_timeout else reason_of(error)
        raise BrokerUnreachable({address: reason}) from error
    except BaseException:
        sock.close()
        raise
    return sock


def _timeout_reason(timeout_ms: float, deadline: Deadline, options: SocketOptions) -> str:
    if deadline.allowed_ms != options.connect_timeout_ms:  # limited by the time that was left, not by the option
        return f"no connection within {round(timeout_ms, -1):.0f} ms"
    option = options.security.name_of("socket.connection.setup.timeout.ms")
    return f"no connection within {options.connect_timeout_ms} ms; raise {option} if the network is slow"


def _set_options(sock: socket.socket, options: SocketOptions) -> None:
    """Sizes must be set before connecting, for TCP agrees on the window's scale then."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if options.receive_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
    if options.send_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)


def reason_of(error: BaseException) -> str:
    """The system's error message, as the end of a sentence."""
    if isinstance(error, TimeoutError):
        return "no connection within the time allowed"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text[:1].lower() + text[1:]


def closing_server(address: HostPort, security: ChannelSecurity) -> BrokerUnreachable:
    """The error if a server closed the connection instead of responding to ApiVersions."""
    reason = "the broker closed the connection at ApiVersions: it is older than Kafka 0.10, which is not supported"
    if security.tls is not None:
        return BrokerUnreachable({address: reason})
    return BrokerUnreachable({address: PropertyReason(f"{reason}, or its listener needs TLS ({security})")})


def foreign_server(
    address: HostPort, head: bytearray, security: ChannelSecurity, error: RemoteProtocolError
) -> BrokerUnreachable:
    """The error if a server broke the protocol. It names what listens there if ``head`` shows it."""
    is_tls = head[0] in {0x15, 0x16} and head[1] == 3
    hint = f"it answers like a TLS server; {security}" if is_tls else str(error)
    with contextlib.suppress(UnicodeDecodeError):
        word = bytes(head).decode("ascii")
        if word.isprintable():
            hint = f"its response begins with {word!r}"
    reason = f"does not speak Kafka's protocol ({hint})"
    return BrokerUnreachable({address: PropertyReason(reason) if is_tls else reason})
