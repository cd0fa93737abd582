"""ConsumerGroupHeartbeat (68): join, stay in and leave a consumer group of the new protocol (KIP-848).

v0  flexible from the first
v1  subscriptions by regular expression; the client makes its member id (KIP-1082)

Member epochs: 0 joins, -1 leaves, -2 leaves for a while (static members). Null fields are as they were last.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Int16, Int32, String, Uuid


@struct
class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


@struct
class Assignment(Struct):
    topic_partitions: tuple[TopicPartitions, ...] = ()


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Response):
    """The member's epoch, and its assignment if that has changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse]):
    """Say what has changed at a member since its last heartbeat."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: tuple[String, ...] | None = None
    subscribed_topic_regex: String | None = field("1+", default=None)
    server_assignor: String | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None
