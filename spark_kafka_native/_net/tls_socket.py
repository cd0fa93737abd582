"""A TLS socket that never blocks and behaves like a plain one: the same calls, the same exceptions.

``recv_into`` and ``sendmsg`` raise BlockingIOError where a plain socket would, and a handshake has a deadline.
"""

import select
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import AuthenticationFailed, BrokerUnreachable, PropertyReason
from spark_kafka_native._net.tls import Tls

_WRITE_BYTES: Final = 1 << 16
"""Small pieces are joined to so much, for each write becomes a record of its own."""

_ENDS: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""The connection or the TLS session ended, as when a broker shuts down: a new connection may succeed."""

_CERTIFICATES: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_UNKNOWN",
                        "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED", "ACCESS_DENIED", "DECRYPT_ERROR")  # fmt: skip
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNEXPECTED_MESSAGE",
                   "HTTP_REQUEST", "UNKNOWN_PROTOCOL")  # fmt: skip
_VERSIONS: Final = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "VERSION_TOO_LOW")

# OpenSSL's numbers of why a certificate is not accepted.
_HOST_MISMATCH: Final = frozenset({62, 64})
_UNTRUSTED: Final = frozenset({2, 18, 19, 20, 21, 24, 27})


class TlsSocket:
    """One connection after its handshake."""

    def __init__(self, sock: ssl.SSLSocket, address: HostPort, tls: Tls) -> None:
        """Use ``TlsSocket.shake_hands``."""
        self._socket = sock
        self._address = address
        self._tls = tls
        self._staged: bytes | memoryview | None = None

    @classmethod
    def shake_hands(
        cls, sock: socket.socket, address: HostPort, tls: Tls, deadline: Deadline, *, setting: str
    ) -> "TlsSocket":
        """Take over a connected socket and agree on keys. Any error closes it.

        ``setting`` is the ``security.protocol``, for errors that name it.
        Raises AuthenticationFailed: the handshake was refused, and a retry would be, too;
        BrokerUnreachable: no response in time, or the connection ended.
        """
        sock.setblocking(False)
        try:
            wrapped = tls.wrap(sock, address.host)
        except (ValueError, OSError) as error:
            sock.close()
            raise BrokerUnreachable({address: f"TLS cannot start: {error}"}) from error
        try:
            _handshake(wrapped, address, tls, deadline, setting)
        except BaseException:
            wrapped.close()
            raise
        return cls(wrapped, address, tls)

    def fileno(self) -> int:
        """The descriptor, -1 once closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close without waiting for the broker's close_notify."""
        self._staged = None
        self._socket.close()

    def setblocking(self, blocking: bool) -> None:
        """Sockets here never block; anything else is an error."""
        assert not blocking

    def recv_into(self, target: memoryview) -> int:
        """As of a plain socket. Raises AuthenticationFailed: the broker refuses the client's certificate."""
        try:
            return self._socket.recv_into(target)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except _ENDS:
            return 0
        except ssl.SSLError as error:
            raise self._explained(error) from error

    def sendmsg(self, pieces: Sequence[memoryview]) -> int:
        """As of a plain socket: how much of ``pieces``, taken together, was written."""
        # OpenSSL wants what it could not write to be handed to it once more.
        staged = self._staged if self._staged is not None else _staged(pieces)
        try:
            written = self._socket.send(staged)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._staged = staged
            raise BlockingIOError from None
        except OSError as error:
            self._raise_refusal()
            if isinstance(error, _ENDS):
                raise BrokenPipeError("the broker closed the connection") from None
            raise (self._explained(error) if isinstance(error, ssl.SSLError) else error) from None
        self._staged = None
        return written

    def is_quiet(self) -> bool:
        """Whether all bytes that came are TLS's own, such as session tickets."""
        try:
            self._socket.recv(1)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError:
            return False
        return False  # unexpected data, or the end

    def _raise_refusal(self) -> None:
        """Raise AuthenticationFailed if the broker sent a TLS alert before it ended the connection.

        With TLS 1.3 a broker checks the client's certificate when the client's handshake is over already.
        """
        try:
            self._socket.recv(1)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, *_ENDS):
            return
        except ssl.SSLError as error:
            raise self._explained(error) from error
        except OSError:
            return

    def _explained(self, error: ssl.SSLError) -> AuthenticationFailed:
        option, reason = explain(error, self._address, self._tls)
        return AuthenticationFailed(self._address, option, reason)


def _handshake(sock: ssl.SSLSocket, address: HostPort, tls: Tls, deadline: Deadline, setting: str) -> None:
    ended = f"the connection ended in the TLS handshake, as it does at a listener without TLS; {setting}"
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    while True:
        try:
            sock.do_handshake()
            break
        except ssl.SSLWantReadError:
            events = select.POLLIN
        except ssl.SSLWantWriteError:
            events = select.POLLOUT
        except _ENDS as error:  # Python 3.11.2 raises SSLZeroReturnError without a close_notify, too
            raise BrokerUnreachable({address: PropertyReason(ended)}) from error
        except ssl.SSLError as error:
            option, reason = explain(error, address, tls)
            raise AuthenticationFailed(address, option, reason) from error
        except OSError as error:
            reason = PropertyReason(f"{ended} ({error.strerror or error})")
            raise BrokerUnreachable({address: reason}) from error
        poll.modify(sock, events)
        if not poll.poll(deadline.remaining_ms) or deadline.expired:
            late = f"the TLS handshake did not complete within {round(deadline.allowed_ms)} ms"
            reason = PropertyReason(f"{late}; a listener without TLS does not answer; {setting}")
            raise BrokerUnreachable({address: reason})
    if suite := tls.refused_suite(sock):
        raise AuthenticationFailed(address, "ssl.cipher.suites", f"the broker chose {suite}, which is not in the list")


def _staged(pieces: Sequence[memoryview]) -> bytes | memoryview:
    if len(pieces) == 1 or len(pieces[0]) >= _WRITE_BYTES:
        return pieces[0][:_WRITE_BYTES]
    joined = bytearray()
    for piece in pieces:
        joined += piece[: _WRITE_BYTES - len(joined)]
        if len(joined) == _WRITE_BYTES:
            break
    return bytes(joined)


def explain(error: ssl.SSLError, address: HostPort, tls: Tls) -> tuple[str, str]:
    """The property to look at, and what is wrong, for an error of OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message
        if error.verify_code in _HOST_MISMATCH:
            return (
                "ssl.endpoint.identification.algorithm",
                f"the broker's certificate is not for {address.host} ({why}); an empty value turns this check off",
            )
        if error.verify_code in _UNTRUSTED:
            given = tls.settings.trusted is not None
            where = "in the trust store" if given else "of this system (no trust store is given)"
            return "ssl.truststore.location", f"the broker's certificate is not signed by an authority {where}: {why}"
        return "ssl.truststore.location", f"the broker's certificate is not accepted ({why})"
    reason: str = getattr(error, "reason", None) or ""
    if any(word in reason for word in _CERTIFICATES) or (
        reason.endswith("HANDSHAKE_FAILURE") and not tls.settings.cipher_suites and not tls.has_certificate
    ):
        has = "does not accept this client's" if tls.has_certificate else "wants a client"
        return "ssl.keystore.location", f"the broker {has} certificate ({_words(reason)})"
    if any(word in reason for word in _VERSIONS):
        return "ssl.enabled.protocols", f"the broker speaks none of these versions of TLS ({_words(reason)})"
    if any(word in reason for word in _NOT_TLS):
        return "security.protocol", f"what listens there does not speak TLS ({_words(reason)})"
    if "CIPHER" in reason or reason.endswith("HANDSHAKE_FAILURE"):
        return "ssl.cipher.suites", f"the broker has none of these cipher suites ({_words(reason)})"
    return "security.protocol", f"TLS failed ({_words(reason) or 'no reason given'})"


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()
