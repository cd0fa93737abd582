"""DescribeQuorum (55): leader, voters and observers of the metadata log (KIP-595).

v0  flexible from the first
v1  times of the last fetch and of the last catch-up (KIP-836)
v2  directories, listeners and error messages (KIP-853)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Int16, Int32, Int64, String, UInt16, Uuid


@struct
class ReplicaState(Struct):
    replica_id: Int32 = 0
    replica_directory_id: Uuid = field("2+", default=ZERO_UUID)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = field("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = field("1+", default=-1, ignorable=True)


@struct
class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field("2+", default="", ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


@struct
class TopicData(Struct):
    topic_name: String = ""
    partitions: tuple[PartitionData, ...] = ()


@struct
class Listener(Struct):
    name: String = field("2+", default="")
    host: String = field("2+", default="")
    port: UInt16 = field("2+", default=0)


@struct
class Node(Struct):
    node_id: Int32 = field("2+", default=0)
    listeners: tuple[Listener, ...] = field("2+", default=())


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse(Response):
    error_code: Int16 = 0
    error_message: String | None = field("2+", default="", ignorable=True)
    topics: tuple[TopicData, ...] = ()
    nodes: tuple[Node, ...] = field("2+", default=())


@struct
class RequestedPartitionData(Struct):
    partition_index: Int32 = 0


@struct
class RequestedTopicData(Struct):
    topic_name: String = ""
    partitions: tuple[RequestedPartitionData, ...] = ()


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest(Request[DescribeQuorumResponse]):
    """Ask about the quorum of a partition, in practice of __cluster_metadata-0."""

    topics: tuple[RequestedTopicData, ...] = ()
