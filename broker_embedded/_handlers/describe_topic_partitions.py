"""DescribeTopicPartitions (75) v0: partitions of topics, page by page (KIP-966).

v0  flexible

Topics are sorted by name. A response has at most ``response_partition_limit`` partitions, bounded by
``max.request.partition.size.limit``, and the cursor of the next page. An invalid cursor makes the whole request fail,
as in Kafka.
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import TOPIC_OPERATIONS
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from broker_embedded._metadata.image import ClusterImage, TopicImage
from broker_embedded._metadata.topics import Topics
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from spark_kafka_native._protocol.topic import topic_name_problem


@handles(DescribeTopicPartitionsRequest, "0")
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, _context: RequestContext, configs: DynamicConfigs, topics: Topics
) -> DescribeTopicPartitionsResponse:
    """The next page."""
    image, cursor = topics.image, request.cursor
    named = {topic.name for topic in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (named and cursor.topic_name not in named)):
        return _refused(request)
    start = cursor or Cursor()
    names = sorted(name for name in named or image.topics if name >= start.topic_name)
    limit = max(1, min(configs.config.max_request_partition_size_limit, request.response_partition_limit))
    return _page(names, start, limit, image)


def _page(names: list[str], start: Cursor, limit: int, image: ClusterImage) -> DescribeTopicPartitionsResponse:
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        topic = image.topic(name)
        if limit == 0:
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=Cursor(topic_name=name))
        if topic is None:
            topics.append(_missing(name))
            continue
        first = start.partition_index if name == start.topic_name else 0
        until = min(first + limit, len(topic.partitions))
        topics.append(_describe(topic, range(first, until)))
        if until < len(topic.partitions):
            following = Cursor(topic_name=name, partition_index=until)
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=following)
        limit -= max(0, until - first)
    return DescribeTopicPartitionsResponse(topics=tuple(topics))


def _describe(topic: TopicImage, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                eligible_leader_replicas=(),
                last_known_elr=(),
            )
            for index, partition in ((index, topic.partitions[index]) for index in indexes)
        ),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    valid = topic_name_problem(name) is None
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=tuple(
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in request.topics
        )
    )
