"""DeleteRecords (21) v0-v2: move log start offsets (KIP-107).

v1  the response is sent before throttling
v2  flexible

The response is sent when no client can read the records, and the checkpoint is written. Internal topics and topics with
cleanup.policy=compact alone are refused.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._log.manager import LogManager
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from broker_embedded._platform.worker_threads import WorkerThreads
from broker_embedded._replica.delayed import DelayedOperations
from broker_embedded._replica.partitions import Partitions
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS, TopicPartition

_NONE = -1
_Delete: TypeAlias = Callable[[TopicPartition, int], Awaitable[int]]
"""Deletes the records of a partition before an offset. Returns the new log start offset. Raises KafkaError."""


@handles(DeleteRecordsRequest, "0-2")
async def delete_records(
    request: DeleteRecordsRequest,
    _context: RequestContext,
    delayed: DelayedOperations,
    shielded_tasks: ShieldedTasks,
    logs: LogManager,
    partitions: Partitions,
    threads: WorkerThreads,
) -> DeleteRecordsResponse:
    """Delete the records before an offset. The response has the new log start offsets."""

    async def delete(partition: TopicPartition, offset: int) -> int:
        work = functools.partial(logs.delete_records, partition, offset)
        low_watermark = await shielded_tasks.run(threads.on_disk(work))
        delayed.changed(partition)
        return low_watermark

    return DeleteRecordsResponse(topics=tuple([await _of_topic(topic, partitions, delete) for topic in request.topics]))


async def _of_topic(topic: DeleteRecordsTopic, partitions: Partitions, delete: _Delete) -> DeleteRecordsTopicResult:
    last = {part.partition_index: part for part in topic.partitions}.values()
    return DeleteRecordsTopicResult(
        name=topic.name, partitions=tuple([await _result(topic.name, part, partitions, delete) for part in last])
    )


async def _result(
    topic: str, part: DeleteRecordsPartition, partitions: Partitions, delete: _Delete
) -> DeleteRecordsPartitionResult:
    code, low_watermark = ErrorCode.NONE, _NONE
    try:
        partition = partitions.get(topic, part.partition_index)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        low_watermark = await delete(partition.id, part.offset)
    except KafkaError as error:
        code = error.code
    return DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=low_watermark, error_code=code
    )
