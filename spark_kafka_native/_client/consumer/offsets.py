"""Offsets by position and by time: any number of partitions, one request per broker, all brokers at once."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.leaders import Leaders, RequestOf, ask_each, ask_leaders, ask_once
from spark_kafka_native._client.config import READ_UNCOMMITTED
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import UnsupportedApiVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition, by_topic

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
"""The record with the largest timestamp (KIP-734); brokers from 3.0 on."""

_NEEDS_VERSION: Final = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, -4: 8, -5: 9, -6: 11}
_BY_TIME_SINCE: Final = 1
"""In v0 a time finds segments by when their files were written, not records."""
_ISOLATION_SINCE: Final = 2
CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
"""The replica id of a consumer that followers answer to (Request.DebuggingConsumerId).

ListOffsets needs it in every release, Fetch before Kafka 2.4.
"""


class ListedOffset(NamedTuple):
    """What a lookup found; ``offset`` -1: no record is at or after the requested timestamp.

    ``timestamp`` is the found record's in ms, -1 for EARLIEST and LATEST.
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


def offsets_at(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation: int | None = None
) -> dict[TopicPartition, int]:
    """As ``list_offsets``, only the offsets."""
    return {partition: found.offset for partition, found in list_offsets(cluster, wanted, isolation=isolation).items()}


def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation: int | None = None,
    broker_id: int | None = None,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, ListedOffset]:
    """Look up one offset per partition: EARLIEST, LATEST, MAX_TIMESTAMP, or the first at or after a time in ms.

    Under READ_COMMITTED (by default as ``isolation.level`` says) LATEST is the last stable offset. ``broker_id``: ask
    this replica instead of the leaders. Moved leaders and broken connections are tried again until ``timeout_ms``
    (``default.api.timeout.ms``) from now.

    Raises KafkaError naming the partition that could not be looked up, UNSUPPORTED_VERSION if its broker is too old for
    that (a time needs 0.10.1); BrokerUnreachable.
    """
    request = _request_of(cluster, wanted, isolation, broker_id)
    return ask_leaders(cluster, list(wanted), request, _results, broker_id=broker_id, timeout_ms=timeout_ms)


def list_each(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    deadline: Deadline,
    *,
    isolation: int | None = None,
    broker_id: int | None = None,
) -> dict[TopicPartition, ListedOffset | KafkaError]:
    """As ``list_offsets`` until ``deadline``, with the error of a partition as its result."""
    request = _request_of(cluster, wanted, isolation, broker_id)
    return ask_each(cluster, list(wanted), request, _results, deadline, broker_id=broker_id)


def list_once(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, ListedOffset | KafkaError]:
    """As ``list_each``, without retries: transient errors are results, too."""
    partitions = list(wanted)
    try:
        leaders, errors = cluster.find_leaders(partitions, deadline)
    except KafkaError as error:
        return dict.fromkeys(partitions, error)
    request = _request_of(cluster, wanted, None, None)
    results = ask_once(cluster, leaders, request, _results, deadline) | errors
    cluster.mark_stale(*(part.topic for part, result in results.items() if isinstance(result, KafkaError)))
    return results


def offsets_before(
    cluster: Cluster, partition: TopicPartition, time_ms: int, max_offsets: int, *, broker_id: int | None = None
) -> list[int]:
    """At most ``max_offsets`` offsets to begin at, in descending order: ListOffsets v0.

    LATEST: the high watermark and the first offsets of the segments; EARLIEST: the log start offset; a time: the first
    offsets of segments last written at or before it, after the high watermark if the time is not before the broker's
    clock. A replica that is no leader has its log end offset instead of the high watermark.

    Brokers from 4.0 on have no v0 (KIP-896) and do not list segments. There the list has two offsets at most: the high
    watermark, or the first record at or after the time; and the log start offset. Raises as ``list_offsets``.
    """

    def request(partitions: Sequence[TopicPartition], _: Leaders, __: Connection) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=CONSUMER if broker_id is None else DEBUGGING_CONSUMER,
            topics=tuple(
                ListOffsetsTopic(
                    name=name,
                    partitions=tuple(
                        ListOffsetsPartition(
                            partition_index=part.partition, timestamp=time_ms, max_num_offsets=max_offsets
                        )
                        for part in parts
                    ),
                )
                for name, parts in by_topic(partitions).items()
            ),
        )

    def results(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, list[int] | KafkaError]]:
        for topic in response.topics:
            for part in topic.partitions:
                found, code = TopicPartition(topic.name, part.partition_index), ErrorCode.of(part.error_code)
                failed = code is not ErrorCode.NONE
                error = KafkaError(code, str(found), operation="DESCRIBE")
                yield found, error if failed else sorted(part.old_style_offsets, reverse=True)

    try:
        return ask_leaders(cluster, [partition], request, results, broker_id=broker_id, max_version=0)[partition]
    except UnsupportedApiVersion:
        pass
    uncommitted = functools.partial(list_offsets, cluster, isolation=READ_UNCOMMITTED, broker_id=broker_id)
    ((_, start),) = uncommitted({partition: EARLIEST}).items()
    if time_ms == EARLIEST:
        return [start.offset][:max_offsets]
    ((_, end),) = uncommitted({partition: time_ms}).items()
    if end.offset < 0:
        ((_, end),) = uncommitted({partition: LATEST}).items()
    return sorted({start.offset, end.offset}, reverse=True)[:max_offsets]


def _request_of(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation: int | None, broker_id: int | None
) -> RequestOf[ListOffsetsResponse]:
    level = cluster.config.isolation_level if isolation is None else isolation

    def requested(partition: TopicPartition, leaders: Leaders) -> ListOffsetsPartition:
        epoch, timestamp = leaders[partition].leader_epoch, wanted[partition]
        return ListOffsetsPartition(
            partition_index=partition.partition, current_leader_epoch=epoch, timestamp=timestamp
        )

    def request(partitions: Sequence[TopicPartition], leaders: Leaders, connection: Connection) -> ListOffsetsRequest:
        version = connection.version_of(ListOffsetsRequest)
        for partition in partitions:
            needed = _NEEDS_VERSION.get(wanted[partition], _BY_TIME_SINCE)
            if version < needed:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"{partition}: looking up timestamp {wanted[partition]} needs ListOffsets v{needed}, "
                    f"{connection.address} has v{version}",
                )
        return ListOffsetsRequest(
            replica_id=CONSUMER if broker_id is None else DEBUGGING_CONSUMER,
            # Brokers that do not know the level have no transactions either.
            isolation_level=level if version >= _ISOLATION_SINCE else READ_UNCOMMITTED,
            topics=tuple(
                ListOffsetsTopic(name=name, partitions=tuple(requested(part, leaders) for part in parts))
                for name, parts in by_topic(partitions).items()
            ),
            timeout_ms=cluster.config.request_timeout_ms,
        )

    return request


def _results(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, ListedOffset | KafkaError]]:
    for topic in response.topics:
        for part in topic.partitions:
            partition, code = TopicPartition(topic.name, part.partition_index), ErrorCode.of(part.error_code)
            failed = code is not ErrorCode.NONE
            yield partition, KafkaError(code, str(partition), operation="DESCRIBE") if failed else _listed(part)


def _listed(part: ListOffsetsPartitionResponse) -> ListedOffset:
    """What was found; v0 has a list, with one offset for the end or the beginning of the log."""
    if part.old_style_offsets:
        return ListedOffset(part.old_style_offsets[0])
    return ListedOffset(part.offset, part.timestamp, part.leader_epoch)
