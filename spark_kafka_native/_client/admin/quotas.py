"""Quotas of users, clients and addresses: described and altered (KIP-546)."""

import dataclasses
from collections.abc import Mapping
from typing import Final, TypeAlias

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._protocol.errors import check_code
from spark_kafka_native._protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestedEntityData,
    RequestedEntryData,
)
from spark_kafka_native._protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Types and names: ``(("user", "alice"), ("client-id", None))``. None is the default of the type."""

_EXACTLY: Final = 0
_THE_DEFAULT: Final = 1
_ANY: Final = 2


@dataclasses.dataclass(frozen=True, slots=True)
class AnyName:
    """Stands for every name of a type and for its default, in ``describe_quotas``."""


ANY_NAME: Final = AnyName()


def describe_quotas(cluster: Cluster, wanted: Mapping[str, str | AnyName | None]) -> dict[Entity, dict[str, float]]:
    """The quotas of entities that have exactly the types of ``wanted``. Raises KafkaError."""
    components = tuple(_component(kind, name) for kind, name in wanted.items())
    response = cluster.send(None, DescribeClientQuotasRequest(components=components, strict=True))
    check_code(response.error_code, "quotas", response.error_message, operation="DESCRIBE_CONFIGS")
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            item.key: item.value for item in entry.values
        }
        for entry in response.entries or ()
    }


def alter_quotas(cluster: Cluster, entity: Entity, changes: Mapping[str, float | None]) -> None:
    """Set quotas of one entity, or remove those that are None. Raises KafkaError."""
    entry = RequestedEntryData(
        entity=tuple(RequestedEntityData(entity_type=kind, entity_name=name) for kind, name in entity),
        ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes.items()),
    )
    names = (f"the default {kind}" if name is None else f"{kind} {name}" for kind, name in entity)
    subject = f"quotas of {', '.join(names)}"
    for result in cluster.send(None, AlterClientQuotasRequest(entries=(entry,))).entries:
        check_code(result.error_code, subject, result.error_message, operation="ALTER_CONFIGS")


def _component(kind: str, name: str | AnyName | None) -> ComponentData:
    if isinstance(name, AnyName):
        return ComponentData(entity_type=kind, match_type=_ANY, match=None)
    return ComponentData(entity_type=kind, match_type=_THE_DEFAULT if name is None else _EXACTLY, match=name)
