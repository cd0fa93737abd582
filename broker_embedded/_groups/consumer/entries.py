"""Conversion of members and assignments to entries, and back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from broker_embedded._groups.consumer.member import ConsumerMember, MemberState, TopicIdPartition, by_topic
from broker_embedded._groups.consumer.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    Entry,
    TargetTopicPartitions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics that a regular expression matched in the topics' ``version``, at ``timestamp``."""

    topics: frozenset[str]
    version: int
    timestamp: int


def epoch_entry(group_id: str, epoch: int, metadata_hash: int) -> Entry:
    """The entry of the group's epoch."""
    return Entry(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def target_epoch_entry(group_id: str, epoch: int, timestamp: int) -> Entry:
    """The entry of the target assignment's epoch."""
    return Entry(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp),
    )


def member_entry(group_id: str, member: ConsumerMember) -> Entry:
    """The entry of a member's metadata."""
    return Entry(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(member.subscribed_topic_names)),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def with_metadata(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """The member with the metadata of an entry."""
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=frozenset(value.subscribed_topic_names),
        subscribed_topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def target_entry(group_id: str, member_id: str, partitions: Iterable[TopicIdPartition]) -> Entry:
    """The entry of a member's target assignment."""
    return Entry(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=tuple(
                TargetTopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
                for topic_id, numbers in by_topic(partitions).items()
            )
        ),
    )


def target_of(value: ConsumerGroupTargetAssignmentMemberValue) -> frozenset[TopicIdPartition]:
    """The target assignment of a member."""
    return frozenset(
        TopicIdPartition(topic.topic_id, number) for topic in value.topic_partitions for number in topic.partitions
    )


def current_entry(group_id: str, member: ConsumerMember) -> Entry:
    """The entry of a member's epoch, state and assignment."""
    return Entry(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            assigned_partitions=_with_epochs(member.assigned),
            partitions_pending_revocation=_with_epochs(member.pending_revocation),
        ),
    )


def with_assignment(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    """The member with the epoch, state and assignment of an entry. Partitions without an epoch get the member's."""
    epoch = max(value.member_epoch, 0)
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState.of(value.state),
        assigned=_epochs_of(value.assigned_partitions, epoch),
        pending_revocation=_epochs_of(value.partitions_pending_revocation, epoch),
    )


def regex_entry(group_id: str, regex: str, resolved: ResolvedRegex) -> Entry:
    """The entry of a regular expression and the topics that it matched."""
    return Entry(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=tuple(sorted(resolved.topics)), version=resolved.version, timestamp=resolved.timestamp
        ),
    )


def resolved_of(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    """The topics that a regular expression matched."""
    return ResolvedRegex(topics=frozenset(value.topics), version=value.version, timestamp=value.timestamp)


def regex_tombstone(group_id: str, regex: str) -> Entry:
    """The tombstone of a regular expression without subscribers."""
    return Entry(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def partition_metadata_tombstone(group_id: str) -> Entry:
    """The tombstone of a record of older brokers."""
    return Entry(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_tombstones(group_id: str, member_id: str) -> tuple[Entry, ...]:
    """The tombstones of a member, in Apache Kafka's order."""
    return (
        Entry(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        Entry(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        Entry(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    )


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> tuple[Entry, ...]:
    """The tombstones of a group and all its members, in Apache Kafka's order."""
    ids = tuple(member_ids)
    return (
        *(Entry(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=one)) for one in ids),
        *(Entry(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=one)) for one in ids),
        Entry(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(Entry(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=one)) for one in ids),
        *(regex_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        Entry(ConsumerGroupMetadataKey(group_id=group_id)),
    )


def _with_epochs(partitions: Mapping[TopicIdPartition, int]) -> tuple[CurrentTopicPartitions, ...]:
    return tuple(
        CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=tuple(numbers),
            assignment_epochs=tuple(partitions[TopicIdPartition(topic_id, number)] for number in numbers),
        )
        for topic_id, numbers in by_topic(partitions).items()
    )


def _epochs_of(topics: Iterable[CurrentTopicPartitions], otherwise: int) -> dict[TopicIdPartition, int]:
    found: dict[TopicIdPartition, int] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = (otherwise,) * len(topic.partitions)
        for number, epoch in zip(topic.partitions, epochs, strict=True):
            found[TopicIdPartition(topic.topic_id, number)] = epoch
    return found
