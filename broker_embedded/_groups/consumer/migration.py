"""Migration of a group with members between the classic and the consumer protocol (KIP-848).

Upgrade: a classic group of consumers becomes a consumer group when the first member of the consumer protocol joins. The
members keep their assignments, and their generation becomes their epoch. They continue as members that use the
classic protocol (`consumer.classic`). Pending requests are answered REBALANCE_IN_PROGRESS.

Downgrade: a consumer group becomes a classic group when only members that use the classic protocol are left. Their
targets become their assignments, the group's epoch the generation, and they rebalance unless the targets are up to
date.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from broker_embedded._groups.classic.draft import ClassicDraft
from broker_embedded._groups.classic.group import JOIN_TIMER, SYNC_TIMER, ClassicGroup, ClassicState, session_timer
from broker_embedded._groups.classic.member import ClassicMember, subscribed_topics
from broker_embedded._groups.classic.rebalance import prepare_rebalance, select_protocol
from broker_embedded._groups.consumer.config import ConsumerContext
from broker_embedded._groups.consumer.draft import REGEX_TIMER, ConsumerDraft, member_timers
from broker_embedded._groups.consumer.entries import (
    current_entry,
    epoch_entry,
    member_entry,
    target_entry,
    target_epoch_entry,
)
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.member import ConsumerMember, TopicIdPartition, by_topic
from broker_embedded._groups.consumer.records import ClassicMemberMetadata, ClassicProtocolEntry
from broker_embedded._groups.consumer.topics import TopicsView
from broker_embedded._groups.group import CancelTimer, Outcome, ResponseT
from spark_kafka_native._protocol.consumer_protocol import (
    CONSUMER_PROTOCOL,
    Assignment,
    MalformedEmbedded,
    TopicPartitions,
    encode_assignment,
    read_assignment,
    read_subscription,
    version_of,
)
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequestProtocol

# --- upgrade ----------------------------------------------------------------------------------------------------------


def upgrade(group: ClassicGroup, context: ConsumerContext, now_ms: int) -> ConsumerDraft:
    """A draft of the group as a consumer group. Raises KafkaError, GROUP_ID_NOT_FOUND: it stays a classic group."""
    _check_upgrade(group, context)
    try:
        members = [_consumer_member(group, member, context.topics()) for member in group.members.values()]
    except MalformedEmbedded as error:
        raise _refused(group, f"the metadata of its members is not a consumer subscription: {error}") from error
    draft = ConsumerDraft(
        ConsumerGroup(group_id=group.group_id, context=context),
        now_ms,
        preceding=group.tombstones(),
        replies=group.released(ErrorCode.REBALANCE_IN_PROGRESS),
    )
    draft.append(*(member_entry(group.group_id, member) for member in members))
    draft.append(epoch_entry(group.group_id, group.generation, draft.group.current_hash()))
    draft.append(
        *(target_entry(group.group_id, member.member_id, member.assigned) for member in members),
        target_epoch_entry(group.group_id, group.generation, 0),
        *(current_entry(group.group_id, member) for member in members),
    )
    for key in (JOIN_TIMER, SYNC_TIMER, *map(session_timer, group.pending)):
        draft.cancel_timer(key)
    for member in group.members.values():
        draft.schedule_timer(session_timer(member.member_id), member.session_timeout_ms)
    return draft


def _check_upgrade(group: ClassicGroup, context: ConsumerContext) -> None:
    config = context.config(group.group_id)
    if not config.migration_policy.allows_upgrade:
        raise _refused(group, "group.consumer.migration.policy does not allow an upgrade")
    if not group.is_of_consumers:
        raise _refused(group, f"its protocol type is {group.protocol_type!r}, not consumer")
    if len(group.members) > config.max_size:
        raise _refused(group, f"it has more members than group.consumer.max.size = {config.max_size}")


def _refused(group: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id!r} is a classic group, and {reason}")


def _consumer_member(group: ClassicGroup, member: ClassicMember, topics: TopicsView) -> ConsumerMember:
    """The member with its subscription and its assigned partitions. Raises MalformedEmbedded."""
    subscription = read_subscription(member.metadata(group.protocol_name or member.protocols[0].name))
    assigned: dict[TopicIdPartition, int] = {}
    if member.assignment:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _refused(group, "the user data of its own assignor would be lost")
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


# --- downgrade --------------------------------------------------------------------------------------------------------


def downgrade_is_due(group: ConsumerGroup, leaving: Collection[str]) -> bool:
    """Whether the group becomes a classic group when the members with these ids leave."""
    staying = [member for member_id, member in group.members.items() if member_id not in leaving]
    return (
        0 < len(staying) <= group.context.classic.max_size
        and all(member.classic is not None for member in staying)
        and group.context.config(group.group_id).migration_policy.allows_downgrade
    )


def downgrade(
    draft: ConsumerDraft, response: ResponseT, *, leaving: Collection[str] = (), rebalance: bool
) -> Outcome[ResponseT]:
    """The group as a classic group, without the members that leave. Only the records of ``draft`` are used."""
    group = draft.group
    staying = [member for member_id, member in group.members.items() if member_id not in leaving]
    stable = _as_classic(group, staying, draft.now_ms)
    changing = ClassicDraft(stable, draft.now_ms)
    for member in stable.members.values():
        changing.reschedule_session_timeout(member)
    if rebalance:
        prepare_rebalance(changing)
    outcome = changing.outcome(response)
    ended = [key for member_id in group.members for key in member_timers(member_id)]
    ended += [session_timer(member_id) for member_id in leaving]
    return replace(
        outcome,
        records=(*draft.records, *group.tombstones(), stable.record(), *outcome.records),
        timers=(*(CancelTimer(key=key) for key in (*ended, REGEX_TIMER)), *outcome.timers),
    )


def _as_classic(group: ConsumerGroup, staying: Iterable[ConsumerMember], now_ms: int) -> ClassicGroup:
    members = {member.member_id: _classic_member(member) for member in staying}
    classic = ClassicGroup(
        group_id=group.group_id,
        config=group.context.classic,
        state=ClassicState.STABLE,
        state_since_ms=now_ms,
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        leader=next(iter(members)),
        members=members,
    )
    protocol = select_protocol(ClassicDraft(classic, now_ms))
    topics = group.context.topics()
    return replace(
        classic,
        protocol_name=protocol,
        subscribed=subscribed_topics(member.metadata(protocol) for member in members.values()),
        members={
            member_id: replace(
                member,
                assignment=_encoded(group.targets.get(member_id, frozenset()), member.metadata(protocol), topics),
            )
            for member_id, member in members.items()
        },
    )


def _classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=tuple(
            JoinGroupRequestProtocol(name=entry.name, metadata=entry.metadata)
            for entry in member.classic.supported_protocols
        ),
    )


def _encoded(target: Iterable[TopicIdPartition], metadata: bytes, topics: TopicsView) -> bytes:
    try:
        version = version_of(metadata)
    except MalformedEmbedded:
        version = 0
    return assignment_of(target, topics, version)


# --- the classic protocol in a consumer group -------------------------------------------------------------------------


def classic_metadata(session_timeout_ms: int, protocols: tuple[JoinGroupRequestProtocol, ...]) -> ClassicMemberMetadata:
    """The fields of a classic member's JoinGroup that are written to the log."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=tuple(
            ClassicProtocolEntry(name=protocol.name, metadata=protocol.metadata) for protocol in protocols
        ),
    )


def partitions_of(named: Iterable[TopicPartitions], topics: TopicsView) -> frozenset[TopicIdPartition]:
    """Partitions by topic id, from partitions by topic name. Topics that do not exist are omitted."""
    return frozenset(
        TopicIdPartition(topics.by_name[topic.topic].topic_id, number)
        for topic in named
        if topic.topic in topics.by_name
        for number in topic.partitions
    )


def assignment_of(partitions: Iterable[TopicIdPartition], topics: TopicsView, version: int) -> bytes:
    """Encode an assignment in a version that its member supports. Topics that do not exist are omitted."""
    named = tuple(
        TopicPartitions(topic=topics.by_id[topic_id].name, partitions=tuple(numbers))
        for topic_id, numbers in by_topic(partitions).items()
        if topic_id in topics.by_id
    )
    return encode_assignment(Assignment(assigned_partitions=named), version)
