"""DescribeProducers (61): producers that partitions remember (KIP-664).

v0  flexible from the first
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, Int64, String


@struct
class ProducerState(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: tuple[ProducerState, ...] = ()


@struct
class TopicResponse(Struct):
    name: String = ""
    partitions: tuple[PartitionResponse, ...] = ()


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Response):
    throttle_time_ms: Int32 = 0
    topics: tuple[TopicResponse, ...] = ()


@struct
class TopicRequest(Struct):
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Request[DescribeProducersResponse]):
    topics: tuple[TopicRequest, ...] = ()
