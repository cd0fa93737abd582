"""A mutable consumer group during a decision, and the steps of decisions."""

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from broker_embedded._groups.classic.group import session_timer
from broker_embedded._groups.consumer.assignors import ASSIGNORS, Subscriber
from broker_embedded._groups.consumer.entries import (
    current_entry,
    epoch_entry,
    member_entry,
    member_tombstones,
    partition_metadata_tombstone,
    target_entry,
    target_epoch_entry,
)
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.member import ConsumerMember, MemberState, TopicIdPartition
from broker_embedded._groups.consumer.reconciliation import TargetAssignment, reconcile
from broker_embedded._groups.consumer.records import Entry, to_record
from broker_embedded._groups.consumer.replay import after
from broker_embedded._groups.group import CancelTimer, Outcome, Reply, ResponseT, SetTimer, TimerKey
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, counted

REGEX_TIMER: TimerKey = ("regex",)
"""When it fires, `Groups` looks up the group's regular expressions, because a heartbeat must not wait for that."""


def rebalance_timer(member_id: str) -> TimerKey:
    """The rebalance timeout of a member that has to revoke partitions."""
    return "rebalance", member_id


def join_timer(member_id: str) -> TimerKey:
    """The timeout of a member of the classic protocol that has to rejoin."""
    return "join", member_id


def sync_timer(member_id: str) -> TimerKey:
    """The timeout of a member of the classic protocol that has joined and not sent SyncGroup."""
    return "sync", member_id


def member_timers(member_id: str) -> tuple[TimerKey, ...]:
    """All timers of a member except its session timeout, which members of classic groups have too."""
    return rebalance_timer(member_id), join_timer(member_id), sync_timer(member_id)


def is_within(interval_ms: int, since_ms: int, now_ms: int) -> bool:
    """Whether ``now_ms`` is within the interval that began at ``since_ms``, a time from the group's log.

    If ``since_ms`` is in the future, because the clock was set back, the interval has ended: otherwise it could last
    for hours.
    """
    return since_ms <= now_ms < since_ms + interval_ms


class ConsumerDraft:
    """The new state of a group, its records, timers and replies."""

    def __init__(
        self,
        group: ConsumerGroup,
        now_ms: int,
        *,
        preceding: Iterable[CoordinatorRecord] = (),
        replies: Iterable[Reply] = (),
    ) -> None:
        """``preceding`` are the tombstones of a classic group of the id, ``replies`` answer its pending requests."""
        self.group = group
        self.now_ms = now_ms
        self._group_before = group
        self.config = group.context.config(group.group_id)
        self.records = list(preceding)
        self._replies = tuple(replies)
        self._timers: dict[TimerKey, SetTimer | CancelTimer] = {}

    def append(self, *entries: Entry) -> None:
        """Add records and replay them."""
        self.records += map(to_record, entries)
        self.group = after(self.group, entries)

    def schedule_timer(self, key: TimerKey, after_ms: int) -> None:
        """Set a timer; if it is set, restart it."""
        self._timers[key] = SetTimer(key=key, after_ms=after_ms)

    def cancel_timer(self, key: TimerKey) -> None:
        """Cancel a timer."""
        self._timers[key] = CancelTimer(key=key)

    def cancel_timers(self, member_id: str) -> None:
        """Cancel all timers of a member."""
        for key in (session_timer(member_id), *member_timers(member_id)):
            self.cancel_timer(key)

    def set_must_rejoin(self, member_id: str, *, must_rejoin: bool) -> None:
        """Record whether a member of the classic protocol has to rejoin."""
        before = self.group.must_rejoin
        now = before | {member_id} if must_rejoin else before - {member_id}
        if now != before:
            self.group = replace(self.group, must_rejoin=now)

    def outcome(self, response: ResponseT) -> Outcome[ResponseT]:
        """The decision."""
        return Outcome(
            response=response,
            records=tuple(self.records),
            group=None if self.group is self._group_before and not self.records else self.group,
            timers=tuple(self._timers.values()),
            replies=self._replies,
        )

    # --- steps -------------------------------------------------------------------------------------------------------

    def check_max_size(self, member_id: str) -> None:
        """Raise KafkaError, GROUP_MAX_SIZE_REACHED, if the group is full and this is a new member."""
        members = self.group.members
        if len(members) >= self.config.max_size and member_id not in members:
            detail = f"group {self.group.group_id!r} has {counted(len(members), 'member')} (group.consumer.max.size)"
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, detail)

    def replace_static_member(self, last: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member with a new member id, and the assignment of the old one."""
        group_id, target = self.group.group_id, self.group.targets.get(last.member_id, frozenset())
        new = replace(last, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        self.append(
            *member_tombstones(group_id, last.member_id),
            member_entry(group_id, new),
            target_entry(group_id, member_id, target),
            current_entry(group_id, new),
        )
        if member_id != last.member_id:
            self.cancel_timers(last.member_id)
        return new

    def bump_group_epoch(self, *, if_topics_changed: bool) -> None:
        """Bump the group's epoch: at once, or only if the subscribed topics have changed since the last check."""
        view = self.group.context.topics()
        if not if_topics_changed or self.group.looked_at is not view:
            topics_hash = self.group.current_hash()
            if not if_topics_changed or topics_hash != self.group.metadata_hash:
                self.append(epoch_entry(self.group.group_id, self.group.epoch + 1, topics_hash))
            self.group = replace(self.group, looked_at=view)
        if self.group.has_partition_metadata:
            self.append(partition_metadata_tombstone(self.group.group_id))

    def update_target_assignment(self) -> None:
        """Compute a new target if the group's epoch is newer and the assignment interval has passed."""
        group, config = self.group, self.config
        if group.assignment_epoch >= group.epoch or (
            is_within(config.assignment_interval_ms, group.assignment_timestamp, self.now_ms)
            and group.assignment_timestamp != 0
        ):
            return
        targets = self._assign()
        self.append(
            *(
                target_entry(group.group_id, member_id, partitions)
                for member_id, partitions in targets.items()
                if partitions != group.targets.get(member_id)
            ),
            target_epoch_entry(group.group_id, group.epoch, self.now_ms),
        )

    def maybe_reconcile(
        self, member_id: str, owned: frozenset[TopicIdPartition] | None, *, subscription_changed: bool
    ) -> ConsumerMember:
        """Reconcile a member by one step towards its target. Raises KafkaError, FENCED_MEMBER_EPOCH."""
        group = self.group
        member = group.members[member_id]
        if not subscription_changed and member.is_reconciled_to(group.assignment_epoch):
            return member
        target = TargetAssignment(
            epoch=group.assignment_epoch,
            partitions=group.targets.get(member_id, frozenset()),
            topic_ids=group.context.topics().ids_of(group.subscriptions_of(member)),
            is_taken=lambda partition: group.is_taken(partition, but_by=member_id),
        )
        settled = reconcile(member, target, owned=owned, subscription_changed=subscription_changed)
        if settled == member:
            return member
        self.append(current_entry(group.group_id, settled))
        if settled.classic is None:
            if settled.state is MemberState.UNREVOKED_PARTITIONS:
                self.schedule_timer(rebalance_timer(member_id), settled.rebalance_timeout_ms)
            else:
                self.cancel_timer(rebalance_timer(member_id))
        return settled

    def _assign(self) -> dict[str, frozenset[TopicIdPartition]]:
        group = self.group
        view = group.context.topics()
        ids: dict[frozenset[str], frozenset[UUID]] = {}
        subscribers: dict[str, Subscriber] = {}
        for member in group.members.values():
            names = group.subscriptions_of(member)
            if names not in ids:
                ids[names] = view.ids_of(names)
            subscribers[member.member_id] = Subscriber(
                topic_ids=ids[names],
                assignment=group.targets.get(member.member_id, frozenset()),
                instance_id=member.instance_id,
            )
        counts = {topic_id: view.by_id[topic_id].partitions for topic_id in frozenset().union(*ids.values())}
        name = group.preferred_assignor
        return ASSIGNORS[name if name in self.config.assignors else self.config.assignors[0]](subscribers, counts)
