"""One classic group, driven in few words and virtual time: ``group.join("a")``, ``group.advance(ms=6_000)``.

The driver does what the broker's shell does: it writes a decision's records, puts the new group in the old one's
place, sets timers and hands out replies. After each step it holds the group against what must always be true.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_embedded._groups import decisions
from broker_embedded._groups.classic.group import (
    JOIN_TIMER,
    SYNC_TIMER,
    ClassicConfig,
    ClassicGroup,
    ClassicState,
    session_timer,
)
from broker_embedded._groups.classic.join import JoinContext, join
from broker_embedded._groups.classic.leave import heartbeat, leave
from broker_embedded._groups.classic.replay import replay_group
from broker_embedded._groups.classic.sync import sync
from broker_embedded._groups.group import Group, Outcome, Pending, TimerKey
from broker_embedded._groups.replay import ReplayContext, replay
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.groups.context import GroupWorld

GROUP_ID: Final = "g"
NO_MEMBER: Final = ""


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer that reads these topics, in version 0."""
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class Call:
    """A request under way: ``answer`` is None until it is there."""

    def __init__(self) -> None:
        self.response: Any = None
        self.request_id: int | None = None

    @property
    def waits(self) -> bool:
        """Whether it is pending."""
        return self.response is None

    @property
    def code(self) -> ErrorCode:
        """The error code of the response, which must be there."""
        assert self.response is not None, "there is no response yet"
        return ErrorCode.of(self.response.error_code)


class GroupDriver(GroupWorld):
    """A group, its log, its clock and its clients. ``ids`` are the member ids that were given out, by name."""

    def __init__(self, **config: int) -> None:
        super().__init__()
        self.config = ClassicConfig(**config)  # type: ignore[arg-type]  # by name
        self.ids: dict[str, str] = {}
        self.instances: dict[str, str] = {}
        self.calls: dict[int, Call] = {}
        self._request_ids = itertools.count(1)
        self._fresh = itertools.count(1)

    # --- requests ----------------------------------------------------------------------------------------------------

    def ask_join(
        self,
        name: str,
        *,
        member_id: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "consumer",
        instance_id: str | None = None,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        version: int = 9,
        group_id: str = GROUP_ID,
    ) -> Call:
        """One JoinGroup, by a client that calls itself ``name``, with the id that it was given if it was."""
        sent_id = self.ids.get(name, NO_MEMBER) if member_id is None else member_id
        instance_id = self.instances.get(name) if instance_id is None else instance_id
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=sent_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=tuple(
                JoinGroupRequestProtocol(name=protocol, metadata=metadata)
                for protocol, metadata in ({"range": subscription("t")} if protocols is None else protocols).items()
            ),
        )
        request_id = next(self._request_ids)
        join_context = JoinContext(
            version=version,
            client_id=name,
            client_host="/127.0.0.1",
            fresh_id=str(next(self._fresh)),
            request_id=request_id,
        )
        before = self._member_ids()
        call = self._call(lambda group, now_ms: join(_classic(group), request, join_context, self.config, now_ms))
        new = [member_id for member_id in self._member_ids() if member_id not in before]
        if instance_id is not None and call.waits | (not call.waits and not call.code):
            self.instances[name] = instance_id
        if new:
            (self.ids[name],) = new
        return call

    def join(self, name: str, **others: Any) -> Call:
        """JoinGroup, and once more with the id that the first response brings, as clients do."""
        call = self.ask_join(name, **others)
        if not call.waits and call.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.ids[name] = call.response.member_id
            call = self.ask_join(name, **others)
        return call

    def sync(self, name: str, assignments: Mapping[str, bytes] | None = None, **others: Any) -> Call:
        """SyncGroup, with assignments by name from the leader."""
        given = [
            SyncGroupRequestAssignment(member_id=self.ids.get(other, other), assignment=assignment)
            for other, assignment in (assignments or {}).items()
        ]
        fields = self._fields(name, generation_id=self.generation, assignments=tuple(given))
        request = SyncGroupRequest(**fields | others)
        request_id = next(self._request_ids)
        return self._call(lambda group, now_ms: sync(_classic(group), request, request_id, now_ms))

    def heartbeat(self, name: str, **others: Any) -> ErrorCode:
        """Heartbeat; its error code."""
        request = HeartbeatRequest(**self._fields(name, generation_id=self.generation) | others)
        return self._code(lambda group, _: heartbeat(_classic(group), request))

    def leave(self, *names: str, group_id: str = GROUP_ID) -> list[ErrorCode]:
        """LeaveGroup for members by name; an error code each."""
        return self.leave_as(*(MemberIdentity(member_id=self.ids.get(name, name)) for name in names), group_id=group_id)

    def leave_as(self, *members: MemberIdentity, group_id: str = GROUP_ID) -> list[ErrorCode]:
        """LeaveGroup for these members; an error code each."""
        request = LeaveGroupRequest(group_id=group_id, members=members)
        outcome = self._apply(lambda group, now_ms: leave(_classic(group), request, now_ms))
        return [ErrorCode.of(member.error_code) for member in outcome.members]

    def commit(self, name: str = NO_MEMBER, *, version: int = 8, **others: Any) -> ErrorCode:
        """Whether an OffsetCommit is let through, from a member or from outside; the timers it prolongs are set."""
        fields = self._fields(name, generation_id_or_member_epoch=self.generation if name else -1)
        request = OffsetCommitRequest(**fields | others)

        def decide(group: Group | None, _: int) -> Outcome[None]:
            assert group is not None
            return Outcome(response=None, timers=group.check_commit(request, version))

        return self._code(decide)

    def _fields(self, name: str, **more: Any) -> dict[str, Any]:
        member_id, instance_id = self.ids.get(name, name), self.instances.get(name)
        return {"group_id": GROUP_ID, "member_id": member_id, "group_instance_id": instance_id, **more}

    # --- the world ---------------------------------------------------------------------------------------------------

    def _due(self, key: TimerKey) -> None:
        self._apply(lambda group, now_ms: decisions.timer_fired(_present(group), key, now_ms))

    def restart(self) -> None:
        """Start again from the log alone; clients that waited for a response have lost the connection."""
        groups: dict[str, Group] = {}
        for record in self.log:
            replay(groups, record, ReplayContext(classic=self.config))
        self.group = groups.get(GROUP_ID)
        self.calls.clear()
        self.timers.clear()
        if self.group is not None:
            self._carry_out(decisions.resumed(self.group))
        self.check()

    def stabilize(self, *names: str, **others: Any) -> None:
        """Have members join and sync: each is assigned its own name."""
        for name in names:
            self.join(name, **others)
        self.settle()

    def end_join(self) -> None:
        """Let time pass until the wait for members is over."""
        while self.state is ClassicState.PREPARING_REBALANCE:
            self.advance(min(self.timers.values()) - self.now_ms)

    def settle(self) -> None:
        """See a rebalance through in which everybody has joined or time ends the wait; all present members sync."""
        self.end_join()
        members = {name: member_id for name, member_id in self.ids.items() if member_id in self.members}
        leader = self.leader
        for name in members:
            if name != leader:
                self.sync(name)
        assert leader is not None
        self.sync(leader, {name: name.encode() for name in members})
        assert self.state is ClassicState.STABLE

    # --- what there is -----------------------------------------------------------------------------------------------

    @property
    def classic(self) -> ClassicGroup:
        """The group, which must be there."""
        group = _classic(self.group)
        assert group is not None
        return group

    @property
    def state(self) -> ClassicState:
        """The group's state."""
        return self.classic.state

    @property
    def generation(self) -> int:
        """The group's generation, 0 where there is none."""
        return self.classic.generation if self.group is not None else 0

    @property
    def leader(self) -> str | None:
        """The leader's name."""
        return next((name for name, member_id in self.ids.items() if member_id == self.classic.leader), None)

    @property
    def members(self) -> Mapping[str, Any]:
        """The members by id."""
        return self.classic.members

    def named(self) -> set[str]:
        """The names of the members."""
        return {name for name, member_id in self.ids.items() if member_id in self.members}

    # --- how decisions are carried out -------------------------------------------------------------------------------

    def _call(self, decide: Callable[[Group | None, int], Outcome[Any]]) -> Call:
        call = Call()

        def pending(request_id: int) -> None:
            call.request_id = request_id
            self.calls[request_id] = call

        try:
            response = self._apply(decide, pending)
        except KafkaError as error:
            response = _Refusal(error.code)
        if response is not None:
            call.response = response
        return call

    def _code(self, decide: Callable[[Group | None, int], Outcome[Any]]) -> ErrorCode:
        try:
            response = self._apply(decide)
        except KafkaError as error:
            return error.code
        return ErrorCode.of(getattr(response, "error_code", 0))

    def _apply(
        self, decide: Callable[[Group | None, int], Outcome[Any]], pending: Callable[[int], None] | None = None
    ) -> Any:
        before = self.group
        outcome = decide(before, self.now_ms)
        assert self.group is before
        if outcome.records and self.log_error is not None:
            if outcome.otherwise is None:
                raise KafkaError(self.log_error, "the log is full")
            outcome = outcome.otherwise(self.log_error)
            assert not outcome.records
        if isinstance(outcome.response, Pending):
            assert pending is not None
            pending(outcome.response.request_id)
        self._carry_out(outcome)
        self.check()
        return None if isinstance(outcome.response, Pending) else outcome.response

    def _carry_out(self, outcome: Outcome[Any]) -> None:
        super()._carry_out(outcome)
        for reply in outcome.replies:
            call = self.calls.pop(reply.request_id, None)
            if call is not None:
                assert call.response is None
                call.response = reply.response

    def _member_ids(self) -> list[str]:
        return [] if self.group is None else [*self.classic.members, *self.classic.pending]

    # --- what must always be true ------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise AssertionError if the group, its timers and its log contradict each other."""
        if self.group is None:
            return
        group = self.classic
        pending = {member.join_request_id for member in group.members.values()} | {
            member.sync_request_id for member in group.members.values()
        }
        assert set(self.calls) <= pending, "a pending request belongs to no member"
        assert (group.leader in group.members) if group.members else group.leader is None
        assert not (group.pending & set(group.members))
        assert group.pending_sync <= set(group.members)
        assert len({member.instance_id for member in group.members.values() if member.instance_id}) == sum(
            member.is_static for member in group.members.values()
        )
        for member_id in [*group.members, *group.pending]:
            member = group.members.get(member_id)
            waits = member is not None and not member.must_heartbeat
            assert waits or session_timer(member_id) in self.timers, f"{member_id} would be there for ever"
        self._check_state(group)

    def _check_state(self, group: ClassicGroup) -> None:
        joins = [member for member in group.members.values() if member.awaits_join]
        syncs = [member for member in group.members.values() if member.sync_request_id is not None]
        match group.state:
            case ClassicState.EMPTY:
                assert not group.members
            case ClassicState.PREPARING_REBALANCE:
                assert JOIN_TIMER in self.timers, "the wait for members would never end"
                assert not syncs
            case ClassicState.COMPLETING_REBALANCE:
                assert group.members
                assert not joins
                assert group.pending_sync, "all have synced, and no member was answered"
                assert SYNC_TIMER in self.timers
            case ClassicState.STABLE:
                assert group.members
                assert not joins
                assert not syncs
                assert (SYNC_TIMER in self.timers) == bool(group.pending_sync)
        if group.state in {ClassicState.STABLE, ClassicState.EMPTY}:
            self._check_log(group)

    def _check_log(self, group: ClassicGroup) -> None:
        """A group between two rebalances is what its log says."""
        if not self.log or self.log_error is not None:
            return
        group_id, logged = replay_group(self.log[-1], self.config)
        assert group_id == group.group_id
        assert logged is not None
        assert logged.record() == group.record()
        assert logged.state is group.state
        assert logged.subscribed == group.subscribed


class _Refusal:
    """A KafkaError as the handlers answer it."""

    def __init__(self, code: ErrorCode) -> None:
        self.error_code = code


def _classic(group: Group | None) -> ClassicGroup | None:
    assert group is None or isinstance(group, ClassicGroup)
    return group


def _present(group: Group | None) -> Group:
    assert group is not None
    return group
