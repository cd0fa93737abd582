"""AlterReplicaLogDirs (34) v0-v2: move replicas between the directories of a broker (KIP-113).

v1  the response is sent before throttling
v2  flexible

This broker has one directory, so that no replica can be moved.
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._log.manager import LogManager
from broker_embedded._metadata.topics import Topics
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

_LONGEST_NAME = 255
_FUTURE_SUFFIX = len(".") + 32 + len("-future")


@handles(AlterReplicaLogDirsRequest, "0-2")
def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, _context: RequestContext, logs: LogManager, topics: Topics
) -> AlterReplicaLogDirsResponse:
    """An error code per replica: none if it is in the requested directory."""
    codes = {
        (topic.name, index): _code(wanted.path, topic.name, index, logs, topics)
        for wanted in request.dirs
        for topic in wanted.topics
        for index in topic.partitions
    }
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), code in codes.items():
        result = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
        results.setdefault(topic, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(topic_name=topic, partitions=tuple(partitions))
            for topic, partitions in results.items()
        )
    )


def _code(path: str, topic: str, index: int, logs: LogManager, topics: Topics) -> ErrorCode:
    # A replica that is moved has a directory name of this length, and Kafka checks that first.
    if len(f"{topic}-{index}") + _FUTURE_SUFFIX > _LONGEST_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path != logs.data_dir:
        return ErrorCode.LOG_DIR_NOT_FOUND
    image = topics.image.topic(topic)
    if image is None or image.partition(index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
