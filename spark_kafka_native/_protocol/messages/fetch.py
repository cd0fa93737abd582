"""Fetch (1): record batches from partitions, from given offsets on.

v1   throttle time
v2   message format v1
v3   a limit for the whole response (KIP-74)
v4   record format v2, isolation level, aborted transactions (KIP-98)
v5   log start offset
v6   KAFKA_STORAGE_ERROR may come back
v7   fetch sessions (KIP-227)
v8   brokers answer before they throttle
v9   current leader epoch in the question (KIP-320)
v10  zstd (KIP-110)
v11  rack; preferred read replica (KIP-392)
v12  flexible; last fetched epoch and diverging epoch (KIP-595)
v13  topic ids instead of names (KIP-516)
v14  OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
v15  the replica's state instead of its id (KIP-903)
v16  new leaders in the response (KIP-951)
v17  the replica's directory (KIP-853)
v18  the replica's high watermark (KIP-1166)

``max_bytes`` is no hard limit: the first batch of the response always comes whole (KIP-74), and the last one of a
partition may be cut off.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Int8, Int16, Int32, Int64, Records, String, Uuid


@struct
class EpochEndOffset(Struct):
    epoch: Int32 = field("12+", default=-1)
    end_offset: Int64 = field("12+", default=-1)


@struct
class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field("12+", default=-1)
    leader_epoch: Int32 = field("12+", default=-1)


@struct
class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction(Struct):
    producer_id: Int64 = field("4+", default=0)
    first_offset: Int64 = field("4+", default=0)


@struct
class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = field("4+", default=-1, ignorable=True)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field("12+", default=EpochEndOffset(), tag=0)
    current_leader: LeaderIdAndEpoch = field("12+", default=LeaderIdAndEpoch(), tag=1)
    snapshot_id: SnapshotId = field("12+", default=SnapshotId(), tag=2)
    aborted_transactions: tuple[AbortedTransaction, ...] | None = field("4+", default=(), ignorable=True)
    preferred_read_replica: Int32 = field("11+", default=-1)
    records: Records | None = None


@struct
class FetchableTopicResponse(Struct):
    topic: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[PartitionData, ...] = ()


@struct
class NodeEndpoint(Struct):
    node_id: Int32 = field("16+", default=0)
    host: String = field("16+", default="")
    port: Int32 = field("16+", default=0)
    rack: String | None = field("16+", default=None)


@message(api_key=1, versions="0-18", flexible="12+")
class FetchResponse(Response):
    """Batches for each partition, with its high watermark and log start."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field("7+", default=0, ignorable=True)
    session_id: Int32 = field("7+", default=0)
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = field("16+", default=(), tag=0)


@struct
class ReplicaState(Struct):
    replica_id: Int32 = field("15+", default=-1)
    replica_epoch: Int64 = field("15+", default=-1)


@struct
class FetchPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = field("9+", default=-1, ignorable=True)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = field("12+", default=-1)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = field("17+", default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: Int64 = field("18+", default=9223372036854775807, tag=1, ignorable=True)


@struct
class FetchTopic(Struct):
    topic: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[FetchPartition, ...] = ()


@struct
class ForgottenTopic(Struct):
    topic: String = field("7-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[Int32, ...] = field("7+", default=())


@message(api_key=1, versions="0-18", flexible="12+")
class FetchRequest(Request[FetchResponse]):
    """Read from partitions; waits up to ``max_wait_ms`` for ``min_bytes``."""

    cluster_id: String | None = field("12+", default=None, tag=0, ignorable=True)
    replica_id: Int32 = field("0-14", default=-1)
    replica_state: ReplicaState = field("15+", default=ReplicaState(), tag=1)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = field("3+", default=2147483647, ignorable=True)
    isolation_level: Int8 = field("4+", default=0, ignorable=True)
    session_id: Int32 = field("7+", default=0, ignorable=True)
    session_epoch: Int32 = field("7+", default=-1, ignorable=True)
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = field("7+", default=())
    rack_id: String = field("11+", default="", ignorable=True)
