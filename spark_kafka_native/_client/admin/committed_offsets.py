"""Committed offsets of consumer groups, and their coordinators, without a membership."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from spark_kafka_native._client.cluster.cluster import UNKNOWN_TOPIC_TRIES, Cluster
from spark_kafka_native._client.cluster.coordinators import at_coordinator, look_up_coordinator
from spark_kafka_native._client.cluster.known_coordinators import CoordinatorType
from spark_kafka_native._client.cluster.metadata import Node
from spark_kafka_native._client.retry import retry
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, check_code
from spark_kafka_native._protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from spark_kafka_native._protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from spark_kafka_native._protocol.topic import TopicPartition, by_topic

T = TypeVar("T")

_NO_GENERATION: Final = -1
_NO_OFFSET: Final = -1
_LAST_COMMIT_BY_NAME: Final = 9
_FIRST_FETCH_OF_ALL: Final = 2
_FIRST_FETCH_OF_STABLE_OFFSETS: Final = 7
_LAST_FETCH_OF_ONE_GROUP: Final = 7

_OF_ONE_PARTITION: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    }
)
_GROUP_IN_USE: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """The next offset to read, as committed."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class UnknownPartition(KafkaError):
    """An offset was to be committed for a partition that does not exist."""

    _retriable = False
    """A topic that was just created would be known by now."""

    def __init__(self, group_id: str, partition: TopicPartition) -> None:
        self.partition = partition
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"group {group_id}, {partition}")


def find_coordinator(cluster: Cluster, group_id: str, deadline: Deadline | None = None) -> Node:
    """The broker that keeps a group's offsets; waits while there is none. Raises KafkaError naming the group."""
    until = deadline or cluster.deadline()
    return retry(lambda: look_up_coordinator(cluster, CoordinatorType.GROUP, group_id, until), until, cluster.backoff())


def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
    *,
    timeout_ms: float | None = None,
) -> None:
    """Commit offsets in the name of a group without active members; if it has some, brokers refuse it.

    Raises KafkaError naming the group and partition. The offsets of other partitions may have been committed then.
    """
    for error in commit_each(cluster, group_id, offsets, timeout_ms=timeout_ms).values():
        raise error


def commit_each(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
    *,
    member_id: str = "",
    generation: int = _NO_GENERATION,
    instance_id: str | None = None,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, KafkaError]:
    """Commit offsets as a member, or as ``commit_offsets`` -> the errors of partitions; all others are committed.

    ``generation``: the member's epoch in groups of the consumer protocol.
    Raises KafkaError: an error that is not of one partition; then some offsets may have been committed.
    """
    unknown_tries = 0

    def requested(partition: TopicPartition) -> OffsetCommitRequestPartition:
        value = offsets[partition]
        committed = OffsetAndMetadata(offset=value) if isinstance(value, int) else value
        return OffsetCommitRequestPartition(
            partition_index=partition.partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            committed_metadata=committed.metadata,
        )

    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(name=name, partitions=tuple(map(requested, parts)))
            for name, parts in by_topic(offsets).items()
        ),
    )

    def commit(connection: Connection, timeout_ms: float) -> dict[TopicPartition, KafkaError]:
        nonlocal unknown_tries
        response = connection.call(request, timeout_ms=timeout_ms, max_version=_LAST_COMMIT_BY_NAME)
        codes = {part.error_code for topic in response.topics for part in topic.partitions}
        unknown_tries += ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes
        errors: dict[TopicPartition, KafkaError] = {}
        for topic in response.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                try:
                    _check(part.error_code, f"group {group_id}, {partition}", operation="READ", member_id=member_id)
                except KafkaError as error:
                    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and unknown_tries >= UNKNOWN_TOPIC_TRIES:
                        errors[partition] = UnknownPartition(group_id, partition)
                    elif error.code in _OF_ONE_PARTITION:
                        errors[partition] = error
                    else:
                        raise
        return errors

    return at_group_coordinator(cluster, group_id, commit, cluster.deadline(timeout_ms))


def fetch_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """A group's committed offsets: of ``partitions``, or for None of all; those without a commit are left out.

    ``require_stable`` waits for transactions that are about to commit offsets (KIP-447); brokers before 2.5 cannot.
    Brokers before 0.10.2 cannot return those of all partitions.

    Raises KafkaError naming the group, and the partition if it is about one.
    """
    topics = None if partitions is None else _topics(partitions)

    def fetch(connection: Connection, timeout_ms: float) -> dict[TopicPartition, OffsetAndMetadata]:
        if topics is None and connection.version_of(OffsetFetchRequest) < _FIRST_FETCH_OF_ALL:
            detail = f"group {group_id}: {connection.address} returns the offsets of given partitions only; pass them"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        stable = require_stable and connection.version_of(OffsetFetchRequest) >= _FIRST_FETCH_OF_STABLE_OFFSETS
        request = OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=stable)
        response = connection.call(request, timeout_ms=timeout_ms, max_version=_LAST_FETCH_OF_ONE_GROUP)
        _check(response.error_code, f"group {group_id}", operation="DESCRIBE")
        found = {}
        for topic in response.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                _check(part.error_code, f"group {group_id}, {partition}", operation="DESCRIBE")
                if part.committed_offset != _NO_OFFSET:
                    found[partition] = OffsetAndMetadata(
                        offset=part.committed_offset,
                        leader_epoch=part.committed_leader_epoch,
                        metadata=part.metadata or "",
                    )
        return found

    return at_group_coordinator(cluster, group_id, fetch, cluster.deadline(timeout_ms))


def _topics(partitions: Iterable[TopicPartition]) -> tuple[OffsetFetchRequestTopic, ...]:
    return tuple(
        OffsetFetchRequestTopic(name=name, partition_indexes=tuple(part.partition for part in parts))
        for name, parts in by_topic(partitions).items()
    )


def at_group_coordinator(
    cluster: Cluster, group_id: str, action: Callable[[Connection, float], T], deadline: Deadline
) -> T:
    """As ``at_coordinator``, for a group."""
    return at_coordinator(cluster, CoordinatorType.GROUP, group_id, action, deadline)


def _check(error_code: int, subject: str, *, operation: str, member_id: str = "") -> None:
    code = ErrorCode.of(error_code)
    if code in _GROUP_IN_USE and not member_id:
        raise KafkaError(code, f"{subject}: the group has active members, and only they can commit offsets")
    check_code(error_code, subject, operation=operation)
