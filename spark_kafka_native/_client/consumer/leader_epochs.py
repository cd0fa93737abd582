"""Where leader epochs ended: how a reader detects that a log was truncated and written again (KIP-320).

Every batch carries the epoch of the leader that took it. A leader that lacks the end of its predecessor's log, after an
unclean election, writes other records at the same offsets, under a later epoch; so the offset at which an epoch ended
in the present leader's log tells how much of what was written in it is still there.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.leaders import Leaders, RequestOf, ask_leaders, ask_once
from spark_kafka_native._client.cluster.metadata import NO_EPOCH
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition, by_topic

_FOR_CONSUMERS_SINCE: Final = 3
"""Earlier versions are for brokers: they need the right to act on the cluster."""
_CONSUMER: Final = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The largest leader epoch in a log that is not above the requested one, and the offset after its last record."""

    epoch: int
    end_offset: int


def ends_of_epochs(
    cluster: Cluster, epochs: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
) -> dict[TopicPartition, EpochEnd]:
    """Where each partition's epoch ended, in its present leader's log.

    Left out are partitions whose leaders cannot tell: all of them with brokers before 2.3, and logs without epochs.

    Raises KafkaError naming the partition that could not be asked about; BrokerUnreachable.
    """
    try:
        found = ask_leaders(cluster, list(epochs), _request_of(epochs), _results, timeout_ms=timeout_ms)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return {}
        raise
    return {partition: end for partition, end in found.items() if end is not None}


def ends_in_logs_of(
    cluster: Cluster, leaders: Leaders, epochs: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, EpochEnd | KafkaError]:
    """As ``ends_of_epochs``, in the logs of these ``leaders``, with the error of each partition instead of retries."""
    found = ask_once(cluster, leaders, _request_of(epochs), _results, deadline)
    return {
        partition: end
        for partition, end in found.items()
        if end is not None and not (isinstance(end, KafkaError) and end.code is ErrorCode.UNSUPPORTED_VERSION)
    }


def _request_of(epochs: Mapping[TopicPartition, int]) -> RequestOf[OffsetForLeaderEpochResponse]:
    def requested(partition: TopicPartition, leaders: Leaders) -> OffsetForLeaderPartition:
        current, epoch = leaders[partition].leader_epoch, epochs[partition]
        return OffsetForLeaderPartition(partition=partition.partition, current_leader_epoch=current, leader_epoch=epoch)

    def request_of(
        partitions: Sequence[TopicPartition], leaders: Leaders, connection: Connection
    ) -> OffsetForLeaderEpochRequest:
        version = connection.version_of(OffsetForLeaderEpochRequest)
        if version < _FOR_CONSUMERS_SINCE:
            detail = f"{connection.address} has OffsetForLeaderEpoch v{version}, which consumers may not use"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        topics = tuple(
            OffsetForLeaderTopic(topic=name, partitions=tuple(requested(part, leaders) for part in parts))
            for name, parts in by_topic(partitions).items()
        )
        return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics)

    return request_of


def _results(response: OffsetForLeaderEpochResponse) -> Iterator[tuple[TopicPartition, EpochEnd | KafkaError | None]]:
    for topic in response.topics:
        for part in topic.partitions:
            partition, code = TopicPartition(topic.topic, part.partition), ErrorCode.of(part.error_code)
            if code is not ErrorCode.NONE:
                yield partition, KafkaError(code, str(partition), operation="DESCRIBE")
            elif part.leader_epoch == NO_EPOCH or part.end_offset < 0:
                yield partition, None
            else:
                yield partition, EpochEnd(epoch=part.leader_epoch, end_offset=part.end_offset)
