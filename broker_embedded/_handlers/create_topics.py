"""CreateTopics (19) v0-v7: create topics.

v1  error messages; validate only
v2  throttle time
v4  -1 partitions or replicas: num.partitions, default.replication.factor (KIP-464, since 2.4)
v5  flexible; the topic's configuration in the response (KIP-525)
v6  THROTTLING_QUOTA_EXCEEDED (KIP-599)
v7  topic ids

The response is sent when every client can use the topics, independently of ``timeout_ms``. Each topic is created
independently. A repeated topic is answered once, with INVALID_REQUEST.
"""

from collections import Counter
from typing import Final

from broker_embedded._config.releases import Release
from broker_embedded._handlers.support.quota_charges import MutationCharge
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.client_quotas import ClientQuotas
from broker_embedded._metadata.config_entries import topic_entries
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from broker_embedded._metadata.image import TopicImage
from broker_embedded._metadata.topics import Topics
from broker_embedded._platform.timers import Timers
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_REFUSED_SINCE: Final = 6
_DEFAULTS_SINCE: Final = "2.4"


@handles(CreateTopicsRequest, "0-7")
async def create_topics(
    request: CreateTopicsRequest,
    context: RequestContext,
    quotas: ClientQuotas,
    configs: DynamicConfigs,
    timers: Timers,
    topics: Topics,
) -> CreateTopicsResponse:
    """Create the topics, or only check that they could be created."""
    times = Counter(topic.name for topic in request.topics)
    results, charge = [], MutationCharge(context, quotas, timers, strict_since=_REFUSED_SINCE)
    for wanted in {topic.name: topic for topic in request.topics}.values():
        try:
            if times[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
            _check_counts(wanted, configs.config.release)
            topic = await _create(wanted, request.validate_only, topics, charge)
            results.append(_created(topic, topics, configs))
        except KafkaError as error:
            results.append(CreatableTopicResult(name=wanted.name, error_code=error.code, error_message=error.message))
    return CreateTopicsResponse(topics=tuple(results))


def _check_counts(wanted: CreatableTopic, release: Release) -> None:
    """Raise KafkaError for counts of -1 in a release that has no defaults for them (before KIP-464)."""
    if wanted.assignments or release.since(_DEFAULTS_SINCE):
        return
    if wanted.num_partitions <= 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if wanted.replication_factor <= 0:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")


async def _create(wanted: CreatableTopic, validate_only: bool, topics: Topics, charge: MutationCharge) -> TopicImage:
    plan = topics.plan(wanted)
    charge.take(len(plan.partitions))
    return plan if validate_only else await topics.create(wanted)


def _created(topic: TopicImage, topics: Topics, configs: DynamicConfigs) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=_configs(topic, topics, configs),
    )


def _configs(topic: TopicImage, topics: Topics, configs: DynamicConfigs) -> tuple[CreatableTopicConfigs, ...]:
    """Every setting of the topic, with the source of its value."""
    return tuple(
        CreatableTopicConfigs(name=entry.key, value=entry.value, config_source=entry.source)
        for entry in topic_entries(topics.log_config(topic), topic.configs, configs)
    )
