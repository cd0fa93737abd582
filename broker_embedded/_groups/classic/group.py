"""A classic group, whose members agree on a protocol and a leader in each generation, or a simple group.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
                 ^   members join      leader assigns        |
                 +-------------------------------------------+   a member joins, leaves, times out

The group is a value. Decisions are in other modules: JoinGroup (`classic.join`), SyncGroup (`classic.sync`), Heartbeat,
LeaveGroup and the group's timers (`classic.leave`). A group in Kafka's state Dead does not exist here.

A simple group never had a member and has no protocol type. A commit of a client that is not a member creates it.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker_embedded._groups.classic.member import ClassicMember, require_member
from broker_embedded._groups.classic.records import GroupMetadataValue, MemberMetadata, group_record, group_tombstone
from broker_embedded._groups.group import Reply, RetentionStart, SetTimer, TimerKey
from broker_embedded._groups.records import LATEST_VERSIONS, RecordVersions
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.consumer_protocol import CONSUMER_PROTOCOL
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.describe_groups import DescribedGroup
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.join_group import JoinGroupResponse
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

JOIN_TIMER: Final[TimerKey] = ("join",)
"""Ends the wait for members to join."""
SYNC_TIMER: Final[TimerKey] = ("sync",)
"""Ends the wait for members to fetch their assignments."""
SESSION: Final = "session"


def session_timer(member_id: str) -> TimerKey:
    """The session timeout of a member."""
    return SESSION, member_id


class ClassicState(enum.Enum):
    """The state of a group. The values are those in responses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicConfig:
    """The broker settings of classic groups, ``group.*``, and the versions of their records."""

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    record_versions: RecordVersions = LATEST_VERSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialDelay:
    """The initial rebalance delay of an empty group, which is extended while members join.

    ``delay_ms`` is the present delay, ``remaining_ms`` the time after it; ``member_added``: a member has joined since
    the present delay began.
    """

    delay_ms: int
    remaining_ms: int
    member_added: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup:
    """One classic group. ``members`` are in the order of joining.

    ``state_since_ms`` is None in groups that an old broker wrote. ``pending`` are new member ids that have not joined
    yet (KIP-394), ``pending_sync`` the members of the generation that have not sent SyncGroup. ``subscribed`` are the
    topics that members subscribe to, None if unknown. ``initial`` is set during the first rebalance after the group was
    empty.
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
        """As in responses."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether it has no members. There may be new member ids."""
        return self.state is ClassicState.EMPTY

    @property
    def is_of_consumers(self) -> bool:
        """Whether its members are consumers, and not for example Connect workers."""
        return self.protocol_type == CONSUMER_PROTOCOL

    def require_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """A member by its ids.

        Raises KafkaError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID, another process has replaced it.
        """
        return require_member(self.members, member_id, instance_id)

    def require_generation(self, generation: int) -> None:
        """Raise KafkaError, ILLEGAL_GENERATION, unless this is the present one."""
        if generation != self.generation:
            detail = f"group {self.group_id!r} is in generation {self.generation}, not {generation}"
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, detail)

    def described(self) -> DescribedGroup:
        """The group in a DescribeGroups response. Members have metadata only if the group is stable."""
        protocol = self.protocol_name if self.state is ClassicState.STABLE else None
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=self.protocol_type,
            protocol_data=protocol or "",
            members=tuple(member.described(protocol) for member in self.members.values()),
        )

    # --- offsets ---------------------------------------------------------------------------------------------------

    def check_commit(
        self,
        request: OffsetCommitRequest,
        version: int,  # noqa: ARG002  # consumer groups need it, and `Group` declares it for both kinds
    ) -> tuple[SetTimer, ...]:
        """The timers that the commit renews: a member's commit counts as a heartbeat.

        Raises KafkaError: it is refused.
        """
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        if generation < 0 and self.is_empty:
            return ()  # the client is not a member
        if generation < 0 and not member_id and request.group_instance_id is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {self.group_id!r} has members, so that other clients must not commit",
            )
        member = self.require_member(member_id, request.group_instance_id)
        self.require_generation(generation)
        if self.state is ClassicState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"group {self.group_id!r} has no assignments yet")
        return (SetTimer(key=session_timer(member_id), after_ms=member.session_timeout_ms),)

    def check_commit_in_transaction(self, request: TxnOffsetCommitRequest) -> None:
        """Raise KafkaError unless the sender may commit in a transaction.

        It must be a member of this generation, or name no member and no generation, as old versions do. The group may
        be rebalancing.
        """
        generation, member_id, instance_id = request.generation_id, request.member_id, request.group_instance_id
        if generation < 0 and (self.is_empty or (not member_id and instance_id is None)):
            return
        self.require_member(member_id, instance_id)
        self.require_generation(generation)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Every client may fetch the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        """Raise KafkaError, NON_EMPTY_GROUP, while it has members whose subscriptions are unknown."""
        if not self.is_empty and not self.is_of_consumers:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id!r} is {self.state_name}")

    def check_delete(self) -> None:
        """Raise KafkaError, NON_EMPTY_GROUP, unless it is empty."""
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id!r} is {self.state_name}")

    def is_subscribed(self, topic: str) -> bool:
        """Whether members subscribe to a topic, or may: the subscriptions of consumers may be unknown."""
        return self.is_of_consumers if self.subscribed is None else topic in self.subscribed

    def retention_start(self) -> RetentionStart | None:
        """The time from which offsets expire (KIP-211): when the group became empty.

        For a simple group, and for topics that the consumers of a stable group do not subscribe to, it is the commit.
        """
        if not self.protocol_type:
            return lambda value: value.commit_timestamp
        if self.is_empty:
            since_ms = self.state_since_ms
            return lambda value: value.commit_timestamp if since_ms is None else since_ms
        if self.state is ClassicState.STABLE and self.is_of_consumers and self.subscribed is not None:
            return lambda value: value.commit_timestamp
        return None

    # --- its record and its pending requests -------------------------------------------------------------------------

    def record(self) -> CoordinatorRecord:
        """The group with its assignments. Members without a common protocol have no record."""
        protocol = self.protocol_name
        assert protocol is not None or not self.members
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=protocol,
            leader=self.leader,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            members=tuple(
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(protocol or ""),
                    assignment=member.assignment,
                )
                for member in self.members.values()
            ),
        )
        return group_record(self.group_id, value, self.config.record_versions)

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """The record that deletes the group."""
        return (group_tombstone(self.group_id),)

    def released(self, code: ErrorCode) -> tuple[Reply, ...]:
        """An error for every pending request."""
        joins = (
            Reply(
                request_id=member.join_request_id,
                response=JoinGroupResponse(member_id=member.member_id, error_code=code),
            )
            for member in self.members.values()
            if member.join_request_id is not None
        )
        syncs = (
            Reply(request_id=member.sync_request_id, response=SyncGroupResponse(error_code=code))
            for member in self.members.values()
            if member.sync_request_id is not None
        )
        return *joins, *syncs


def require_sender(
    group: ClassicGroup | None, request: HeartbeatRequest | SyncGroupRequest
) -> tuple[ClassicGroup, ClassicMember]:
    """The group of a request and the member that sent it, in the present generation. Raises KafkaError."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {request.group_id!r}")
    member = group.require_member(request.member_id, request.group_instance_id)
    group.require_generation(request.generation_id)
    return group, member
