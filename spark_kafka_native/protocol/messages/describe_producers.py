"""DescribeProducers (61): producers that partitions remember (KIP-664).

v0  flexible from the first
"""

from spark_kafka_native.protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native.protocol.wire import Int16, Int32, Int64, String


@struct
class ProducerState(Struct):
    """One entry of ``active_producers``."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse(Struct):
    """One entry of ``partitions``."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: tuple[ProducerState, ...] = ()


@struct
class TopicResponse(Struct):
    """One entry of ``topics``."""

    name: String = ""
    partitions: tuple[PartitionResponse, ...] = ()


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Response):
    """The producers of each partition."""

    throttle_time_ms: Int32 = 0
    topics: tuple[TopicResponse, ...] = ()


@struct
class TopicRequest(Struct):
    """One entry of ``topics``."""

    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Request[DescribeProducersResponse]):
    """Ask for the active producers of partitions."""

    topics: tuple[TopicRequest, ...] = ()
