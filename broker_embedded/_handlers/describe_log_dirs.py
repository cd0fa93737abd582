"""DescribeLogDirs (35) v0-v5: the logs in the broker's data directory (KIP-113).

v1  the response is sent before throttling
v2  flexible
v3  a top-level error, never set by this broker
v4  total and usable bytes of the volume (KIP-827)
v5  whether the directory is cordoned (KIP-1066); never in this broker

Unknown partitions are omitted. The lag is 0, because there is one replica.
"""

import logging
from collections.abc import Iterator

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._log.manager import LogManager
from broker_embedded._platform.platform import FileSystem
from broker_embedded._platform.worker_threads import WorkerThreads
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition

logger = logging.getLogger(__name__)


@handles(DescribeLogDirsRequest, "0-5")
async def describe_log_dirs(
    request: DescribeLogDirsRequest,
    _context: RequestContext,
    file_system: FileSystem,
    logs: LogManager,
    threads: WorkerThreads,
) -> DescribeLogDirsResponse:
    """The directory, with the sizes of the requested logs."""
    data_dir = logs.data_dir
    try:
        total_bytes, usable_bytes = await threads.on_disk(lambda: file_system.volume(data_dir))
    except OSError as error:
        logger.error("%s cannot be described: %s", data_dir, error)
        return DescribeLogDirsResponse(
            results=(DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=data_dir),)
        )
    return DescribeLogDirsResponse(
        results=(
            DescribeLogDirsResult(
                log_dir=data_dir,
                topics=tuple(_topics(request, logs)),
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
            ),
        )
    )


def _topics(request: DescribeLogDirsRequest, logs: LogManager) -> Iterator[DescribeLogDirsTopic]:
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    found: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition, log in logs.logs.items():
        if wanted is None or partition in wanted:
            part = DescribeLogDirsPartition(partition_index=partition.partition, partition_size=log.local.size_in_bytes)
            found.setdefault(partition.topic, []).append(part)
    for name in sorted(found):
        yield DescribeLogDirsTopic(name=name, partitions=tuple(found[name]))
