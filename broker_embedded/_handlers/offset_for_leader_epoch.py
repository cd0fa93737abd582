"""OffsetForLeaderEpoch (23) v0-v4: end offsets of leader epochs (KIP-101, KIP-279).

v1  leader epoch in the response
v2  current leader epoch in the request (KIP-320)
v3  replica id, ignored
v4  flexible

For an unknown epoch the response has the largest known epoch before it; for a future epoch -1 and no error.
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._replica.partitions import Partitions
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@handles(OffsetForLeaderEpochRequest, "0-4")
def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, _context: RequestContext, partitions: Partitions
) -> OffsetForLeaderEpochResponse:
    """An epoch and its end offset for each requested partition."""
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_look_up(topic.topic, part, partitions) for part in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _look_up(topic: str, wanted: OffsetForLeaderPartition, partitions: Partitions) -> EpochEndOffset:
    try:
        partition = partitions.get(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        if wanted.leader_epoch == partition.leader_epoch:
            epoch, end_offset = partition.leader_epoch, partition.log.log_end_offset
        else:
            epoch, end_offset = partition.log.end_of_leader_epoch(wanted.leader_epoch) or (-1, -1)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
