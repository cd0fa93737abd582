"""ListOffsets (2) v0-v11: offsets by timestamp, and the earliest and latest offset.

v0   a list of offsets, the latest first: base offsets of segments last written at or before the time, and the log end
v1   one offset, and the timestamp of its record
v2   isolation level
v4   leader epochs (KIP-320)
v7   timestamp -3: the record with the largest timestamp (KIP-734)
v8   timestamp -4: the earliest offset on local disk, the log start offset here (KIP-405)
v9   timestamp -5: the latest offset in tiered storage, none here (KIP-1005)
v10  timeout of remote lookups, ignored
v11  timestamp -6: the earliest offset pending upload, none here (KIP-1023)

If no record has the timestamp or a later one, the offset is -1 without an error. A repeated partition is answered once,
with INVALID_REQUEST; in v0 its last entry is answered. A lookup in message format v0, which has no timestamps, is
UNSUPPORTED_FOR_MESSAGE_FORMAT.

A lookup by timestamp reads from the disk and decompresses batches. It runs in a thread, and is cancelled if the client
disconnects.
"""

import functools
from collections import Counter
from typing import Final

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import merge_repeated
from broker_embedded._log.log import Log
from broker_embedded._log.timestamp_lookup import ContinueAt, Lookup, OffsetTimestamp
from broker_embedded._platform.record_threads import ClientPresence
from broker_embedded._platform.worker_threads import WorkerThreads
from broker_embedded._replica.partitions import LocalPartition, Partitions
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_KNOWN_SINCE: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version with each special timestamp."""
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_ONE_SINCE: Final = 1
_EPOCHS_SINCE: Final = 4
_NOTHING: Final = OffsetTimestamp(-1, -1)


@handles(ListOffsetsRequest, "0-11")
async def list_offsets(
    request: ListOffsetsRequest, context: RequestContext, partitions: Partitions, threads: WorkerThreads
) -> ListOffsetsResponse:
    """One offset per partition of the request, or in v0 several."""
    if context.version < _ONE_SINCE:
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        _list_before(topic.name, part, request, partitions)
                        for part in {part.partition_index: part for part in topic.partitions}.values()
                    ),
                )
                for topic in merge_repeated(request.topics, lambda topic: topic.name, joined="partitions")
            )
        )
    times = Counter((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    return ListOffsetsResponse(
        topics=tuple(
            [
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        [
                            _refused(part, ErrorCode.INVALID_REQUEST)
                            if times[topic.name, part.partition_index] > 1
                            else await _look_up(topic.name, part, request, context, partitions, threads)
                            for part in {part.partition_index: part for part in topic.partitions}.values()
                        ]
                    ),
                )
                for topic in request.topics
            ]
        )
    )


async def _look_up(
    topic: str,
    wanted: ListOffsetsPartition,
    request: ListOffsetsRequest,
    context: RequestContext,
    partitions: Partitions,
    threads: WorkerThreads,
) -> ListOffsetsPartitionResponse:
    if wanted.timestamp < 0 and context.version < _KNOWN_SINCE.get(wanted.timestamp, context.version + 1):
        return _refused(wanted, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = partitions.get(topic, wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        if wanted.timestamp not in {_LATEST, _EARLIEST} and not partition.log.config.record_magic:
            return _refused(wanted, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        limit = _limit(partition, request)
        found = _position(partition.log, wanted.timestamp, limit)
        if found is None:
            found = await _find(partition.log, wanted.timestamp, limit, threads, context.presence)
    except KafkaError as error:
        return _refused(wanted, error.code)
    has_epoch = found.offset >= 0 and context.version >= _EPOCHS_SINCE
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=partition.leader_epoch if has_epoch else -1,
    )


def _list_before(
    topic: str, wanted: ListOffsetsPartition, request: ListOffsetsRequest, partitions: Partitions
) -> ListOffsetsPartitionResponse:
    if wanted.timestamp < _EARLIEST:
        return _refused(wanted, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = partitions.get(topic, wanted.partition_index)
        offsets = _offsets_before(partition.log, wanted.timestamp)
    except KafkaError as error:
        return _refused(wanted, error.code)
    limit = _limit(partition, request)
    found = sorted((min(offset, limit) for offset in offsets), reverse=True)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        old_style_offsets=tuple(found[: max(wanted.max_num_offsets, 0)]),
    )


def _offsets_before(log: Log, timestamp: int) -> list[int]:
    if timestamp == _EARLIEST:
        return [log.log_start_offset]
    return log.reader.offsets_before(None if timestamp == _LATEST else timestamp)


def _limit(partition: LocalPartition, request: ListOffsetsRequest) -> int:
    """The offset after the last record that the client may read."""
    if request.replica_id != _CONSUMER:
        return partition.log.log_end_offset
    committed = request.isolation_level == _READ_COMMITTED
    return partition.log.last_stable_offset if committed else partition.log.high_watermark


def _position(log: Log, timestamp: int, limit: int) -> OffsetTimestamp | None:
    """The offset of a special timestamp, such as -1 for the latest offset; None for an ordinary timestamp."""
    if timestamp == _LATEST:
        return OffsetTimestamp(limit, -1)
    if timestamp in {_EARLIEST, _EARLIEST_LOCAL}:
        return OffsetTimestamp(log.log_start_offset, -1)
    return _NOTHING if timestamp in {_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD} else None


async def _find(
    log: Log, timestamp: int, limit: int, threads: WorkerThreads, presence: ClientPresence
) -> OffsetTimestamp:
    """The first record at or after a timestamp, before ``limit``. Raises KafkaError, WorkCancelled."""
    time = None if timestamp == _MAX_TIMESTAMP else timestamp
    found: Lookup = ContinueAt(0)
    while isinstance(found, ContinueAt):  # one decompressed batch per call, so that other lookups run between two calls
        look_up = functools.partial(log.reader.look_up, time, found.offset)
        found = await threads.reads.run(look_up, presence)
    return _NOTHING if found is None or found.offset >= limit else found


def _refused(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)
