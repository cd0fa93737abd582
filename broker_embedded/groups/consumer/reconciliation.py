"""One member on its way from what it has to what it shall have: give back first, then take what others gave back.

    STABLE               --> UNREVOKED_PARTITIONS, if it has partitions that it shall not have: it stays at its epoch,
                             and they stay its own, until a heartbeat no longer names them
                         --> otherwise its epoch becomes the target's, and it gets what is free of its target:
                             STABLE, if that is all, else UNRELEASED_PARTITIONS until others let go of the rest

So a partition is never with two members, and nobody waits for the whole group.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from broker_embedded.groups.consumer.member import ConsumerMember, MemberState, TopicIdPartition
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a member is to go. ``topic_ids`` are those it is subscribed to by now; of others it gets nothing.

    ``is_taken`` says whether another member has a partition.
    """

    epoch: int
    partitions: frozenset[TopicIdPartition]
    topic_ids: Collection[UUID]
    is_taken: Callable[[TopicIdPartition], bool]


def reconcile(
    member: ConsumerMember,
    target: Target,
    *,
    owned: frozenset[TopicIdPartition] | None,
    subscription_changed: bool,
) -> ConsumerMember:
    """The member after the next step, or as it is. ``owned`` is what it says it has; None: it did not say.

    Raises KafkaError, FENCED_MEMBER_EPOCH: it is in a state that is not known here and must begin anew.
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
                detail = f"member {member.member_id!r} is in an unknown state; it must give up all and join again"
                raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, detail)
            return _advance(member, target, owned, staying_at=target.epoch)


def _advance(
    member: ConsumerMember,
    target: Target,
    owned: frozenset[TopicIdPartition] | None,
    *,
    staying_at: int | None = None,
) -> ConsumerMember:
    """Give back what is not in the target, without going on; else take what is free of it, at the target's epoch."""
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
    member: ConsumerMember, target: Target, owned: frozenset[TopicIdPartition] | None
) -> ConsumerMember:
    """Take away partitions of topics that it is not subscribed to any more, before there is a new target."""
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
    """Whether it still has any of these, as far as it is known: unless it says what it has, it has them."""
    return owned is None or not owned.isdisjoint(partitions)
