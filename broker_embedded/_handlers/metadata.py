"""Metadata (3) v0-v13: brokers, topics, partitions and their leaders.

v0   an empty list requests all topics
v1   null requests all topics, an empty list none; controller, rack, internal topics
v4   allow_auto_topic_creation
v8   authorized operations; all of them, because there is no authorizer
v10  topic ids in the response
v12  topics may be requested by id (KIP-516)
v13  a top-level error, never set by this broker

A missing topic is created and returned at once if auto.create.topics.enable and the request allow it. Apache Kafka
responds UNKNOWN_TOPIC_OR_PARTITION first, and the client retries.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from broker_embedded._coordinator.topic_lifecycle import TopicLifecycle
from broker_embedded._handlers.support.quota_charges import charge_silently
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from broker_embedded._metadata.client_quotas import ClientQuotas
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from broker_embedded._metadata.image import TopicImage
from broker_embedded._metadata.topics import Topics
from broker_embedded._platform.timers import Timers
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS, topic_name_problem
from spark_kafka_native._protocol.wire import ZERO_UUID

_BY_ID_SINCE: Final = 12
_Create: TypeAlias = Callable[[str], Awaitable[TopicImage]]
"""Creates a topic with the broker's defaults. Raises KafkaError."""


@handles(MetadataRequest, "0-13")
async def metadata(
    request: MetadataRequest,
    context: RequestContext,
    quotas: ClientQuotas,
    configs: DynamicConfigs,
    timers: Timers,
    topic_lifecycle: TopicLifecycle,
    topics: Topics,
) -> MetadataResponse:
    """The cluster, and the requested topics."""
    if context.version < _BY_ID_SINCE and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in request.topics or ()
    ):
        return _refused(request.topics or ())
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    cluster_operations = CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED

    async def create(name: str) -> TopicImage:
        if name not in INTERNAL_TOPICS:
            charge_silently(context, quotas, timers, configs.config.num_partitions)
        return await topic_lifecycle.require(name)

    may_create = request.allow_auto_topic_creation and configs.config.auto_create_topics_enable
    found = await _topics(request, context.version, topics, create if may_create else None, operations)
    image, node = topics.image, context.node
    return MetadataResponse(
        brokers=(MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack),),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=tuple(found),
        cluster_authorized_operations=cluster_operations,
    )


async def _topics(
    request: MetadataRequest, version: int, topics: Topics, create: _Create | None, operations: int
) -> Iterable[MetadataResponseTopic]:
    image = topics.image
    if request.topics is None or (version == 0 and not request.topics):
        return [_describe(topic, operations) for topic in image.topics.values()]
    # A repeated topic is answered once.
    ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != ZERO_UUID)
    if ids:
        by_id = {topic_id: image.topic_by_id(topic_id) for topic_id in ids}
        return [
            MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
            if topic is None
            else _describe(topic, operations)
            for topic_id, topic in by_id.items()
        ]
    names = dict.fromkeys(topic.name for topic in request.topics if topic.name is not None)
    return [await _by_name(name, topics, create, operations) for name in names]


def _refused(topics: Iterable[MetadataRequestTopic]) -> MetadataResponse:
    """The response to requests by topic id in v10 and v11, which do not allow them."""
    return MetadataResponse(
        topics=tuple(
            MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)
            for topic in topics
        )
    )


async def _by_name(name: str, topics: Topics, create: _Create | None, operations: int) -> MetadataResponseTopic:
    topic = topics.image.topic(name)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None and topic_name_problem(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif topic is None and create is not None:
        try:
            topic = await create(name)
        except KafkaError as error:  # over controller_mutation_rate the client retries, as for a missing topic
            code = code if error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED else error.code
    if topic is not None:
        return _describe(topic, operations)
    return MetadataResponseTopic(
        error_code=code, name=name, is_internal=name in INTERNAL_TOPICS, topic_authorized_operations=operations
    )


def _describe(topic: TopicImage, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            MetadataResponsePartition(
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
            )
            for index, partition in enumerate(topic.partitions)
        ),
        topic_authorized_operations=operations,
    )
