"""ElectLeaders (43) v0-v2: elect the leaders of partitions (KIP-183).

v1  unclean elections too (KIP-460)
v2  flexible

With one broker each partition is led by its preferred replica, so that no election is necessary. A request for all
partitions therefore gets none. An unknown election type is refused, as in Kafka unless no partition is named.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Final

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.image import ClusterImage
from broker_embedded._metadata.topics import Topics
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from spark_kafka_native._protocol.topic import MAX_TOPIC_NAME_LENGTH

_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_NO_SUCH: Final = (ErrorCode.INVALID_REQUEST, "There is no such type of election")


@handles(ElectLeadersRequest, "0-2")
def elect_leaders(request: ElectLeadersRequest, _context: RequestContext, topics: Topics) -> ElectLeadersResponse:
    """ELECTION_NOT_NEEDED for each existing partition."""
    image, wanted = topics.image, request.topic_partitions
    if request.election_type not in {_PREFERRED, _UNCLEAN} and wanted != ():
        return ElectLeadersResponse(
            error_code=ErrorCode.INVALID_REQUEST, replica_election_results=_results(wanted or (), lambda *_: _NO_SUCH)
        )
    if wanted is None:
        return ElectLeadersResponse(
            replica_election_results=tuple(ReplicaElectionResult(topic=name) for name in image.topics)
        )
    return ElectLeadersResponse(replica_election_results=_results(wanted, functools.partial(_outcome, image)))


def _results(
    wanted: Sequence[TopicPartitions], outcome: Callable[[str, int], tuple[ErrorCode, str]]
) -> tuple[ReplicaElectionResult, ...]:
    def result(topic: str, index: int) -> PartitionResult:
        code, message = outcome(topic, index)
        return PartitionResult(partition_id=index, error_code=code, error_message=message)

    return tuple(
        ReplicaElectionResult(
            topic=topic.topic, partition_result=tuple(result(topic.topic, index) for index in topic.partitions)
        )
        for topic in wanted
    )


def _outcome(image: ClusterImage, name: str, index: int) -> tuple[ErrorCode, str]:
    topic = image.topic(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name[:MAX_TOPIC_NAME_LENGTH]}"
    if topic.partition(index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    return ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.message
