"""A classic group of consumers becomes a consumer group, with all its members, when the first of the new kind joins.

The members keep what they have, in the generation that they are in, which is their epoch from now on; they go on as
members that speak the classic protocol (`consumer.classic`). Whoever waits for the end of a rebalance is told that
there is another one.
"""

from broker_embedded.groups.classic.group import ClassicGroup
from broker_embedded.groups.classic.member import ClassicMember
from broker_embedded.groups.classic.state import JOIN_TIMER, SYNC_TIMER, session_timer
from broker_embedded.groups.consumer.config import ConsumerContext
from broker_embedded.groups.consumer.draft import Draft
from broker_embedded.groups.consumer.entries import (
    current_entry,
    epoch_entry,
    member_entry,
    target_entry,
    target_epoch_entry,
)
from broker_embedded.groups.consumer.group import ConsumerGroup
from broker_embedded.groups.consumer.joining import classic_metadata
from broker_embedded.groups.consumer.member import ConsumerMember, TopicIdPartition
from broker_embedded.groups.consumer.protocol import partitions_of
from broker_embedded.groups.consumer.topics import TopicsView
from spark_kafka_native.protocol.consumer_protocol import MalformedEmbedded, read_assignment, read_subscription
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError


def upgrade(group: ClassicGroup, context: ConsumerContext, now_ms: int) -> Draft:
    """The group as a consumer group. Raises KafkaError, GROUP_ID_NOT_FOUND: it stays what it is."""
    _check(group, context)
    try:
        members = [_converted(group, member, context.topics()) for member in group.members.values()]
    except MalformedEmbedded as error:
        raise _refused(group, f"its members speak no consumer protocol: {error}") from error
    draft = Draft(
        ConsumerGroup(group_id=group.group_id, context=context),
        now_ms,
        preceding=group.tombstones(),
        replies=group.released(ErrorCode.REBALANCE_IN_PROGRESS),
    )
    draft.put(*(member_entry(group.group_id, member) for member in members))
    draft.put(epoch_entry(group.group_id, group.generation, draft.group.current_hash()))
    draft.put(
        *(target_entry(group.group_id, member.member_id, member.assigned) for member in members),
        target_epoch_entry(group.group_id, group.generation, 0),
        *(current_entry(group.group_id, member) for member in members),
    )
    for key in (JOIN_TIMER, SYNC_TIMER, *map(session_timer, group.pending)):
        draft.cancel_timer(key)
    for member in group.members.values():
        draft.set_timer(session_timer(member.member_id), member.session_timeout_ms)
    return draft


def _check(group: ClassicGroup, context: ConsumerContext) -> None:
    config = context.config(group.group_id)
    if not config.migration_policy.allows_upgrade:
        raise _refused(group, "group.consumer.migration.policy does not let it become a consumer group")
    if not group.is_of_consumers:
        raise _refused(group, f"its members are no consumers, but of type {group.protocol_type!r}")
    if len(group.members) > config.max_size:
        raise _refused(group, f"it has more members than group.consumer.max.size allows, {config.max_size}")


def _refused(group: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id!r} is a classic group, and {reason}")


def _converted(group: ClassicGroup, member: ClassicMember, topics: TopicsView) -> ConsumerMember:
    """The member with what it has. Raises MalformedEmbedded."""
    subscription = read_subscription(member.metadata(group.protocol_name or member.protocols[0].name))
    assigned: dict[TopicIdPartition, int] = {}
    if member.assignment:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _refused(group, "what its own assignor notes in assignments would be lost")
        assigned = dict.fromkeys(partitions_of(assignment.assigned_partitions, topics), group.generation)
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=group.generation,
        previous_member_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
        assigned=assigned,
    )
