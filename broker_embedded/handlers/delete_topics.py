"""DeleteTopics (20) v0-v6: remove topics and their records.

v1  throttle time
v3  TOPIC_DELETION_DISABLED; before it, INVALID_REQUEST
v4  flexible
v5  error messages
v6  topics by name or by id (KIP-516)

Answered when the topics are gone for every client; their files leave the disk in the background.
"""

from typing import Final

from broker_embedded.handlers.support.registry import RequestContext, handles
from broker_embedded.handlers.support.throttling import MutationCharge
from broker_embedded.metadata.controller import find_deletions
from broker_embedded.metadata.image import TopicImage
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_DISABLED_SINCE: Final = 3
_STATES_SINCE: Final = 6
_REFUSED_SINCE: Final = 5


@handles(DeleteTopicsRequest, "0-6")
async def delete_topics(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Delete the topics; each stands for itself."""
    by_state = context.version >= _STATES_SINCE
    wanted = request.topics if by_state else tuple(DeleteTopicState(name=name) for name in request.topic_names)
    if not context.broker.config.delete_topic_enable:
        known = context.version >= _DISABLED_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        return DeleteTopicsResponse(responses=tuple(_refused(state, KafkaError(code)) for state in wanted))
    charge = MutationCharge(context, strict_since=_REFUSED_SINCE)
    found = find_deletions(context.broker.image, wanted)
    return DeleteTopicsResponse(
        responses=tuple([await _delete(state, meant, context, charge) for state, meant in found])
    )


async def _delete(
    state: DeleteTopicState, meant: TopicImage | KafkaError, context: RequestContext, charge: MutationCharge
) -> DeletableTopicResult:
    try:
        if isinstance(meant, KafkaError):
            raise meant
        charge.take(len(meant.partitions))
        await context.broker.delete_topic(meant)
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
