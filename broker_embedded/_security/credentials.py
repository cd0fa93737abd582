"""SCRAM credentials: they verify a client's proof and sign the server's, without the password (RFC 5802)."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self, TypeAlias

from spark_kafka_native._net.sasl.scram import HASHES, MIN_ITERATIONS, salted_password
from spark_kafka_native._net.secret import Secret

_SALT_BYTES: Final = 20


class ScramUser(NamedTuple):
    """The key of a credential: user and mechanism."""

    name: str
    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """A user's credential for one mechanism. ``is_registered``: it is that of ZooKeeper."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int
    is_registered: bool = field(default=False, repr=False)

    @classmethod
    def of_salted(cls, mechanism: str, salted_password: bytes, *, salt: bytes, iterations: int) -> Self:
        """The credential of a salted password."""
        hash_name = HASHES[mechanism]
        client_key = hmac.digest(salted_password, b"Client Key", hash_name)
        return cls(
            salt=salt,
            stored_key=hashlib.new(hash_name, client_key).digest(),
            server_key=hmac.digest(salted_password, b"Server Key", hash_name),
            iterations=iterations,
        )

    @classmethod
    def of_password(
        cls, mechanism: str, password: Secret, *, salt: bytes | None = None, iterations: int = MIN_ITERATIONS
    ) -> Self:
        """The credential of a password, which takes milliseconds; ``salt`` None is a random one."""
        salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
        salted = salted_password(mechanism, password, salt, iterations)
        return cls.of_salted(mechanism, salted, salt=salt, iterations=iterations)


Credentials: TypeAlias = Mapping[ScramUser, ScramCredential]
