"""``scram-credentials.json``: who may log in by SCRAM, as bytes. Reading and writing the file is done elsewhere.

    {"version": 1,
     "credentials": [
     {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096,
      "salt": "c2FsdA==", "stored_key": "...", "server_key": "..."}]}

Bytes are in base64. Keys that a reader does not know are errors, so that an older broker never drops what a newer one
wrote.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from broker_embedded.security.credentials import Credentials, ScramCredential, ScramUser

FILE_NAME: Final = "scram-credentials.json"
VERSION: Final = 1
_BYTES: Final = ("salt", "stored_key", "server_key")


class CredentialsFileError(ValueError):
    """Bytes that are not a credentials file of a version known here. The text repeats no credential."""


def encode(credentials: Credentials) -> bytes:
    """The file's bytes, a credential a line."""
    lines = ",\n ".join(
        json.dumps(
            {
                "user": user.name,
                "mechanism": user.mechanism,
                "iterations": credential.iterations,
                **{name: base64.b64encode(getattr(credential, name)).decode() for name in _BYTES},
            }
        )
        for user, credential in credentials.items()
    )
    return f'{{"version": {VERSION},\n"credentials": [\n {lines}]}}\n'.encode()


def decode(raw: bytes) -> dict[ScramUser, ScramCredential]:
    """What ``encode`` was given. Raises CredentialsFileError."""
    try:
        document = json.loads(raw)
        if document["version"] != VERSION:
            raise CredentialsFileError(f"version {document['version']!r}; this broker reads version {VERSION}")
        _only(document, {"version", "credentials"})
        return dict(_entry(item) for item in document["credentials"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, CredentialsFileError):
            raise
        raise CredentialsFileError(f"{type(error).__name__}: it is not what a broker has written") from error


def _entry(item: dict[str, Any]) -> tuple[ScramUser, ScramCredential]:
    _only(item, {"user", "mechanism", "iterations", *_BYTES})
    user = ScramUser(str(item["user"]), str(item["mechanism"]))
    salt, stored_key, server_key = (base64.b64decode(item[name], validate=True) for name in _BYTES)
    iterations = int(item["iterations"])
    return user, ScramCredential(salt=salt, stored_key=stored_key, server_key=server_key, iterations=iterations)


def _only(item: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(item) - known)
    if unknown:
        raise CredentialsFileError(f"unknown keys {', '.join(unknown)}")
