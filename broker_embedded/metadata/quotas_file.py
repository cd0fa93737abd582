"""``client-quotas.json``: the quotas of a data directory, as bytes. Reading and writing the file is done elsewhere.

    {"version": 1,
     "quotas": [{"entity": {"user": "ann", "client-id": null}, "values": {"producer_byte_rate": 1048576.0}}, ...]}

A null name is the default of its type. Keys that a reader does not know are errors, so that an older broker never drops
what a newer one wrote.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from broker_embedded.quotas.entities import Entity, Values

VERSION: Final = 1


class QuotasFileError(ValueError):
    """Bytes that are not a quotas file of a version known here."""


def encode(quotas: Mapping[Entity, Values]) -> bytes:
    """The file's bytes, an entity a line."""
    lines = ",\n ".join(
        json.dumps({"entity": dict(entity.parts), "values": dict(values)}) for entity, values in quotas.items()
    )
    return f'{{"version": {VERSION},\n"quotas": [\n {lines}]}}\n'.encode()


def decode(raw: bytes) -> dict[Entity, dict[str, float]]:
    """What ``encode`` was given. Raises QuotasFileError."""
    try:
        document = json.loads(raw)
        if document["version"] != VERSION:
            raise QuotasFileError(f"version {document['version']!r}; this broker reads version {VERSION}")
        _only(document, {"version", "quotas"})
        return dict(_entry(item) for item in document["quotas"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, QuotasFileError):
            raise
        raise QuotasFileError(f"{type(error).__name__}: {error}") from error


def _entry(item: dict[str, Any]) -> tuple[Entity, dict[str, float]]:
    _only(item, {"entity", "values"})
    entity = Entity.of((str(kind), None if name is None else str(name)) for kind, name in item["entity"].items())
    return entity, {str(key): float(value) for key, value in item["values"].items()}


def _only(item: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(item) - known)
    if unknown:
        raise QuotasFileError(f"unknown keys {', '.join(unknown)}")
