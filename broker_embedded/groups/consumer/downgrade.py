"""A consumer group becomes a classic group, when only members that speak the classic protocol are left.

They keep their targets as assignments, in a generation that is the group's epoch, and rebalance unless the targets are
up to date.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from broker_embedded.groups.classic import draft as classic_draft
from broker_embedded.groups.classic.group import ClassicGroup
from broker_embedded.groups.classic.member import ClassicMember
from broker_embedded.groups.classic.rebalance import prepare_rebalance, select_protocol
from broker_embedded.groups.classic.records import group_record
from broker_embedded.groups.classic.state import ClassicState, session_timer
from broker_embedded.groups.classic.subscription import subscribed_topics
from broker_embedded.groups.consumer.draft import REGEX_TIMER, Draft, member_timers
from broker_embedded.groups.consumer.member import ConsumerMember, TopicIdPartition
from broker_embedded.groups.consumer.protocol import assignment_of
from broker_embedded.groups.outcome import AnswerT, CancelTimer, Outcome
from spark_kafka_native.protocol.consumer_protocol import CONSUMER_PROTOCOL, MalformedEmbedded, version_of
from spark_kafka_native.protocol.messages.join_group import JoinGroupRequestProtocol

if TYPE_CHECKING:
    from broker_embedded.groups.consumer.group import ConsumerGroup
    from broker_embedded.groups.consumer.topics import TopicsView


def is_due(group: "ConsumerGroup", leaving: Collection[str]) -> bool:
    """Whether the group is to become a classic one as the members with these ids leave."""
    staying = [member for member_id, member in group.members.items() if member_id not in leaving]
    return (
        0 < len(staying) <= group.context.classic.max_size
        and all(member.classic is not None for member in staying)
        and group.context.config(group.group_id).migration_policy.allows_downgrade
    )


def downgrade(draft: Draft, answer: AnswerT, *, leaving: Collection[str] = (), rebalance: bool) -> Outcome[AnswerT]:
    """The group as a classic one, without those who leave. Of the draft its records are taken, and nothing else."""
    group = draft.group
    staying = [member for member_id, member in group.members.items() if member_id not in leaving]
    stable = _as_classic(group, staying, draft.now_ms)
    changing = classic_draft.Draft(stable, draft.now_ms)
    for member in stable.members.values():
        changing.renew_session(member)
    if rebalance:
        prepare_rebalance(changing)
    outcome = changing.outcome(answer)
    ended = [key for member_id in group.members for key in member_timers(member_id)]
    ended += [session_timer(member_id) for member_id in leaving]
    return replace(
        outcome,
        records=(*draft.records, *group.tombstones(), group_record(stable), *outcome.records),
        timers=(*(CancelTimer(key=key) for key in (*ended, REGEX_TIMER)), *outcome.timers),
    )


def _as_classic(group: "ConsumerGroup", staying: Iterable[ConsumerMember], now_ms: int) -> ClassicGroup:
    members = {member.member_id: _member(member) for member in staying}
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
    protocol = select_protocol(classic_draft.Draft(classic, now_ms))
    topics = group.context.topics()
    return replace(
        classic,
        protocol_name=protocol,
        subscribed=subscribed_topics(member.metadata(protocol) for member in members.values()),
        members={
            member_id: replace(
                member,
                assignment=_assignment(group.targets.get(member_id, frozenset()), member.metadata(protocol), topics),
            )
            for member_id, member in members.items()
        },
    )


def _member(member: ConsumerMember) -> ClassicMember:
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


def _assignment(target: Iterable[TopicIdPartition], metadata: bytes, topics: "TopicsView") -> bytes:
    try:
        version = version_of(metadata)
    except MalformedEmbedded:
        version = 0
    return assignment_of(target, topics, version)
