"""OffsetCommit (8): store a group's positions.

v1   generation and member; a commit time per partition
v2   retention time for all partitions
v3   throttle time
v4   brokers answer before they throttle
v5   retention time is the broker's business (KIP-211)
v6   leader epochs (KIP-320)
v7   static members (KIP-345)
v8   flexible
v9   the new group protocol's member epoch (KIP-848)
v10  topic ids instead of names

``generation_id_or_member_epoch`` -1 and an empty ``member_id`` make a commit from outside the group's membership.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Int16, Int32, Int64, String, Uuid


@struct
class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic(Struct):
    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


@message(api_key=8, versions="0-10", flexible="8+")
class OffsetCommitResponse(Response):
    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


@struct
class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field("6+", default=-1, ignorable=True)
    commit_timestamp: Int64 = field("1", default=-1)
    committed_metadata: String | None = ""


@struct
class OffsetCommitRequestTopic(Struct):
    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


@message(api_key=8, versions="0-10", flexible="8+")
class OffsetCommitRequest(Request[OffsetCommitResponse]):
    """Commit offsets: the next offset to read, per partition."""

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = field("1+", default=-1, ignorable=True)
    member_id: String = field("1+", default="", ignorable=True)
    group_instance_id: String | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1, ignorable=True)
    topics: tuple[OffsetCommitRequestTopic, ...] = ()
