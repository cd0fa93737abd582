"""OffsetFetch (9): a group's committed positions.

v1   offsets in the log of __consumer_offsets; v0 reads those in ZooKeeper
v2   null asks for all topics; top-level error
v3   throttle time
v4   brokers answer before they throttle
v5   leader epochs (KIP-320)
v6   flexible
v7   the client may insist on stable offsets (KIP-447)
v8   several groups in one request (KIP-709)
v9   the new group protocol's member epoch (KIP-848)
v10  topic ids instead of names

A partition, or a whole group, without a commit has offset -1 and no error.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Bool, Int16, Int32, Int64, String, Uuid


@struct
class OffsetFetchResponsePartition(Struct):
    partition_index: Int32 = field("0-7", default=0)
    committed_offset: Int64 = field("0-7", default=0)
    committed_leader_epoch: Int32 = field("5-7", default=-1, ignorable=True)
    metadata: String | None = field("0-7", default="")
    error_code: Int16 = field("0-7", default=0)


@struct
class OffsetFetchResponseTopic(Struct):
    name: String = field("0-7", default="")
    partitions: tuple[OffsetFetchResponsePartition, ...] = field("0-7", default=())


@struct
class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32 = field("8+", default=0)
    committed_offset: Int64 = field("8+", default=0)
    committed_leader_epoch: Int32 = field("8+", default=-1, ignorable=True)
    metadata: String | None = field("8+", default="")
    error_code: Int16 = field("8+", default=0)


@struct
class OffsetFetchResponseTopics(Struct):
    name: String = field("8-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: tuple[OffsetFetchResponsePartitions, ...] = field("8+", default=())


@struct
class OffsetFetchResponseGroup(Struct):
    group_id: String = field("8+", default="")
    topics: tuple[OffsetFetchResponseTopics, ...] = field("8+", default=())
    error_code: Int16 = field("8+", default=0)


@message(api_key=9, versions="0-10", flexible="6+")
class OffsetFetchResponse(Response):
    """Committed offset, leader epoch and metadata per partition."""

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: tuple[OffsetFetchResponseTopic, ...] = field("0-7", default=())
    error_code: Int16 = field("2-7", default=0, ignorable=True)
    groups: tuple[OffsetFetchResponseGroup, ...] = field("8+", default=())


@struct
class OffsetFetchRequestTopic(Struct):
    name: String = field("0-7", default="")
    partition_indexes: tuple[Int32, ...] = field("0-7", default=())


@struct
class OffsetFetchRequestTopics(Struct):
    name: String = field("8-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: tuple[Int32, ...] = field("8+", default=())


@struct
class OffsetFetchRequestGroup(Struct):
    group_id: String = field("8+", default="")
    member_id: String | None = field("9+", default=None, ignorable=True)
    member_epoch: Int32 = field("9+", default=-1, ignorable=True)
    topics: tuple[OffsetFetchRequestTopics, ...] | None = field("8+", default=())


@message(api_key=9, versions="0-10", flexible="6+")
class OffsetFetchRequest(Request[OffsetFetchResponse]):
    """Ask for committed offsets: one group up to v7, ``groups`` from v8 on."""

    group_id: String = field("0-7", default="")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = field("0-7", default=(), nullable="2-7")
    groups: tuple[OffsetFetchRequestGroup, ...] = field("8+", default=())
    require_stable: Bool = field("7+", default=False)
