"""ListOffsets (2): the offset at a position or at a time.

v1   one offset for a timestamp, instead of a list
v2   isolation level (KIP-98)
v3   brokers answer before they throttle
v4   leader epochs (KIP-320)
v5   OFFSET_NOT_AVAILABLE
v6   flexible
v7   timestamp -3: the record with the largest timestamp (KIP-734)
v8   timestamp -4: the earliest offset on local disk (KIP-405)
v9   timestamp -5: the latest offset in tiered storage (KIP-1005)
v10  timeout for remote lookups (KIP-1075)
v11  timestamp -6: the earliest offset waiting for upload (KIP-1023)

Timestamps are milliseconds since the epoch; -1 is the end, -2 the beginning of the log.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int8, Int16, Int32, Int64, String


@struct
class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: tuple[Int64, ...] = field("0", default=())
    timestamp: Int64 = field("1+", default=-1)
    offset: Int64 = field("1+", default=-1)
    leader_epoch: Int32 = field("4+", default=-1)


@struct
class ListOffsetsTopicResponse(Struct):
    name: String = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


@message(api_key=2, versions="0-11", flexible="6+")
class ListOffsetsResponse(Response):
    """Offset and timestamp per partition; offset -1 where no record is that young."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: tuple[ListOffsetsTopicResponse, ...] = ()


@struct
class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Int32 = field("4+", default=-1, ignorable=True)
    timestamp: Int64 = 0
    max_num_offsets: Int32 = field("0", default=1)


@struct
class ListOffsetsTopic(Struct):
    name: String = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


@message(api_key=2, versions="0-11", flexible="6+")
class ListOffsetsRequest(Request[ListOffsetsResponse]):
    replica_id: Int32 = 0
    isolation_level: Int8 = field("2+", default=0)
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Int32 = field("10+", default=0, ignorable=True)
