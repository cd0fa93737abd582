"""``scram-credentials.json``: the SCRAM credentials of a data directory.

    {"version": 1,
     "credentials": [
     {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096,
      "salt": "c2FsdA==", "stored_key": "...", "server_key": "..."}]}

Bytes are in base64. A credential of ZooKeeper has ``"is_registered": true``.
"""

import base64
import json
from typing import Any, Final

from broker_embedded._metadata.files.metadata_file import VERSION, MetadataFile, refuse_unknown
from broker_embedded._security.credentials import Credentials, ScramCredential, ScramUser

_BYTES: Final = ("salt", "stored_key", "server_key")
_REGISTERED: Final = "is_registered"


def _encode(credentials: Credentials) -> bytes:
    """One credential per line."""
    lines = ",\n ".join(
        json.dumps(
            {
                "user": user.name,
                "mechanism": user.mechanism,
                "iterations": credential.iterations,
                **{name: base64.b64encode(getattr(credential, name)).decode() for name in _BYTES},
                **({_REGISTERED: True} if credential.is_registered else {}),
            }
        )
        for user, credential in credentials.items()
    )
    return f'{{"version": {VERSION},\n"credentials": [\n {lines}]}}\n'.encode()


def _parse(document: dict[str, Any]) -> Credentials:
    refuse_unknown(document, {"version", "credentials"})
    return dict(_entry(item) for item in document["credentials"])


def _entry(item: dict[str, Any]) -> tuple[ScramUser, ScramCredential]:
    refuse_unknown(item, {"user", "mechanism", "iterations", _REGISTERED, *_BYTES})
    user = ScramUser(str(item["user"]), str(item["mechanism"]))
    salt, stored_key, server_key = (base64.b64decode(item[name], validate=True) for name in _BYTES)
    return user, ScramCredential(
        salt=salt,
        stored_key=stored_key,
        server_key=server_key,
        iterations=int(item["iterations"]),
        is_registered=bool(item.get(_REGISTERED, False)),
    )


CREDENTIALS: Final[MetadataFile[Credentials]] = MetadataFile(
    name="scram-credentials.json",
    encode=_encode,
    parse=_parse,
    empty=dict,
    private=True,
    credentials=True,
)
