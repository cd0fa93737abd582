"""DescribeTopicPartitions (75): partitions of topics, page by page (KIP-966).

v0  flexible from the first
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Bool, Int16, Int32, String, Uuid


@struct
class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    eligible_leader_replicas: tuple[Int32, ...] | None = None
    last_known_elr: tuple[Int32, ...] | None = None
    offline_replicas: tuple[Int32, ...] = ()


@struct
class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: Int32 = -2147483648


@struct
class Cursor(Struct):
    topic_name: String = ""
    partition_index: Int32 = 0


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Response):
    """Partitions up to the limit, and the cursor of the next request."""

    throttle_time_ms: Int32 = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: Cursor | None = None


@struct
class TopicRequest(Struct):
    name: String = ""


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse]):
    """Without topics the response has all."""

    topics: tuple[TopicRequest, ...] = ()
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None
