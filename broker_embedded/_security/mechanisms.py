"""SASL mechanisms of a broker: PLAIN (RFC 4616), and SCRAM-SHA-256 and SCRAM-SHA-512 without channel binding (KIP-84).

SCRAM is specified in RFC 5802 and RFC 7677.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, Protocol

from broker_embedded._security.credentials import ScramCredential
from spark_kafka_native._net.sasl.scram import HASHES
from spark_kafka_native._net.secret import Secret

PLAIN: Final = "PLAIN"
_OTHER_ID: Final = "Authentication failed: Client requested an authorization id that is different from username"
"""A client must not act for another user."""
_NAME: Final = r"(?:[^=,\0]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_MORE: Final = r"(?:,[A-Za-z]+=[^,\0]+)*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<acting_as>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<more>{_MORE}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproved>c=(?P<channel>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE}){_MORE}),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_NONCE_BYTES: Final = 24


class SaslRefused(Exception):
    """The login is refused. ``str()`` is for the client, and does not disclose whether the user exists."""


class ServerMechanism(Protocol):
    """One authentication, message by message."""

    @property
    def user(self) -> str | None:
        """The authenticated user, or None."""

    def take(self, token: bytes) -> bytes:
        """The response to a message of the client, which may be empty. Raises SaslRefused."""


class PlainServer:
    """One message: authorization id, name and password, with a NUL between."""

    def __init__(self, users: Mapping[str, Secret]) -> None:
        """``users`` are the passwords by name."""
        self._users = users
        self.user: str | None = None

    def take(self, token: bytes) -> bytes:
        """Empty. Raises SaslRefused."""
        parts = token.decode(errors="replace").split("\0")
        if len(parts) != 3:
            raise SaslRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}")
        acting_as, name, password = parts
        if not name:
            raise SaslRefused("Authentication failed: username not specified")
        if not password:
            raise SaslRefused("Authentication failed: password not specified")
        expected = self._users.get(name)
        # An unknown name takes as long as a wrong password.
        same = hmac.compare_digest(password.encode(), (expected.reveal() if expected else password).encode())
        if expected is None or not same:
            raise SaslRefused("Authentication failed: Invalid username or password")
        if acting_as not in {"", name}:
            raise SaslRefused(_OTHER_ID)
        self.user = name
        return b""


class ScramServer:
    """One exchange: client-first and server-first, client-final and server-final."""

    def __init__(
        self, name: str, credential_of: Callable[[str], ScramCredential | None], *, nonce: str | None = None
    ) -> None:
        """``credential_of`` a user's name; ``nonce`` is for tests."""
        self._name = name
        self._hash = HASHES[name]
        self._credential_of = credential_of
        self._own_nonce = nonce or secrets.token_urlsafe(_NONCE_BYTES)
        self._claimed = ""
        self.user: str | None = None
        self._credential: ScramCredential | None = None
        self._channel = b""
        self._nonce = ""
        self._said = ""

    def take(self, token: bytes) -> bytes:
        """Salt and nonce; then the server's signature. Raises SaslRefused."""
        try:
            text = token.decode()
        except UnicodeDecodeError:
            self._refuse()
        return (self._begin(text) if self._credential is None else self._end(text, self._credential)).encode()

    def _begin(self, text: str) -> str:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None or "tokenauth=true" in found["more"].lower().split(","):  # there are no delegation tokens
            self._refuse()
        self._claimed = _unescaped(found["name"])
        self._credential = self._credential_of(self._claimed)
        if self._credential is None:
            self._refuse()
        if found["acting_as"] is not None and _unescaped(found["acting_as"]) != self._claimed:
            raise SaslRefused(_OTHER_ID)
        self._channel = found["header"].encode()
        self._nonce = found["nonce"] + self._own_nonce
        salt = base64.b64encode(self._credential.salt).decode()
        response = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._said = f"{found['bare']},{response}"
        return response

    def _end(self, text: str, credential: ScramCredential) -> str:
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None or found["nonce"] != self._nonce or _from_base64(found["channel"]) != self._channel:
            self._refuse()
        signed = f"{self._said},{found['unproved']}".encode()
        proof, signature = _from_base64(found["proof"]), hmac.digest(credential.stored_key, signed, self._hash)
        if proof is None or len(proof) != len(signature):
            self._refuse()
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key):
            self._refuse()
        self.user = self._claimed
        verifier = hmac.digest(credential.server_key, signed, self._hash)
        return f"v={base64.b64encode(verifier).decode()}"

    def _refuse(self) -> NoReturn:
        """The same text for all errors, so that it does not disclose whether the user exists."""
        problem = "Authentication failed during authentication due to invalid credentials"
        raise SaslRefused(f"{problem} with SASL mechanism {self._name}")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
