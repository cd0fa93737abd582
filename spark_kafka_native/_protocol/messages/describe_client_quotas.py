"""DescribeClientQuotas (48): quotas that match a filter (KIP-546).

v1  flexible

Match types: 0 exactly that name, 1 the default entity, 2 any name.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Bool, Float64, Int8, Int16, Int32, String


@struct
class EntityData(Struct):
    entity_type: String = ""
    entity_name: String | None = ""


@struct
class ValueData(Struct):
    key: String = ""
    value: Float64 = 0.0


@struct
class EntryData(Struct):
    entity: tuple[EntityData, ...] = ()
    values: tuple[ValueData, ...] = ()


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: tuple[EntryData, ...] | None = ()


@struct
class ComponentData(Struct):
    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse]):
    components: tuple[ComponentData, ...] = ()
    strict: Bool = False
