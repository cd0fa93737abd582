"""ElectLeaders (43): elect leaders of partitions.

v1  unclean elections (KIP-460)
v2  flexible

Election types: 0 preferred, 1 unclean. ``topic_partitions=None`` is all partitions.
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int8, Int16, Int32, String


@struct
class PartitionResult(Struct):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@struct
class ReplicaElectionResult(Struct):
    topic: String = ""
    partition_result: tuple[PartitionResult, ...] = ()


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("1+", default=0)
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()


@struct
class TopicPartitions(Struct):
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Request[ElectLeadersResponse]):
    election_type: Int8 = field("1+", default=0)
    topic_partitions: tuple[TopicPartitions, ...] | None = ()
    timeout_ms: Int32 = 60000
