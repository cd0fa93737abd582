"""AlterPartitionReassignments (45) v0-v1: move partitions between brokers (KIP-455).

v0  flexible
v1  whether the number of replicas may change (KIP-860)

With one broker the request either names the present replica, or a broker that does not exist.
"""

from collections.abc import Sequence

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.controller import check_replicas
from broker_embedded._metadata.image import ClusterImage
from broker_embedded._metadata.topics import Topics
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from spark_kafka_native._protocol.topic import MAX_TOPIC_NAME_LENGTH


@handles(AlterPartitionReassignmentsRequest, "0-1")
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, _context: RequestContext, topics: Topics
) -> AlterPartitionReassignmentsResponse:
    """An error code per partition; none is moved."""
    image = topics.image
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name, partitions=tuple(_result(topic.name, wanted, image) for wanted in topic.partitions)
            )
            for topic in request.topics
        ),
    )


def _result(name: str, wanted: ReassignablePartition, image: ClusterImage) -> ReassignablePartitionResponse:
    code, message = ErrorCode.NONE, None
    try:
        _check(name, wanted.partition_index, wanted.replicas, image)
    except KafkaError as error:
        code, message = error.code, error.message
    return ReassignablePartitionResponse(partition_index=wanted.partition_index, error_code=code, error_message=message)


def _check(name: str, index: int, replicas: Sequence[int] | None, image: ClusterImage) -> None:
    topic = image.topic(name)
    if topic is None:
        detail = f"Unable to find a topic named {name[:MAX_TOPIC_NAME_LENGTH]}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
    if topic.partition(index) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    if replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_replicas(image, tuple(replicas))
