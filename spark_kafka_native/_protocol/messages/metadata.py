"""Metadata (3): brokers, topics, partitions and their leaders.

v1   null asks for all topics, an empty list for none; controller, rack, internal topics
v2   cluster id
v3   throttle time
v4   the client says whether a missing topic may be created
v5   offline replicas
v6   brokers answer before they throttle
v7   leader epochs (KIP-320)
v8   authorized operations
v9   flexible
v10  topic ids in the response; nullable names
v11  cluster operations are left to DescribeCluster (KIP-700)
v12  topics may be requested by id (KIP-516)
v13  a top-level error: REBOOTSTRAP_REQUIRED (KIP-1102)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Bool, Int16, Int32, String, Uuid


@struct
class MetadataResponseBroker(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = field("1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: tuple[Int32, ...] = field("5+", default=(), ignorable=True)


@struct
class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: String | None = field("0+", default="", nullable="12+")
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    is_internal: Bool = field("1+", default=False, ignorable=True)
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Int32 = field("8+", default=-2147483648)


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse(Response):
    """Brokers, and the requested topics."""

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: String | None = field("2+", default=None, ignorable=True)
    controller_id: Int32 = field("1+", default=-1, ignorable=True)
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Int32 = field("8-10", default=-2147483648)
    error_code: Int16 = field("13+", default=0, ignorable=True)


@struct
class MetadataRequestTopic(Struct):
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    name: String | None = field("0+", default="", nullable="10+")


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest(Request[MetadataResponse]):
    """Ask for brokers and topics; ``topics=None`` is all topics (v1+; in v0 an empty list is)."""

    topics: tuple[MetadataRequestTopic, ...] | None = field("0+", default=(), nullable="1+")
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10", default=False)
    include_topic_authorized_operations: Bool = field("8+", default=False)
