"""What stands before a scripted broker: TLS, and the brokers' side of SASL.

The mechanisms are written from the RFCs and on their own, not with the client's code, so that one checks the other.
"""

import base64
import hashlib
import hmac
import json
import secrets
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from spark_kafka_native._protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from spark_kafka_native._protocol.schema import Request, Response

SASL = (SaslHandshakeRequest, SaslAuthenticateRequest)


class Refused(Exception):
    """The client is not who it says it is."""


@dataclass(kw_only=True)
class Guard:
    """Lets those in who encrypt, and who authenticate as one of ``users`` (name: password) or by one of ``tokens``."""

    tls: ssl.SSLContext | None = None
    mechanisms: tuple[str, ...] = ()
    users: Mapping[str, str] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Token: the user it is for."""
    lifetime_ms: int = 0
    is_old: bool = False
    """Whether tokens travel bare, as before KIP-152."""
    iterations: int = 4096
    knows_passwords: bool = True
    """Whether this is the real broker; one that is not cannot sign with the password."""
    echoes: bool = False
    """Whether refusals repeat what the client sent."""
    authenticated: list[str] = field(default_factory=list)
    """Who was let in, in order."""

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        if not self.mechanisms:
            return {}
        return {17: (0, 0)} if self.is_old else {17: (0, 1), 36: (0, 2)}

    def wrap(self, connection: socket.socket) -> socket.socket:
        return connection if self.tls is None else self.tls.wrap_socket(connection, server_side=True)

    def session(self) -> "Session":
        return Session(self)


class Session:
    """One connection's authentications."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._mechanism: Any = None
        self._is_in = not guard.mechanisms

    def lets_pass(self, kind: type[Request[Any]]) -> bool:
        return self._is_in or kind is ApiVersionsRequest or kind in SASL

    def bare_response(self, frame: memoryview) -> bytes | None:
        """The response to a bare token; None if this frame is none. Raises EOFError: refused."""
        if not self._guard.is_old or self._mechanism is None or self._is_in:
            return None
        try:
            return self._step(bytes(frame))
        except Refused:
            raise EOFError from None

    def response(self, request: Request[Any] | None) -> Response | None:
        """The response to a request of SASL; None to any other."""
        if isinstance(request, SaslHandshakeRequest):
            offered = self._guard.mechanisms
            if request.mechanism not in offered:
                return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
            self._mechanism = _MECHANISMS[request.mechanism](self._guard, request.mechanism)
            self._is_in = False
            return SaslHandshakeResponse(mechanisms=offered)
        if not isinstance(request, SaslAuthenticateRequest):
            return None
        try:
            token = self._step(request.auth_bytes)
        except Refused as refusal:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            message = f"{refusal} {bytes(request.auth_bytes)!r}" if self._guard.echoes else str(refusal)
            return SaslAuthenticateResponse(error_code=code, error_message=message)
        lifetime_ms = self._guard.lifetime_ms if self._is_in else 0
        return SaslAuthenticateResponse(error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms)

    def _step(self, token: bytes) -> bytes:
        response: bytes = self._mechanism.step(bytes(token))
        if self._mechanism.user is not None:
            self._is_in = True
            self._guard.authenticated.append(self._mechanism.user)
        return response


class _Plain:
    def __init__(self, guard: Guard, name: str) -> None:
        self._users = guard.users
        self.user: str | None = None

    def step(self, token: bytes) -> bytes:
        _, name, password = token.decode().split("\0")
        if self._users.get(name) != password:
            raise Refused("Authentication failed: Invalid username or password")
        self.user = name
        return b""


class _Scram:
    def __init__(self, guard: Guard, name: str) -> None:
        self._guard = guard
        self._hash = name.removeprefix("SCRAM-").replace("-", "").lower()
        self._first = ""
        self._server_first = ""
        self._name = ""
        self.extensions: list[str] = []
        self.user: str | None = None

    def step(self, token: bytes) -> bytes:
        text = token.decode()
        return self._begin(text) if not self._first else self._end(text)

    def _begin(self, text: str) -> bytes:
        assert text.startswith("n,,")
        self._first = text[3:]
        name, nonce, *self.extensions = self._first.split(",")
        self._name = name[2:].replace("=2C", ",").replace("=3D", "=")
        self._salt = secrets.token_bytes(12)
        self._nonce = nonce[2:] + secrets.token_hex(8)
        self._server_first = f"r={self._nonce},s={base64.b64encode(self._salt).decode()},i={self._guard.iterations}"
        return self._server_first.encode()

    def _end(self, text: str) -> bytes:
        without_proof, _, proof = text.rpartition(",p=")
        assert without_proof == f"c=biws,r={self._nonce}"
        password = self._guard.users.get(self._name, "another's") if self._guard.knows_passwords else "a guess"
        salted = hashlib.pbkdf2_hmac(self._hash, password.encode(), self._salt, self._guard.iterations)
        signed = f"{self._first},{self._server_first},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), signed, self._hash)
        found = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if self._guard.knows_passwords and found != client_key:
            raise Refused("Authentication failed during authentication due to invalid credentials")
        self.user = self._name
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        return b"v=" + base64.b64encode(hmac.digest(server_key, signed, self._hash))


class _OAuthBearer:
    def __init__(self, guard: Guard, name: str) -> None:
        self._tokens = guard.tokens
        self._refused = ""
        self.user: str | None = None

    def step(self, token: bytes) -> bytes:
        if self._refused:
            assert token == b"\x01"
            raise Refused(self._refused)
        head, *pairs = token.decode().rstrip("\x01").split("\x01")
        assert head == "n,,"
        given = dict(pair.split("=", 1) for pair in pairs)
        user = self._tokens.get(given.pop("auth").removeprefix("Bearer "))
        if user is None:
            self._refused = json.dumps({"status": "invalid_token"})
            return self._refused.encode()
        self.user = user + "".join(f" {name}={value}" for name, value in given.items())
        return b""


_MECHANISMS = {"PLAIN": _Plain, "SCRAM-SHA-256": _Scram, "SCRAM-SHA-512": _Scram, "OAUTHBEARER": _OAuthBearer}
