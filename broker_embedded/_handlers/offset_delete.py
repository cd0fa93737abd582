"""OffsetDelete (47) v0: delete offsets of a group in topics that its members do not subscribe to."""

from broker_embedded._coordinator.groups import Groups
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.topics import Topics
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition


@handles(OffsetDeleteRequest, "0")
async def offset_delete(
    request: OffsetDeleteRequest, _context: RequestContext, groups: Groups, topics: Topics
) -> OffsetDeleteResponse:
    """An error code per partition, or one for the group."""
    image = topics.image
    wanted = [
        TopicPartition(topic.name, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
        if (found := image.topic(topic.name)) is not None and found.partition(part.partition_index) is not None
    ]
    try:
        codes = await groups.delete_offsets(request.group_id, wanted)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    return OffsetDeleteResponse(
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=part.partition_index,
                        error_code=codes.get(
                            TopicPartition(topic.name, part.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    )
                    for part in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
