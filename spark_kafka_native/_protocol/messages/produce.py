"""Produce (0): append record batches to partitions.

v1   throttle time
v2   message format v1; log append time in the response
v3   record format v2; transactional id
v4   KAFKA_STORAGE_ERROR may come back
v5   log start offset in the response
v7   zstd (KIP-110)
v8   errors of single records (KIP-467)
v9   flexible
v10  new leaders in the response (KIP-951)
v11  TRANSACTION_ABORTABLE (KIP-890)
v12  a transactional Produce adds its partitions to the transaction (KIP-890)
v13  topic ids instead of names (KIP-516)

With acks=0 there is no response.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Int16, Int32, Int64, Records, String, Uuid


@struct
class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32 = field("8+", default=0)
    batch_index_error_message: String | None = field("8+", default=None)


@struct
class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field("10+", default=-1)
    leader_epoch: Int32 = field("10+", default=-1)


@struct
class PartitionProduceResponse(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = field("2+", default=-1, ignorable=True)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = field("8+", default=(), ignorable=True)
    error_message: String | None = field("8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field("10+", default=LeaderIdAndEpoch(), tag=0)


@struct
class TopicProduceResponse(Struct):
    name: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


@struct
class NodeEndpoint(Struct):
    node_id: Int32 = field("10+", default=0)
    host: String = field("10+", default="")
    port: Int32 = field("10+", default=0)
    rack: String | None = field("10+", default=None)


@message(api_key=0, versions="0-13", flexible="9+")
class ProduceResponse(Response):
    """The base offset given to each partition's batches, or why they were refused."""

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    node_endpoints: tuple[NodeEndpoint, ...] = field("10+", default=(), tag=0)


@struct
class PartitionProduceData(Struct):
    index: Int32 = 0
    records: Records | None = None


@struct
class TopicProduceData(Struct):
    name: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partition_data: tuple[PartitionProduceData, ...] = ()


@message(api_key=0, versions="0-13", flexible="9+")
class ProduceRequest(Request[ProduceResponse]):
    """Append batches; ``timeout_ms`` bounds the wait for in-sync replicas when ``acks`` is -1."""

    transactional_id: String | None = field("3+", default=None)
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: tuple[TopicProduceData, ...] = ()
