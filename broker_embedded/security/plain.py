"""PLAIN (RFC 4616): the client says its name and password."""

import hmac
from collections.abc import Mapping
from typing import Final

from broker_embedded.security.mechanism import OTHER_ID, SaslRefused
from spark_kafka_native.net.secret import Secret

PLAIN: Final = "PLAIN"


class PlainServer:
    """One message: authorization id, name and password, with a NUL between."""

    def __init__(self, users: Mapping[str, Secret]) -> None:
        """``users`` are the passwords by name."""
        self._users = users
        self._user: str | None = None

    @property
    def user(self) -> str | None:
        """The name, once the password was right."""
        return self._user

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
        # A name that nobody has takes as long as a wrong password.
        same = hmac.compare_digest(password.encode(), (expected.reveal() if expected else password).encode())
        if expected is None or not same:
            raise SaslRefused("Authentication failed: Invalid username or password")
        if acting_as not in {"", name}:
            raise SaslRefused(OTHER_ID)
        self._user = name
        return b""
