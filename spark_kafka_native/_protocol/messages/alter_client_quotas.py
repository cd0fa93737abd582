"""AlterClientQuotas (49): set or remove quotas (KIP-546).

v1  flexible

An entity whose name is null is the default of its type.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Bool, Float64, Int16, Int32, String


@struct
class EntityData(Struct):
    entity_type: String = ""
    entity_name: String | None = ""


@struct
class EntryData(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    entity: tuple[EntityData, ...] = ()


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Response):
    throttle_time_ms: Int32 = 0
    entries: tuple[EntryData, ...] = ()


@struct
class RequestedEntityData(Struct):
    entity_type: String = ""
    entity_name: String | None = ""


@struct
class OpData(Struct):
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@struct
class RequestedEntryData(Struct):
    entity: tuple[RequestedEntityData, ...] = ()
    ops: tuple[OpData, ...] = ()


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Request[AlterClientQuotasResponse]):
    """Change quotas, or with ``validate_only`` check that they could be."""

    entries: tuple[RequestedEntryData, ...] = ()
    validate_only: Bool = False
