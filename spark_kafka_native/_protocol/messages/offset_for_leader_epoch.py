"""OffsetForLeaderEpoch (23): where a leader epoch ended.

v1  the response names the epoch too
v2  current leader epoch in the question (KIP-320)
v3  the asker's replica id; consumers have none (KIP-320)
v4  flexible
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, Int64, String


@struct
class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = field("1+", default=-1, ignorable=True)
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult(Struct):
    topic: String = ""
    partitions: tuple[EpochEndOffset, ...] = ()


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse(Response):
    """The largest epoch not above the requested one, and its end offset."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()


@struct
class OffsetForLeaderPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
    leader_epoch: Int32 = 0


@struct
class OffsetForLeaderTopic(Struct):
    topic: String = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse]):
    replica_id: Int32 = field("3+", default=-2, ignorable=True)
    topics: tuple[OffsetForLeaderTopic, ...] = ()
