"""Reconciliation of one member with its target assignment: revoke partitions first, then take free ones.

    STABLE               --> UNREVOKED_PARTITIONS, if it has partitions that are not in its target: it keeps its epoch
                             and the partitions, until a heartbeat does not contain them any more
                         --> otherwise its epoch becomes the target's, and it gets the free partitions of its target:
                             STABLE, if these are all, else UNRELEASED_PARTITIONS until other members release the rest

So a partition never belongs to two members, and no member waits for the whole group.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from broker_embedded._groups.consumer.member import ConsumerMember, MemberState, TopicIdPartition
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignment:
    """The target of a member. ``topic_ids`` are its present subscriptions; it gets no partition of other topics.

    ``is_taken`` returns whether another member has a partition.
    """

    epoch: int
    partitions: frozenset[TopicIdPartition]
    topic_ids: Collection[UUID]
    is_taken: Callable[[TopicIdPartition], bool]


def reconcile(
    member: ConsumerMember,
    target: TargetAssignment,
    *,
    owned: frozenset[TopicIdPartition] | None,
    subscription_changed: bool,
) -> ConsumerMember:
    """The member after the next step, or unchanged. ``owned`` are the partitions of the heartbeat, or None.

    Raises KafkaError, FENCED_MEMBER_EPOCH: it is in an unknown state and must rejoin.
    """
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch != target.epoch:
                return _advance(member, target, owned)
            return _without_unsubscribed(member, target, owned) if subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if not _owns_any(owned, member.pending_revocation):
                return _advance(member, target, owned)
            return _without_unsubscribed(member, target, owned) if subscription_changed else member
        case MemberState.UNRELEASED_PARTITIONS:
            return _advance(member, target, owned)
        case MemberState.UNKNOWN:
            if owned is None or owned:
                detail = (
                    f"member {member.member_id!r} is in an unknown state; it must abandon all its partitions and rejoin"
                )
                raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, detail)
            return _advance(member, target, owned, staying_at=target.epoch)


def _advance(
    member: ConsumerMember,
    target: TargetAssignment,
    owned: frozenset[TopicIdPartition] | None,
    *,
    staying_at: int | None = None,
) -> ConsumerMember:
    """Revoke partitions that are not in the target; if there are none, take its free ones, with the target's epoch."""
    wanted = {part for part in target.partitions if part.topic_id in target.topic_ids}
    kept = {part: epoch for part, epoch in member.assigned.items() if part in wanted}
    too_much = {part: epoch for part, epoch in member.assigned.items() if part not in wanted}
    if too_much and _owns_any(owned, too_much):
        return replace(
            member.moved_to(member.member_epoch if staying_at is None else staying_at),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=too_much,
        )
    missing = sorted(wanted - kept.keys())
    free = [part for part in missing if not target.is_taken(part)]
    return replace(
        member.moved_to(target.epoch),
        state=MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS,
        assigned=kept | dict.fromkeys(free, target.epoch),
        pending_revocation={},
    )


def _without_unsubscribed(
    member: ConsumerMember, target: TargetAssignment, owned: frozenset[TopicIdPartition] | None
) -> ConsumerMember:
    """Revoke partitions of topics that it does not subscribe to any more, before there is a new target."""
    dropped = {part: epoch for part, epoch in member.assigned.items() if part.topic_id not in target.topic_ids}
    if not dropped:
        return member
    kept = {part: epoch for part, epoch in member.assigned.items() if part not in dropped}
    pending = {**member.pending_revocation, **dropped}
    moved = replace(member.moved_to(member.member_epoch), assigned=kept)
    if _owns_any(owned, pending):
        return replace(moved, state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)
    return moved


def _owns_any(owned: frozenset[TopicIdPartition] | None, partitions: Mapping[TopicIdPartition, int]) -> bool:
    """Whether it still has any of these. Without ``owned`` it has them."""
    return owned is None or not owned.isdisjoint(partitions)
