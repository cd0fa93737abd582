"""``client-quotas.json``: the client quotas of a data directory.

    {"version": 1,
     "quotas": [{"entity": {"user": "ann", "client-id": null}, "values": {"producer_byte_rate": 1048576.0}}, ...]}

A null name is the default of its type.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from broker_embedded._metadata.files.metadata_file import VERSION, MetadataFile, refuse_unknown
from broker_embedded._quotas.entities import ClientQuotaEntity, Values


def _encode(quotas: Mapping[ClientQuotaEntity, Values]) -> bytes:
    """One entity per line."""
    lines = ",\n ".join(
        json.dumps({"entity": dict(entity.parts), "values": dict(values)}) for entity, values in quotas.items()
    )
    return f'{{"version": {VERSION},\n"quotas": [\n {lines}]}}\n'.encode()


def _parse(document: dict[str, Any]) -> Mapping[ClientQuotaEntity, Values]:
    refuse_unknown(document, {"version", "quotas"})
    return dict(_entry(item) for item in document["quotas"])


def _entry(item: dict[str, Any]) -> tuple[ClientQuotaEntity, dict[str, float]]:
    refuse_unknown(item, {"entity", "values"})
    entity = ClientQuotaEntity.of(
        (str(kind), None if name is None else str(name)) for kind, name in item["entity"].items()
    )
    return entity, {str(key): float(value) for key, value in item["values"].items()}


QUOTAS: Final[MetadataFile[Mapping[ClientQuotaEntity, Values]]] = MetadataFile(
    name="client-quotas.json", encode=_encode, parse=_parse, empty=dict
)
