"""OffsetDelete (47): remove committed offsets of topics that no member of the group reads (KIP-496).

v0  never flexible
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, String


@struct
class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic(Struct):
    name: String = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


@message(api_key=47, versions="0", flexible="none")
class OffsetDeleteResponse(Response):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


@struct
class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic(Struct):
    name: String = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


@message(api_key=47, versions="0", flexible="none")
class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    group_id: String = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()
