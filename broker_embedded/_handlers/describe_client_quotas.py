"""DescribeClientQuotas (48) v0-v1: the quotas of the entities that match a filter (KIP-546).

v1  flexible
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.client_quotas import ClientQuotas
from broker_embedded._quotas.entities import EntityFilter
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


@handles(DescribeClientQuotasRequest, "0-1")
def describe_client_quotas(
    request: DescribeClientQuotasRequest, _context: RequestContext, quotas: ClientQuotas
) -> DescribeClientQuotasResponse:
    """Every entity that matches, with the quotas that are set for it directly."""
    try:
        wanted = EntityFilter(request.components, strict=request.strict)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=tuple(
            EntryData(
                entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts),
                values=tuple(ValueData(key=key, value=value) for key, value in values.items()),
            )
            for entity, values in quotas.describe(wanted)
        ),
    )
