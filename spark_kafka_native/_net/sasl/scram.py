"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), without channel binding, as Kafka has them (KIP-84).

The password is not sent: both sides prove that they know a key derived from it. A broker that cannot is not trusted.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final

from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.secret import Secret, without_secrets

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 10_000_000
"""With fewer iterations the password is easy to guess; with more the client computes for minutes."""
MAX_STORED_ITERATIONS: Final = 16384
"""The most that Apache Kafka accepts in a credential."""

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The mechanisms by their numbers in requests (KIP-554)."""

_NO_CHANNEL_BINDING: Final = "n,,"
_SERVER_FIRST: Final = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,9})(?:,.*)?")


class Scram:
    """One exchange: client-first, client-final, and the check of the broker's signature."""

    refusal = ""

    def __init__(
        self, name: str, username: str, password: Secret, *, token_auth: bool = False, nonce: str | None = None
    ) -> None:
        """``token_auth``: name and password are a delegation token's id and HMAC (KIP-48). ``nonce`` is for tests."""
        self.name = name
        self._hash = HASHES[name]
        self._password = password
        self.secrets = (password,)
        self._nonce = nonce or secrets.token_urlsafe(24)
        # Kafka's brokers want names as they are, escaped, and extensions after the nonce.
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        self._client_first = f"n={escaped},r={self._nonce}" + (",tokenauth=true" if token_auth else "")
        self._server_signature: bytes | None = None
        self._complete = False

    @property
    def complete(self) -> bool:
        """Whether the broker has proved that it knows the password."""
        return self._complete

    def first(self) -> bytes:
        """The user name and the client's nonce."""
        return (_NO_CHANNEL_BINDING + self._client_first).encode()

    def reply(self, challenge: bytes) -> bytes | None:
        """The client's proof; None after the broker's signature. Raises SaslError."""
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise SaslError(f"{self.name}: the broker's message is not UTF-8") from None
        if text.startswith("e="):
            raise SaslError(f"{self.name}: the broker says {without_secrets(text[2:], self._password)!r}")
        if self._server_signature is None:
            return self._prove(text)
        self._verify(text)
        return None

    def _prove(self, server_first: str) -> bytes:
        found = _SERVER_FIRST.fullmatch(server_first)
        if found is None:
            raise SaslError(f"{self.name}: the broker's first message is malformed")
        nonce, salt, iterations = found[1], _from_base64(found[2]), int(found[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslError(f"{self.name}: the broker's nonce does not begin with the client's")
        if salt is None:
            raise SaslError(f"{self.name}: the broker's salt is not base64")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise SaslError(
                f"{self.name}: the broker asks for {iterations} iterations; "
                f"{MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
            )
        salted = salted_password(self.name, self._password, salt, iterations)
        channel = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        without_proof = f"c={channel},r={nonce}"
        signed = f"{self._client_first},{server_first},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, server_final: str) -> None:
        verifier = _from_base64(server_final.removeprefix("v=").partition(",")[0])
        expected = self._server_signature
        assert expected is not None
        if not server_final.startswith("v=") or verifier is None or not hmac.compare_digest(verifier, expected):
            raise SaslError(f"{self.name}: the broker does not know the password: its signature is wrong")
        self._complete = True

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def salted_password(mechanism: str, password: Secret, salt: bytes, iterations: int) -> bytes:
    """What clients and brokers make their keys of. Takes milliseconds."""
    # Kafka does not prepare passwords as RFC 4013 would: they count as they were typed.
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.reveal().encode(), salt, iterations)


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
