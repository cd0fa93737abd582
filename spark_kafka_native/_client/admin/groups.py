"""Consumer groups: list, describe and delete them, and delete committed offsets."""

import dataclasses
from collections.abc import Iterable
from typing import Final

from spark_kafka_native._client.admin.committed_offsets import at_group_coordinator, find_coordinator
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.consumer_protocol import CONSUMER_PROTOCOL, read_assignment
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, check_code
from spark_kafka_native._protocol.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeRequest
from spark_kafka_native._protocol.messages.delete_groups import DeleteGroupsRequest
from spark_kafka_native._protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from spark_kafka_native._protocol.messages.list_groups import ListGroupsRequest
from spark_kafka_native._protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition, by_topic
from spark_kafka_native._protocol.wire import Buffer

_UNKNOWN_MEMBER_TYPE: Final = -1
_UPGRADED: Final = 1
_CLASSIC_AGAIN: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group; ``state`` and ``type`` are empty where the broker is too old to say (before 2.6 and 3.8)."""

    group_id: str
    protocol_type: str
    state: str = ""
    type: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One member, and the partitions that it reads.

    ``epoch``, ``target`` (the partitions that it is to read) and ``upgraded`` (whether it uses the consumer protocol
    itself) are those of a group of the consumer protocol; brokers before 4.0 do not know ``upgraded``.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    partitions: tuple[TopicPartition, ...] = ()
    epoch: int | None = None
    target: tuple[TopicPartition, ...] = ()
    upgraded: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as it is now. ``assignor`` is the way in which partitions are shared out.

    ``epoch`` and ``assignment_epoch`` are those of a group of the consumer protocol.
    """

    group_id: str
    state: str
    type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...] = ()
    epoch: int | None = None
    assignment_epoch: int | None = None


def list_groups(cluster: Cluster) -> list[GroupListing]:
    """All groups of all brokers, by id. Raises KafkaError naming the broker that could not answer."""

    def attempt(deadline: Deadline) -> list[GroupListing]:
        found: dict[str, GroupListing] = {}
        for node_id in cluster.metadata([], timeout_ms=deadline.remaining_ms).brokers:
            response = cluster.send(node_id, ListGroupsRequest(), deadline=deadline)
            check_code(response.error_code, f"the groups of broker {node_id}", operation="DESCRIBE")
            for group in response.groups:
                found[group.group_id] = GroupListing(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    state=group.group_state,
                    type=group.group_type,
                )
        return [found[group_id] for group_id in sorted(found)]

    return cluster.retrying(attempt)


def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """One group of any type. Raises KafkaError: GROUP_ID_NOT_FOUND, or the coordinator's error."""

    def describe(connection: Connection, timeout_ms: float) -> GroupDescription:
        try:
            return _consumer_group(connection, group_id, timeout_ms)
        except KafkaError as error:
            if error.code not in _CLASSIC_AGAIN:
                raise
        return _classic_group(connection, group_id, timeout_ms)

    deadline = cluster.deadline()
    description = at_group_coordinator(cluster, group_id, describe, deadline)
    return dataclasses.replace(description, coordinator=find_coordinator(cluster, group_id, deadline).node_id)


def delete_group(cluster: Cluster, group_id: str) -> None:
    """Delete a group and its offsets. Raises KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

    def delete(connection: Connection, timeout_ms: float) -> None:
        response = connection.call(DeleteGroupsRequest(groups_names=(group_id,)), timeout_ms=timeout_ms)
        for result in response.results:
            check_code(result.error_code, f"group {result.group_id}", operation="DELETE")

    at_group_coordinator(cluster, group_id, delete, cluster.deadline())


def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Delete committed offsets; the result of each. Raises KafkaError: the whole group was refused."""
    topics = tuple(
        OffsetDeleteRequestTopic(
            name=name,
            partitions=tuple(OffsetDeleteRequestPartition(partition_index=part.partition) for part in parts),
        )
        for name, parts in by_topic(partitions).items()
    )

    def delete(connection: Connection, timeout_ms: float) -> dict[TopicPartition, ErrorCode]:
        response = connection.call(OffsetDeleteRequest(group_id=group_id, topics=topics), timeout_ms=timeout_ms)
        check_code(response.error_code, f"group {group_id}", operation="DELETE")
        return {
            TopicPartition(topic.name, part.partition_index): ErrorCode.of(part.error_code)
            for topic in response.topics
            for part in topic.partitions
        }

    return at_group_coordinator(cluster, group_id, delete, cluster.deadline())


def _consumer_group(connection: Connection, group_id: str, timeout_ms: float) -> GroupDescription:
    """A group of the newer protocol (KIP-848). Raises KafkaError: it is none, or the broker knows of no such groups."""
    response = connection.call(ConsumerGroupDescribeRequest(group_ids=(group_id,)), timeout_ms=timeout_ms)
    (group,) = response.groups
    check_code(group.error_code, f"group {group_id}", operation="DESCRIBE")
    return GroupDescription(
        group_id=group_id,
        state=group.group_state,
        type="consumer",
        assignor=group.assignor_name,
        coordinator=-1,
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.client_host,
                instance_id=member.instance_id,
                partitions=_partitions(member.assignment),
                epoch=member.member_epoch,
                target=_partitions(member.target_assignment),
                upgraded=None if member.member_type == _UNKNOWN_MEMBER_TYPE else member.member_type == _UPGRADED,
            )
            for member in group.members
        ),
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions
    )


def _classic_group(connection: Connection, group_id: str, timeout_ms: float) -> GroupDescription:
    response = connection.call(DescribeGroupsRequest(groups=(group_id,)), timeout_ms=timeout_ms)
    (group,) = response.groups
    check_code(group.error_code, f"group {group_id}", operation="DESCRIBE")
    if group.group_state == "Dead":
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id}")
    return GroupDescription(
        group_id=group_id,
        state=group.group_state,
        type="classic",
        assignor=group.protocol_data,
        coordinator=-1,
        members=tuple(_classic_members(group)),
    )


def _classic_members(group: DescribedGroup) -> Iterable[GroupMember]:
    readable = group.protocol_type == CONSUMER_PROTOCOL
    for member in group.members:
        yield GroupMember(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host,
            instance_id=member.group_instance_id,
            partitions=_assigned(member.member_assignment) if readable else (),
        )


def _assigned(raw: Buffer) -> tuple[TopicPartition, ...]:
    """The partitions in an assignment, none while the group is rebalancing. Raises RemoteProtocolError."""
    if not raw:
        return ()
    named = read_assignment(raw).assigned_partitions
    return tuple(TopicPartition(topic.topic, index) for topic in named for index in topic.partitions)
