"""OAUTHBEARER (RFC 7628, KIP-255): a bearer token, with extensions (KIP-342)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.secret import Secret, without_secrets

_TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_CONTINUE: Final = b"\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """A token and when it expires, in seconds since 1970; None: not known."""

    value: Secret
    expires_at: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


class OAuthBearer:
    """The token in one message. A refusal is answered with one byte, after which the broker sends the reason."""

    name = "OAUTHBEARER"

    def __init__(self, token: BearerToken) -> None:
        self._token = token
        self.secrets = (token.value,)
        self._heard = False
        self.refusal = ""
        """The broker's reason for the refusal, if it sent one."""

    @property
    def complete(self) -> bool:
        """Whether the broker has accepted the token."""
        return self._heard

    def first(self) -> bytes:
        """The token and its extensions. Raises SaslError: one of them is malformed."""
        if not _TOKEN.fullmatch(self._token.value.reveal()):
            raise SaslError("OAUTHBEARER: the token is empty or has characters that no bearer token has")
        pairs = [("auth", f"Bearer {self._token.value.reveal()}")]
        for name, value in self._token.extensions.items():
            if name == "auth" or not _EXTENSION_NAME.fullmatch(name):
                raise SaslError(f"OAUTHBEARER: {name!r} cannot be the name of an extension")
            if not _EXTENSION_VALUE.fullmatch(value):
                raise SaslError(f"OAUTHBEARER: the value of the extension {name} is empty or not plain text")
            pairs.append((name, value))
        listed = "".join(f"{name}={value}\x01" for name, value in pairs)
        return f"n,,\x01{listed}\x01".encode()

    def reply(self, challenge: bytes) -> bytes | None:
        """None for success; for a refusal the byte that lets the broker end the exchange."""
        if not challenge:
            self._heard = True
            return None
        self.refusal = _refusal(challenge, self._token.value)
        return _CONTINUE


def _refusal(challenge: bytes, token: Secret) -> str:
    """The broker's reason, from the JSON that it sends (RFC 7628, section 3.2.2)."""
    try:
        reason = json.loads(challenge)
        status = str(reason["status"])
        scope = f", scope {reason['scope']}" if reason.get("scope") else ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return "the broker refuses the token"
    return without_secrets(f"the broker refuses the token: {status}{scope}", token)
