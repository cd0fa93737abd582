"""DeleteRecords (21): let partitions start later.

v1  brokers answer before they throttle
v2  flexible

Offset -1 stands for the high watermark.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, Int64, String


@struct
class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult(Struct):
    name: String = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Response):
    """The low watermark of each partition: its new first offset."""

    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()


@struct
class DeleteRecordsPartition(Struct):
    partition_index: Int32 = 0
    offset: Int64 = 0


@struct
class DeleteRecordsTopic(Struct):
    name: String = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Request[DeleteRecordsResponse]):
    """Delete all records before an offset, per partition."""

    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: Int32 = 0
