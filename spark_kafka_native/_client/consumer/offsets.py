"""Offsets by position and by time: any number of partitions, one request per broker, all brokers at once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.leaders import Leaders, ask_leaders
from spark_kafka_native._client.config import READ_UNCOMMITTED
from spark_kafka_native._net.blocking import Connection
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
_CONSUMER: Final = -1


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
    timeout_ms: float | None = None,
) -> dict[TopicPartition, ListedOffset]:
    """Look up one offset per partition: EARLIEST, LATEST, MAX_TIMESTAMP, or the first at or after a time in ms.

    Under READ_COMMITTED (by default as ``isolation.level`` says) LATEST is the last stable offset. Moved leaders and
    broken connections are tried again until ``timeout_ms`` (``default.api.timeout.ms``) from now.

    Raises KafkaError naming the partition that could not be looked up, UNSUPPORTED_VERSION if its broker is too old for
    that (a time needs 0.10.1); BrokerUnreachable.
    """
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
            replica_id=_CONSUMER,
            # Brokers that do not know the level have no transactions either.
            isolation_level=level if version >= _ISOLATION_SINCE else READ_UNCOMMITTED,
            topics=tuple(
                ListOffsetsTopic(name=name, partitions=tuple(requested(part, leaders) for part in parts))
                for name, parts in by_topic(partitions).items()
            ),
            timeout_ms=cluster.config.request_timeout_ms,
        )

    return ask_leaders(cluster, list(wanted), request, _results, timeout_ms=timeout_ms)


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
