"""AlterClientQuotas (49) v0-v1: set and remove quotas (KIP-546).

v1  flexible

The changes of each entity are atomic and independent of other entities. A repeated entity gets INVALID_REQUEST although
the first change takes effect, as in Apache Kafka.
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.client_quotas import ClientQuotas
from broker_embedded._quotas.entities import ClientQuotaEntity
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)


@handles(AlterClientQuotasRequest, "0-1")
async def alter_client_quotas(
    request: AlterClientQuotasRequest, _context: RequestContext, quotas: ClientQuotas
) -> AlterClientQuotasResponse:
    """Change the quotas, durably. They are in effect before the response is sent."""
    changes = [
        (ClientQuotaEntity.of((part.entity_type, part.entity_name) for part in entry.entity), entry.ops)
        for entry in request.entries
    ]
    try:
        results = await quotas.alter(changes, validate_only=request.validate_only)
    except KafkaError as error:
        results = {entity: error for entity, _ in changes}
    return AlterClientQuotasResponse(entries=tuple(_entry(entity, error) for entity, error in results.items()))


def _entry(entity: ClientQuotaEntity, error: KafkaError | None) -> EntryData:
    return EntryData(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts),
    )
