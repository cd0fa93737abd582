"""ConsumerGroupDescribe (69): state and members of consumer groups of the new protocol (KIP-848).

v0  flexible from the first
v1  member types (KIP-1099)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid


@struct
class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: tuple[Int32, ...] = ()


@struct
class Assignment(Struct):
    topic_partitions: tuple[TopicPartitions, ...] = ()


@struct
class Member(Struct):
    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    subscribed_topic_regex: String | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: Int8 = field("1+", default=-1, ignorable=True)


@struct
class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = -2147483648


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Response):
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse]):
    group_ids: tuple[String, ...] = ()
    include_authorized_operations: Bool = False
