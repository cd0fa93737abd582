"""DeleteTopics (20) v0-v6: delete topics and their records.

v1  throttle time
v3  TOPIC_DELETION_DISABLED; before it, INVALID_REQUEST
v4  flexible
v5  error messages
v6  topics by name or by id (KIP-516)

The response is sent when no client sees the topics any more. Their files are removed later.
"""

from typing import Final

from broker_embedded._coordinator.topic_lifecycle import TopicLifecycle
from broker_embedded._handlers.support.quota_charges import MutationCharge
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.client_quotas import ClientQuotas
from broker_embedded._metadata.controller import find_deletions
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from broker_embedded._metadata.image import TopicImage
from broker_embedded._metadata.topics import Topics
from broker_embedded._platform.timers import Timers
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_DISABLED_SINCE: Final = 3
_STATES_SINCE: Final = 6
_REFUSED_SINCE: Final = 5


@handles(DeleteTopicsRequest, "0-6")
async def delete_topics(
    request: DeleteTopicsRequest,
    context: RequestContext,
    quotas: ClientQuotas,
    configs: DynamicConfigs,
    timers: Timers,
    topic_lifecycle: TopicLifecycle,
    topics: Topics,
) -> DeleteTopicsResponse:
    """Delete the topics, each independently."""
    by_state = context.version >= _STATES_SINCE
    wanted = request.topics if by_state else tuple(DeleteTopicState(name=name) for name in request.topic_names)
    if not configs.config.delete_topic_enable:
        known = context.version >= _DISABLED_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        return DeleteTopicsResponse(responses=tuple(_refused(state, KafkaError(code)) for state in wanted))
    charge = MutationCharge(context, quotas, timers, strict_since=_REFUSED_SINCE)
    found = find_deletions(topics.image, wanted)
    return DeleteTopicsResponse(
        responses=tuple([await _delete(state, meant, topic_lifecycle, charge) for state, meant in found])
    )


async def _delete(
    state: DeleteTopicState, meant: TopicImage | KafkaError, topic_lifecycle: TopicLifecycle, charge: MutationCharge
) -> DeletableTopicResult:
    try:
        if isinstance(meant, KafkaError):
            raise meant
        charge.take(len(meant.partitions))
        await topic_lifecycle.delete(meant)
    except KafkaError as error:
        return _refused(state, error)
    return DeletableTopicResult(name=meant.name, topic_id=meant.topic_id)


def _refused(state: DeleteTopicState, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name,
        topic_id=state.topic_id,
        error_code=error.code,
        error_message=error.message,
    )
