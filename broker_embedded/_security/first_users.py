"""The first SCRAM users, in the format of Kafka's kafka-storage.sh, because no client could log in to create them.

    SCRAM-SHA-256=[name=alice,password=hunter2] SCRAM-SHA-512=[name=bob,password="comma, or ]",iterations=8192]

Instead of ``password`` there may be ``salt`` and ``saltedpassword``, both in base64.
"""

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from broker_embedded._security.credentials import ScramCredential, ScramUser
from spark_kafka_native._net.sasl.scram import HASHES, MAX_STORED_ITERATIONS, MIN_ITERATIONS
from spark_kafka_native._net.secret import Secret

_VALUE: Final = r'"[^"]*"|[^",\]]*'
_PAIR: Final = re.compile(rf"\s*([a-z]+)=({_VALUE})(?:,|$)")
_PAIRS: Final = rf"\s*[a-z]+=(?:{_VALUE})"
_USER: Final = re.compile(rf"[\s,]*([A-Z0-9-]+)=\[((?:{_PAIRS}(?:,{_PAIRS})*)?)\](?=[\s,]|$)")


_OPTIONS: Final = ("name", "password", "salt", "saltedpassword", "iterations")


class FirstUserError(ValueError):
    """The text is malformed. ``str()`` has no password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstUser:
    """A user to create, and the password or salted password of its credential."""

    user: ScramUser
    iterations: int
    salt: bytes | None
    password: Secret | None
    salted_password: Secret | None

    @classmethod
    def of(cls, mechanism: str, options: dict[str, str]) -> Self:
        """Raises FirstUserError."""
        if mechanism not in HASHES:
            raise FirstUserError(f"{mechanism} is not one of {', '.join(HASHES)}")
        unknown = options.keys() - set(_OPTIONS)
        if unknown:
            raise FirstUserError(f"{', '.join(sorted(unknown))} is not one of {', '.join(_OPTIONS)}")
        name = options.get("name")
        if not name:
            raise FirstUserError("a user needs a name")
        iterations = options.get("iterations", str(MIN_ITERATIONS))
        if not iterations.isdecimal() or not MIN_ITERATIONS <= int(iterations) <= MAX_STORED_ITERATIONS:
            raise FirstUserError(f"iterations of {name} are not {MIN_ITERATIONS} to {MAX_STORED_ITERATIONS}")
        if ("password" in options) == ("saltedpassword" in options):
            raise FirstUserError(f"{name} needs either password or saltedpassword")
        if "saltedpassword" in options and "salt" not in options:
            raise FirstUserError(f"{name} needs the salt that saltedpassword was made with")
        for key in ("salt", "saltedpassword"):
            _check_base64(name, key, options.get(key, ""))
        return cls(
            user=ScramUser(name, mechanism),
            iterations=int(iterations),
            salt=base64.b64decode(options["salt"]) if "salt" in options else None,
            password=Secret(options["password"]) if "password" in options else None,
            salted_password=Secret(options["saltedpassword"]) if "saltedpassword" in options else None,
        )

    def credential(self) -> ScramCredential:
        """The credential. Takes milliseconds."""
        mechanism = self.user.mechanism
        if self.password is not None:
            return ScramCredential.of_password(mechanism, self.password, salt=self.salt, iterations=self.iterations)
        assert self.salted_password is not None
        assert self.salt is not None
        salted = base64.b64decode(self.salted_password.reveal())
        return ScramCredential.of_salted(mechanism, salted, salt=self.salt, iterations=self.iterations)


def parse_first_users(text: Secret) -> tuple[FirstUser, ...]:
    """All users, separated by blanks or commas. Raises FirstUserError."""
    users = tuple(_users(text.reveal()))
    for user, count in Counter(user.user for user in users).items():
        if count > 1:
            raise FirstUserError(f"user {user.name} is repeated with mechanism {user.mechanism}")
    return users


def _users(text: str) -> Iterator[FirstUser]:
    position = 0
    while text[position:].strip(" \t\r\n,"):
        found = _USER.match(text, position)
        if found is None:
            raise FirstUserError(
                f"the text from character {position + 1} on is not a user, which is written as "
                'MECHANISM=[name=NAME,password=PASSWORD]; a value with a comma or a bracket is written in ""'
            )
        position = found.end()
        pairs = _PAIR.findall(found[2])
        options = {key: value[1:-1] if value.startswith('"') else value for key, value in pairs}
        if len(options) < len(pairs):
            raise FirstUserError("a user has a repeated option")
        yield FirstUser.of(found[1], options)


def _check_base64(name: str, key: str, text: str) -> None:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        raise FirstUserError(f"{key} of {name} is not base64") from None
