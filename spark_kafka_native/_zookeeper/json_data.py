"""The data of znodes, which are JSON objects."""

import json
from collections.abc import Mapping
from typing import Any


class InvalidZnode(Exception):
    """The data of a znode has none of the known formats. ``str()`` is the problem, without the path."""


def encode_json(entries: Mapping[str, object]) -> bytes:
    """The data of a znode with a JSON object."""
    return json.dumps(entries, separators=(",", ":")).encode()


def decode_json(data: bytes) -> dict[str, Any]:
    """The JSON object in the data of a znode. Raises InvalidZnode."""
    found = parse_json(data)
    if not isinstance(found, dict):
        raise InvalidZnode("it is not a JSON object")
    return found


def parse_json(data: bytes) -> object:
    """The JSON value in the data of a znode. Raises InvalidZnode."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidZnode(f"it is not JSON: {error}") from None
