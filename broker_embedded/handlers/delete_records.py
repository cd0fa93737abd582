"""DeleteRecords (21) v0-v2: let partitions start later (KIP-107).

v1  brokers answer before they throttle
v2  flexible

Answered when the records are gone for every reader and stay so after a crash. The brokers' own topics and those that
are compacted and not deleted from keep theirs.
"""

import functools

from broker_embedded.handlers.support.registry import RequestContext, handles
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from spark_kafka_native.protocol.topic import INTERNAL_TOPICS

_NONE = -1


@handles(DeleteRecordsRequest, "0-2")
async def delete_records(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Delete the records before an offset; the offset that each partition starts at now."""
    return DeleteRecordsResponse(topics=tuple([await _of_topic(topic, context) for topic in request.topics]))


async def _of_topic(topic: DeleteRecordsTopic, context: RequestContext) -> DeleteRecordsTopicResult:
    last = {part.partition_index: part for part in topic.partitions}.values()
    return DeleteRecordsTopicResult(
        name=topic.name, partitions=tuple([await _result(topic.name, part, context) for part in last])
    )


async def _result(topic: str, part: DeleteRecordsPartition, context: RequestContext) -> DeleteRecordsPartitionResult:
    code, low_watermark = ErrorCode.NONE, _NONE
    broker = context.broker
    try:
        partition = broker.partitions.get(topic, part.partition_index)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        work = functools.partial(broker.logs.delete_records, partition.id, part.offset)
        low_watermark = await broker.finishing.finish(broker.on_disk(work))
        broker.delayed.changed(partition.id)
    except KafkaError as error:
        code = error.code
    return DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=low_watermark, error_code=code
    )
