"""AlterReplicaLogDirs (34): move replicas between directories of a broker (KIP-113).

v1  brokers answer before they throttle
v2  flexible
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, String


@struct
class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String = ""
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = ()


@message(api_key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()


@struct
class AlterReplicaLogDirTopic(Struct):
    name: String = ""
    partitions: tuple[Int32, ...] = ()


@struct
class AlterReplicaLogDir(Struct):
    path: String = ""
    topics: tuple[AlterReplicaLogDirTopic, ...] = ()


@message(api_key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest(Request[AlterReplicaLogDirsResponse]):
    dirs: tuple[AlterReplicaLogDir, ...] = ()
