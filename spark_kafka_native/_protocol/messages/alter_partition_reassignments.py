"""AlterPartitionReassignments (45): move partitions between brokers (KIP-455).

v0  flexible from the first
v1  whether the replication factor may change (KIP-860)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Bool, Int16, Int32, String


@struct
class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@struct
class ReassignableTopicResponse(Struct):
    name: String = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Response):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = field("1+", default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: tuple[ReassignableTopicResponse, ...] = ()


@struct
class ReassignablePartition(Struct):
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] | None = None


@struct
class ReassignableTopic(Struct):
    name: String = ""
    partitions: tuple[ReassignablePartition, ...] = ()


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    """Begin reassignments; ``replicas=None`` cancels one."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = field("1+", default=True)
    topics: tuple[ReassignableTopic, ...] = ()
