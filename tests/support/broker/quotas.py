"""Quotas in few words."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from spark_kafka_native._protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestedEntityData,
    RequestedEntryData,
)
from spark_kafka_native._protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from spark_kafka_native._protocol.schema import Request, Response

ResponseT = TypeVar("ResponseT", bound=Response)


class Asks(Protocol):
    """A broker that answers requests."""

    def ask(self, request: Request[ResponseT], version: int) -> ResponseT:
        """The response to one request."""
        ...


def entry(entity: Mapping[str, str | None], **values: float | None) -> RequestedEntryData:
    """A change of one entity's quotas, None to remove one; the name None is the default of its type."""
    return RequestedEntryData(
        entity=tuple(RequestedEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()),
        ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()),
    )


def alter(broker: Asks, entity: Mapping[str, str | None], **values: float | None) -> None:
    """Change one entity's quotas."""
    (answered,) = broker.ask(AlterClientQuotasRequest(entries=(entry(entity, **values),)), 1).entries
    assert answered.error_code == 0, answered


def describe(
    broker: Asks, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> DescribeClientQuotasResponse:
    """The quotas that match a filter: type of entity, type of match, and name."""
    parts = (ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components)
    return broker.ask(DescribeClientQuotasRequest(components=tuple(parts), strict=strict), version)


def quotas_of(broker: Asks) -> dict[str, dict[str, float]]:
    """Every quota there is: ``{"user=ann, client-id=<default>": {"producer_byte_rate": 1024.0}}``."""
    return formatted(describe(broker))


def formatted(response: DescribeClientQuotasResponse) -> dict[str, dict[str, float]]:
    """What a DescribeClientQuotas says."""
    return {
        ", ".join(sorted(f"{part.entity_type}={part.entity_name or '<default>'}" for part in each.entity)): {
            value.key: value.value for value in each.values
        }
        for each in response.entries or ()
    }
