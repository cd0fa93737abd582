"""A consumer group of the new protocol (KIP-848), whose members reconcile independently to one target assignment.

There are three kinds of epochs. The group epoch increases when a member joins, leaves or changes its subscription, or a
topic changes. The assignment epoch becomes the group epoch when a new target assignment is computed. A member epoch
becomes the assignment epoch when the member has revoked all partitions that it must (`consumer.reconciliation`).

    Empty          no members
    Assigning      the target assignment is older than the group
    Reconciling    a member is not reconciled to its target yet
    Stable         all members are

The group is a value. Decisions are in other modules: heartbeats (`consumer.heartbeat`), requests of members that use
the classic protocol (`consumer.classic`), members that leave and the group's timers (`consumer.leave`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from broker_embedded._groups.consumer.config import ConsumerContext
from broker_embedded._groups.consumer.entries import ResolvedRegex, group_tombstones
from broker_embedded._groups.consumer.member import ConsumerMember, TopicIdPartition
from broker_embedded._groups.consumer.records import to_record
from broker_embedded._groups.consumer.topics import TopicsView
from broker_embedded._groups.group import Reply, RetentionStart, SetTimer
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from spark_kafka_native._protocol.wire import ZERO_UUID

_EPOCHS_SINCE: Final = 9
"""The first OffsetCommit version with member epochs."""


class _Memo:
    """Cached results about the subscriptions of all members."""

    __slots__ = ("regexes", "topics")

    def __init__(self) -> None:
        self.topics: frozenset[str] | None = None
        self.regexes: Counter[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """One consumer group. ``targets`` are by member id, ``static_members`` are the member ids by instance id.

    A new group's epochs are 1, so that a member that joins without subscribing has an epoch above 0.
    ``assignment_timestamp`` 0: the time of the target is unknown. ``regexes`` are the resolved regular expressions.
    ``has_partition_metadata``: a record of an older broker must be removed.

    Not in the log: ``must_rejoin`` are members of the classic protocol that must rejoin, ``looked_at`` the view of
    topics that ``metadata_hash`` was last compared with.
    """

    group_id: str
    context: ConsumerContext = field(repr=False, compare=False)
    epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 1
    assignment_timestamp: int = 0
    members: Mapping[str, ConsumerMember] = field(default_factory=dict)
    static_members: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, frozenset[TopicIdPartition]] = field(default_factory=dict)
    regexes: Mapping[str, ResolvedRegex] = field(default_factory=dict)
    has_partition_metadata: bool = False
    must_rejoin: frozenset[str] = field(default=frozenset(), compare=False)
    looked_at: TopicsView | None = field(default=None, repr=False, compare=False)
    memo: _Memo = field(default_factory=_Memo, repr=False, compare=False)

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def group_type(self) -> str:
        """As ListGroups answers it."""
        return "consumer"

    @property
    def protocol_type(self) -> str:
        """As ListGroups answers it."""
        return "consumer"

    @property
    def state_name(self) -> str:
        """As in responses."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        settled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def classic_count(self) -> int:
        """The number of members that use the classic protocol."""
        return sum(member.classic is not None for member in self.members.values())

    @property
    def preferred_assignor(self) -> str | None:
        """The assignor that most members request, or None."""
        votes = Counter(member.server_assignor for member in self.members.values() if member.server_assignor)
        return max(votes, key=lambda name: (votes[name], name)) if votes else None

    def require_member(self, member_id: str) -> ConsumerMember:
        """A member by its id. Raises KafkaError, UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id!r} has no member {member_id!r}")
        return member

    def require_static(self, instance_id: str, member_id: str) -> ConsumerMember:
        """A static member by its ids.

        Raises KafkaError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID, another member has replaced it.
        """
        member = self.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id!r} has no instance {instance_id!r}")
        if member.member_id != member_id:
            detail = f"instance {instance_id!r} of group {self.group_id!r} is {member.member_id!r}, not {member_id!r}"
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, detail)
        return member

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member that has an instance id, or None."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_taken(self, partition: TopicIdPartition, *, but_by: str) -> bool:
        """Whether another member has a partition, or has not revoked it yet."""
        return any(
            partition in member.assigned or partition in member.pending_revocation
            for member in self.members.values()
            if member.member_id != but_by
        )

    # --- what it reads -----------------------------------------------------------------------------------------------

    def subscriptions_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member subscribes to. An unresolved regular expression matches nothing."""
        resolved = self.regexes.get(member.regex) if member.regex is not None else None
        return member.subscribed_topic_names if resolved is None else member.subscribed_topic_names | resolved.topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics that any member subscribes to."""
        if self.memo.topics is None:
            names = {name for member in self.members.values() for name in member.subscribed_topic_names}
            self.memo.topics = frozenset(names.union(*(resolved.topics for resolved in self.regexes.values())))
        return self.memo.topics

    @property
    def subscribed_regexes(self) -> Counter[str]:
        """The regular expressions of the members, with the number of members of each."""
        if self.memo.regexes is None:
            self.memo.regexes = Counter(member.regex for member in self.members.values() if member.regex is not None)
        return self.memo.regexes

    def current_hash(self) -> int:
        """The metadata hash of the present topics, which differs from ``metadata_hash`` if they have changed."""
        return self.context.topics().metadata_hash(self.subscribed_topics)

    def with_subscriptions_changed(self) -> "ConsumerGroup":
        """A copy without cached results about subscriptions."""
        return replace(self, memo=_Memo())

    # --- offsets ---------------------------------------------------------------------------------------------------

    def check_commit(self, request: OffsetCommitRequest, version: int) -> tuple[SetTimer, ...]:
        """Raise KafkaError unless the sender may commit. A commit does not renew the session.

        A member may have an older epoch if it has had all partitions of the request since that epoch.
        """
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and self.is_empty:
            return ()  # the client is not a member
        member = self.require_member(request.member_id)
        if member.classic is None and version < _EPOCHS_SINCE:
            detail = f"members of group {self.group_id!r} must commit with OffsetCommit v{_EPOCHS_SINCE} or later"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        named = (
            (topic.name, topic.topic_id, part.partition_index) for topic in request.topics for part in topic.partitions
        )
        self._check_epoch(member, epoch, named)
        return ()

    def check_commit_in_transaction(self, request: TxnOffsetCommitRequest) -> None:
        """Raise KafkaError unless the sender may commit in a transaction.

        It must be a member as in ``check_commit``, or name no member and no epoch, as old versions do.
        """
        epoch = request.generation_id
        if epoch < 0 and (self.is_empty or (not request.member_id and request.group_instance_id is None)):
            return
        member = self.require_member(request.member_id)
        named = ((topic.name, ZERO_UUID, part.partition_index) for topic in request.topics for part in topic.partitions)
        try:
            self._check_epoch(member, epoch, named)
        except KafkaError as error:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.detail) from error

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError unless the sender is not a member, or a member with its present epoch."""
        if member_id is None and member_epoch < 0:
            return
        member = self.require_member(member_id or "")
        if member_epoch != member.member_epoch:
            raise self._stale(member, member_epoch)

    def check_offset_delete(self) -> None:
        """Offsets of topics without subscribers may always be deleted."""

    def check_delete(self) -> None:
        """Raise KafkaError, NON_EMPTY_GROUP, unless it is empty."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id!r} is {self.state_name}")

    def is_subscribed(self, topic: str) -> bool:
        """Whether members subscribe to a topic."""
        return topic in self.subscribed_topics

    def retention_start(self) -> RetentionStart | None:
        """Offsets of topics without subscribers expire from their commit on."""
        return lambda value: value.commit_timestamp

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """The records that delete the group."""
        return tuple(map(to_record, group_tombstones(self.group_id, self.members, self.regexes)))

    def _check_epoch(self, member: ConsumerMember, epoch: int, named: Iterable[tuple[str, UUID, int]]) -> None:
        """Raise KafkaError unless a member has this epoch, or has had all these partitions since it."""
        is_older = epoch < member.member_epoch
        if epoch > member.member_epoch or (is_older and not self._had_since(member, named, epoch)):
            raise self._stale(member, epoch)

    def _had_since(self, member: ConsumerMember, named: Iterable[tuple[str, UUID, int]], epoch: int) -> bool:
        by_name = self.context.topics().by_name
        for name, topic_id, index in named:
            meant = by_name[name].topic_id if name in by_name else topic_id
            since = member.assignment_epoch(TopicIdPartition(meant, index))
            if since is None or epoch < since:
                return False
        return True

    def _stale(self, member: ConsumerMember, epoch: int) -> KafkaError:
        code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        detail = (
            f"member {member.member_id!r} of group {self.group_id!r} is at epoch {member.member_epoch}, not {epoch}"
        )
        return KafkaError(code, detail)

    def released(self, code: ErrorCode) -> tuple[Reply, ...]:
        """No request is pending in this protocol."""
        del code
        return ()
