"""ListPartitionReassignments (46): moves that are under way (KIP-455).

v0  flexible from the first
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, String


@struct
class OngoingPartitionReassignment(Struct):
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()


@struct
class OngoingTopicReassignment(Struct):
    name: String = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Response):
    """The partitions that are being moved."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: tuple[OngoingTopicReassignment, ...] = ()


@struct
class ListPartitionReassignmentsTopics(Struct):
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Request[ListPartitionReassignmentsResponse]):
    """Ask for reassignments; ``topics=None`` is all."""

    timeout_ms: Int32 = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None
