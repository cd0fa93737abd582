"""TxnOffsetCommit (28): commit positions of a group that count once the transaction does (KIP-98).

v1  brokers answer before they throttle
v2  leader epochs
v3  flexible; member and generation (KIP-447)
v4  TRANSACTION_ABORTABLE (KIP-890)
v5  needs no AddOffsetsToTxn before it (KIP-890)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, Int64, String


@struct
class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic(Struct):
    name: String = ""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


@message(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse(Response):
    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()


@struct
class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
    committed_metadata: String | None = ""


@struct
class TxnOffsetCommitRequestTopic(Struct):
    name: String = ""
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


@message(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse]):
    """Commit positions within a transaction."""

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = field("3+", default=-1)
    member_id: String = field("3+", default="")
    group_instance_id: String | None = field("3+", default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()
