"""A classic group: members that settle on a protocol and a leader, generation by generation; also a simple group.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
                 ^   members join      leader assigns        |
                 +-------------------------------------------+   a member comes, leaves, falls silent

The group is a value; the modules beside this one decide: JoinGroup (`classic.join`), SyncGroup (`classic.sync`),
Heartbeat and LeaveGroup (`classic.leave`), and what happens by the clock (`classic.clock`). A group that is Dead, in
Kafka's words, is one that is not there.

A simple group never had a member and has no protocol type: it is what a client's own commits make of a group id.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker_embedded.groups.classic import clock as classic_clock
from broker_embedded.groups.classic.member import ClassicMember, require_member
from broker_embedded.groups.classic.records import group_tombstone
from broker_embedded.groups.classic.state import ClassicConfig, ClassicState, InitialDelay, session_timer
from broker_embedded.groups.group import RetentionStart
from broker_embedded.groups.outcome import Outcome, Reply, SetTimer, TimerKey
from broker_embedded.groups.records import CoordinatorRecord
from spark_kafka_native.protocol.consumer_protocol import CONSUMER_PROTOCOL
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.describe_groups import DescribedGroup
from spark_kafka_native.protocol.messages.join_group import JoinGroupResponse
from spark_kafka_native.protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native.protocol.messages.sync_group import SyncGroupResponse
from spark_kafka_native.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup:
    """One classic group. ``members`` are in the order of their arrival.

    ``state_since_ms`` is None in groups that an old broker wrote down. ``pending`` are member ids that were given out
    and have not joined yet (KIP-394); ``pending_sync`` those who have joined the generation and not asked for their
    assignment. ``subscribed`` are the topics that members read, None while that is not known. ``initial`` is set during
    the first rebalance after the group was empty.
    """

    group_id: str
    config: ClassicConfig
    state: ClassicState = ClassicState.EMPTY
    state_since_ms: int | None = None
    generation: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    leader: str | None = None
    members: Mapping[str, ClassicMember] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    pending_sync: frozenset[str] = frozenset()
    subscribed: frozenset[str] | None = None
    initial: InitialDelay | None = None

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def group_type(self) -> str:
        """As ListGroups answers it."""
        return "classic"

    @property
    def state_name(self) -> str:
        """As clients are told."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether it has no members; some may have been given an id to join with."""
        return self.state is ClassicState.EMPTY

    @property
    def is_of_consumers(self) -> bool:
        """Whether its members are consumers, rather than Connect workers or such."""
        return self.protocol_type == CONSUMER_PROTOCOL

    def require_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """A member by its ids. Raises KafkaError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID, another process took over."""
        return require_member(self.members, member_id, instance_id)

    def require_generation(self, generation: int) -> None:
        """Raise KafkaError, ILLEGAL_GENERATION, unless this is the present one."""
        if generation != self.generation:
            detail = f"group {self.group_id!r} is in generation {self.generation}, not {generation}"
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, detail)

    def described(self) -> DescribedGroup:
        """The group as DescribeGroups answers it; members' metadata only once all agree on a protocol."""
        protocol = self.protocol_name if self.state is ClassicState.STABLE else None
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=self.protocol_type,
            protocol_data=protocol or "",
            members=tuple(member.described(protocol) for member in self.members.values()),
        )

    # --- positions ---------------------------------------------------------------------------------------------------

    def check_commit(self, request: OffsetCommitRequest, version: int) -> tuple[SetTimer, ...]:  # noqa: ARG002 -- consumer groups ask for it
        """Whether the sender may commit; a member's commit is as good as a heartbeat. Raises KafkaError."""
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        if generation < 0 and self.is_empty:
            return ()  # from outside any membership
        if generation < 0 and not member_id and request.group_instance_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id!r} has members; they commit for it")
        member = self.require_member(member_id, request.group_instance_id)
        self.require_generation(generation)
        if self.state is ClassicState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"group {self.group_id!r} has no assignments yet")
        return (SetTimer(key=session_timer(member_id), after_ms=member.session_timeout_ms),)

    def check_commit_in_transaction(self, request: TxnOffsetCommitRequest) -> None:
        """Raise KafkaError unless the sender may commit in a transaction: a member of this generation, or nobody.

        Old versions name neither member nor generation, so these count only where some of it is said. The group may be
        amid a rebalance.
        """
        generation, member_id, instance_id = request.generation_id, request.member_id, request.group_instance_id
        if generation < 0 and (self.is_empty or (not member_id and instance_id is None)):
            return
        self.require_member(member_id, instance_id)
        self.require_generation(generation)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anybody may ask for the positions of a classic group."""

    def check_offset_delete(self) -> None:
        """Raise KafkaError, NON_EMPTY_GROUP, while it has members of whom it is not known what they read."""
        if not self.is_empty and not self.is_of_consumers:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id!r} is {self.state_name}")

    def check_delete(self) -> None:
        """Raise KafkaError, NON_EMPTY_GROUP, unless it is empty."""
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id!r} is {self.state_name}")

    def is_subscribed(self, topic: str) -> bool:
        """Whether members read a topic; of consumers whose topics are not known it is assumed."""
        return self.is_of_consumers if self.subscribed is None else topic in self.subscribed

    def retention_start(self) -> RetentionStart | None:
        """When positions start to grow old (KIP-211): when the group became empty.

        For a simple group, and for topics that the consumers of a stable group do not read, it is the commit.
        """
        if not self.protocol_type:
            return lambda value: value.commit_timestamp
        if self.is_empty:
            since_ms = self.state_since_ms
            return lambda value: value.commit_timestamp if since_ms is None else since_ms
        if self.state is ClassicState.STABLE and self.is_of_consumers and self.subscribed is not None:
            return lambda value: value.commit_timestamp
        return None

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """The record that deletes the group."""
        return (group_tombstone(self.group_id),)

    # --- by the clock ------------------------------------------------------------------------------------------------

    def resumed(self) -> Outcome[None]:
        """Fresh sessions for all members; a rebalance if there are more of them than group.max.size allows by now."""
        return classic_clock.resumed(self)

    def timer_fired(self, key: TimerKey, now_ms: int) -> Outcome[None]:
        """Go on without members that were waited for long enough."""
        return classic_clock.timer_fired(self, key, now_ms)

    def released(self, code: ErrorCode) -> tuple[Reply, ...]:
        """An answer for everybody who waits."""
        joins = (
            Reply(ticket=member.join_ticket, answer=JoinGroupResponse(member_id=member.member_id, error_code=code))
            for member in self.members.values()
            if member.join_ticket is not None
        )
        syncs = (
            Reply(ticket=member.sync_ticket, answer=SyncGroupResponse(error_code=code))
            for member in self.members.values()
            if member.sync_ticket is not None
        )
        return *joins, *syncs
