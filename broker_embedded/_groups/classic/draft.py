"""A mutable classic group during a decision, which becomes an `Outcome`."""

from dataclasses import replace
from types import MappingProxyType

from broker_embedded._groups.classic.group import ClassicGroup, ClassicState, session_timer
from broker_embedded._groups.classic.member import ClassicMember
from broker_embedded._groups.group import CancelTimer, Outcome, Pending, Reply, ResponseT, SetTimer, TimerKey
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.join_group import JoinGroupResponse
from spark_kafka_native._protocol.messages.sync_group import SyncGroupResponse


class ClassicDraft:
    """The new state of a group, its records, timers and replies. The original group is not changed."""

    def __init__(self, group: ClassicGroup, now_ms: int) -> None:
        self._before = group
        self._now_ms = now_ms
        self.config = group.config
        self.state = group.state
        self.state_since_ms = group.state_since_ms
        self.generation = group.generation
        self.protocol_type = group.protocol_type
        self.protocol_name = group.protocol_name
        self.leader = group.leader
        self.members = dict(group.members)
        self.pending = set(group.pending)
        self.pending_sync = set(group.pending_sync)
        self.subscribed = group.subscribed
        self.initial = group.initial
        self.records: list[CoordinatorRecord] = []
        self._timers: dict[TimerKey, SetTimer | CancelTimer] = {}
        self._replies: list[Reply] = []

    # --- what it looks like by now -----------------------------------------------------------------------------------

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def num_awaiting_join_response(self) -> int:
        """The number of pending JoinGroups."""
        return sum(member.awaits_join for member in self.members.values())

    @property
    def has_all_members_joined(self) -> bool:
        """Whether all members have joined, and no client with a new member id has to join."""
        return not self.pending and all(member.awaits_join for member in self.members.values())

    def supports_protocols(self, protocol_type: str, protocols: tuple[str, ...]) -> bool:
        """Whether a member with these protocols can join: all members support one of them."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(all(member.supports(name) for member in self.members.values()) for name in protocols)

    def to_group(self) -> ClassicGroup:
        """The group in the present state."""
        return replace(
            self._before,
            state=self.state,
            state_since_ms=self.state_since_ms,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader,
            members=MappingProxyType(dict(self.members)),
            pending=frozenset(self.pending),
            pending_sync=frozenset(self.pending_sync),
            subscribed=self.subscribed,
            initial=self.initial,
        )

    def outcome(self, response: ResponseT | Pending) -> Outcome[ResponseT]:
        """The decision. The draft must not be changed afterwards."""
        return Outcome(
            response=response,
            records=tuple(self.records),
            group=self.to_group(),
            timers=tuple(self._timers.values()),
            replies=tuple(self._replies),
        )

    # --- steps -------------------------------------------------------------------------------------------------------

    def transition_to(self, state: ClassicState) -> None:
        """Change the state."""
        self.state = state
        self.state_since_ms = self._now_ms

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member. The first one sets the group's protocol type and becomes the leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending.discard(member.member_id)

    def update_member(self, member: ClassicMember) -> ClassicMember:
        """Replace the member of this id."""
        self.members[member.member_id] = member
        return member

    def remove(self, member_id: str) -> None:
        """Remove a member or a new member id. A pending request must be answered before."""
        self.members.pop(member_id, None)
        self.pending.discard(member_id)
        self.pending_sync.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.cancel_timer(session_timer(member_id))

    def fail_and_remove(self, member: ClassicMember) -> None:
        """Answer a member's pending requests with UNKNOWN_MEMBER_ID, and remove it."""
        code = ErrorCode.UNKNOWN_MEMBER_ID
        member = self.complete_join_future(member, JoinGroupResponse(member_id="", error_code=code))
        self.complete_sync_future(member, SyncGroupResponse(error_code=code))
        self.remove(member.member_id)

    def complete_join_future(self, member: ClassicMember, response: JoinGroupResponse) -> ClassicMember:
        """Answer the member's JoinGroup if it is pending."""
        if member.join_request_id is None:
            return member
        self._replies.append(Reply(request_id=member.join_request_id, response=response))
        return self.update_member(replace(member, join_request_id=None))

    def complete_sync_future(self, member: ClassicMember, response: SyncGroupResponse) -> ClassicMember:
        """Answer the member's SyncGroup if it is pending."""
        if member.sync_request_id is None:
            return member
        self._replies.append(Reply(request_id=member.sync_request_id, response=response))
        return self.update_member(replace(member, sync_request_id=None))

    def schedule_timer(self, key: TimerKey, after_ms: int) -> None:
        """Set a timer."""
        self._timers[key] = SetTimer(key=key, after_ms=after_ms)

    def cancel_timer(self, key: TimerKey) -> None:
        """Cancel a timer."""
        self._timers[key] = CancelTimer(key=key)

    def reschedule_session_timeout(self, member: ClassicMember) -> None:
        """Restart the session timeout of a member."""
        self.schedule_timer(session_timer(member.member_id), member.session_timeout_ms)
