"""CreatePartitions (37) v0-v3: add partitions to topics.

v2  flexible
v3  THROTTLING_QUOTA_EXCEEDED (KIP-599)

The response is sent when the partitions exist. Each topic is changed independently. A repeated topic is answered once,
with INVALID_REQUEST.
"""

from collections import Counter
from typing import Final

from broker_embedded._handlers.support.quota_charges import MutationCharge
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.client_quotas import ClientQuotas
from broker_embedded._metadata.topics import Topics
from broker_embedded._platform.timers import Timers
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_REFUSED_SINCE: Final = 3


@handles(CreatePartitionsRequest, "0-3")
async def create_partitions(
    request: CreatePartitionsRequest, context: RequestContext, quotas: ClientQuotas, timers: Timers, topics: Topics
) -> CreatePartitionsResponse:
    """Add the partitions, or only check that they could be added."""
    times = Counter(topic.name for topic in request.topics)
    wanted = {topic.name: topic for topic in request.topics}.values()
    charge = MutationCharge(context, quotas, timers, strict_since=_REFUSED_SINCE)
    results = [await _widen(topic, times[topic.name], request.validate_only, topics, charge) for topic in wanted]
    return CreatePartitionsResponse(results=tuple(results))


async def _widen(
    wanted: CreatePartitionsTopic, times: int, validate_only: bool, topics: Topics, charge: MutationCharge
) -> CreatePartitionsTopicResult:
    try:
        if times > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
        planned, present = topics.plan_partitions(wanted), topics.image.topics[wanted.name]
        charge.take(len(planned.partitions) - len(present.partitions))
        if not validate_only:
            await topics.add_partitions(wanted)
    except KafkaError as error:
        return CreatePartitionsTopicResult(name=wanted.name, error_code=error.code, error_message=error.message)
    return CreatePartitionsTopicResult(name=wanted.name)
