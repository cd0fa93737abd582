"""One Fetch request and its answer, for one partition or for several of one broker.

Topics are named by their ids where those are known and the broker understands that (version 13), else by name. Fetch
sessions (KIP-227) are not used.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID

from spark_kafka_native.client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native.client.config import ClientConfig
from spark_kafka_native.client.consumer.planned_topics import FETCH_WITH_IDS, PlannedTopics
from spark_kafka_native.net.blocking import Connection
from spark_kafka_native.net.connection import MAX_THROTTLE_MS
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.protocol.wire import ZERO_UUID

_LAST_VERSION_WITH_NAMES: Final = FETCH_WITH_IDS - 1
_LAST_EPOCH_SINCE: Final = 12
_GRACE_MS: Final = 1_000
"""A broker that waits until the very deadline for records still gets its empty answer through."""


@dataclasses.dataclass(slots=True)
class FetchMetrics:
    """Counters of one reader, from its start."""

    requests: int = 0
    retries: int = 0
    bytes_fetched: int = 0
    records: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for of one partition. ``epoch`` is that of the record before ``offset``, -1: not known."""

    leader: PartitionLeader
    offset: int
    epoch: int = NO_EPOCH
    max_bytes: int


def send_fetch(
    connection: Connection,
    config: ClientConfig,
    wanted: Mapping[TopicPartition, Wanted],
    *,
    planned: PlannedTopics,
    max_bytes: int,
    isolation: int,
    deadline: Deadline,
    rack: str,
) -> None:
    """Ask for ``wanted``, in that order, but that the partitions of a topic stand together.

    The broker waits for records until ``deadline`` at most. On a throttled connection the request is sent after the
    throttle, and the deadline moves by that time, by ``MAX_THROTTLE_MS`` in all. Raises as ``Connection.send`` and, if
    the request names its topics, as ``PlannedTopics.check_first``.
    """
    deadline.extend_ms(connection.throttle_ms, MAX_THROTTLE_MS)
    has_ids = all(each.leader.topic_id != ZERO_UUID for each in wanted.values())
    max_version = None if has_ids else _LAST_VERSION_WITH_NAMES
    version = connection.version_of(FetchRequest, max_version)
    if version < FETCH_WITH_IDS:
        planned.check_first(deadline)
    request = FetchRequest(
        max_wait_ms=round(min(config.fetch_max_wait_ms, deadline.remaining_ms)),
        min_bytes=config.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        topics=tuple(_topics(wanted, tells_epochs=version >= _LAST_EPOCH_SINCE)),
        rack_id=rack,
    )
    connection.send(request, deadline=deadline, max_version=max_version)


def _topics(wanted: Mapping[TopicPartition, Wanted], *, tells_epochs: bool) -> Iterator[FetchTopic]:
    topics: dict[tuple[str, UUID], list[FetchPartition]] = {}
    for partition, each in wanted.items():
        topics.setdefault((partition.topic, each.leader.topic_id), []).append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=each.leader.leader_epoch,
                fetch_offset=each.offset,
                last_fetched_epoch=each.epoch if tells_epochs else NO_EPOCH,
                partition_max_bytes=each.max_bytes,
            )
        )
    for (topic, topic_id), partitions in topics.items():
        yield FetchTopic(topic=topic, topic_id=topic_id, partitions=tuple(partitions))


def receive_fetch(connection: Connection, config: ClientConfig, timeout_ms: float) -> FetchResponse:
    """The answer to a Fetch that the broker may have kept waiting up to ``timeout_ms``. Raises as ``receive``."""
    patience_ms = min(config.request_timeout_ms + config.fetch_max_wait_ms, timeout_ms + _GRACE_MS)
    _, answer = connection.receive(Deadline.after_ms(patience_ms))
    assert isinstance(answer, FetchResponse)
    return answer


def is_throttled(answer: FetchResponse) -> bool:
    """Whether a quota left the answer without any partition: the same Fetch has to be sent again (KIP-219)."""
    return answer.throttle_time_ms > 0 and not answer.responses and not answer.error_code


def parts_of(
    answer: FetchResponse, wanted: Mapping[TopicPartition, PartitionLeader]
) -> dict[TopicPartition, PartitionData]:
    """The parts of an answer about the partitions that were asked for, whose leaders know the topics' ids."""
    names = {leader.topic_id: partition.topic for partition, leader in wanted.items()}
    return {
        TopicPartition(topic.topic or names.get(topic.topic_id, ""), part.partition_index): part
        for topic in answer.responses
        for part in topic.partitions
    }


def replica_named(part: PartitionData, leader: PartitionLeader) -> int | None:
    """The broker that the leader has sent us to (KIP-392), if it is another and there are no records."""
    named = part.preferred_read_replica
    return named if named >= 0 and named != leader.node.node_id and not part.records else None
