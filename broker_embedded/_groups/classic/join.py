"""JoinGroup in a classic group: limits, member ids, and rebalances."""

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from broker_embedded._groups.classic.draft import ClassicDraft
from broker_embedded._groups.classic.group import ClassicConfig, ClassicGroup, ClassicState, session_timer
from broker_embedded._groups.classic.member import ClassicMember, as_join_response, require_member, static_member
from broker_embedded._groups.classic.rebalance import (
    complete_join_if_all_joined,
    prepare_rebalance,
    rebalance,
    select_protocol,
    subscribed,
)
from broker_embedded._groups.classic.records import new_group_record
from broker_embedded._groups.group import Outcome, Pending
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from spark_kafka_native._protocol.messages.sync_group import SyncGroupResponse

_UNKNOWN: Final = ""
"""The member id of a new member."""
_ID_REQUIRED_SINCE: Final = 4
_SKIPPING_SINCE: Final = 9
_NEW_MEMBER_TIMEOUT_MS: Final = 300_000
"""A new member whose JoinGroup is pending for longer is removed. If its client is still alive, it joins again."""

JoinResponse: TypeAlias = JoinGroupResponse | Pending


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinContext:
    """The context of a JoinGroup.

    ``fresh_id`` makes a new member id unique. ``request_id`` is the id of the request while it is pending.
    """

    version: int
    client_id: str
    client_host: str
    fresh_id: str
    request_id: int


def join(
    group: ClassicGroup | None, request: JoinGroupRequest, context: JoinContext, config: ClassicConfig, now_ms: int
) -> Outcome[JoinGroupResponse]:
    """Join a group. A member without an id creates it."""
    member_id = request.member_id
    if not request.group_id:
        return Outcome(response=_refused(ErrorCode.INVALID_GROUP_ID, member_id))
    if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
        return Outcome(response=_refused(ErrorCode.INVALID_SESSION_TIMEOUT, member_id))
    if group is None and member_id != _UNKNOWN:
        return Outcome(response=_refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
    draft = ClassicDraft(group or ClassicGroup(group_id=request.group_id, config=config, state_since_ms=now_ms), now_ms)
    response = _Join(draft, request, context).response()
    if group is None and not draft.records:
        draft.records.append(new_group_record(request.group_id, now_ms, config.record_versions))
    return draft.outcome(response)


class _Join:
    """The decision of one JoinGroup."""

    def __init__(self, draft: ClassicDraft, request: JoinGroupRequest, context: JoinContext) -> None:
        self._draft = draft
        self._request = request
        self._context = context

    def response(self) -> JoinResponse:
        draft, request = self._draft, self._request
        if not self._is_below_max():
            draft.remove(request.member_id)
            return _refused(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not draft.supports_protocols(request.protocol_type, tuple(protocol.name for protocol in request.protocols)):
            return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        if request.member_id == _UNKNOWN:
            return self._join_unknown()
        if request.member_id in draft.pending:
            return self._join_pending()
        try:
            member = require_member(draft.members, request.member_id, request.group_instance_id)
        except KafkaError as error:
            return replace(_refused(error.code, request.member_id), protocol_name=None)
        return self._rejoin(member)

    def _is_below_max(self) -> bool:
        """Whether group.max.size allows the sender; in a rebalance the first to rejoin stay."""
        draft = self._draft
        member = draft.members.get(self._request.member_id)
        match draft.state:
            case ClassicState.EMPTY:
                return True
            case ClassicState.PREPARING_REBALANCE:
                return (
                    member is not None and member.awaits_join
                ) or draft.num_awaiting_join_response < draft.config.max_size
            case ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE:
                return member is not None or len(draft.members) < draft.config.max_size

    # --- those without an id -----------------------------------------------------------------------------------------

    def _join_unknown(self) -> JoinResponse:
        instance_id = self._request.group_instance_id
        new_id = f"{self._context.client_id if instance_id is None else instance_id}-{self._context.fresh_id}"
        if instance_id is not None:
            member = static_member(self._draft.members, instance_id)
            return self._add(new_id) if member is None else self._replace(member, new_id)
        if self._context.version < _ID_REQUIRED_SINCE:
            return self._add(new_id)
        self._draft.pending.add(new_id)
        self._draft.schedule_timer(session_timer(new_id), self._request.session_timeout_ms)
        return _refused(ErrorCode.MEMBER_ID_REQUIRED, new_id)

    def _join_pending(self) -> JoinResponse:
        if self._request.group_instance_id is not None:  # static members get no ids beforehand
            return _refused(ErrorCode.UNKNOWN_MEMBER_ID, self._request.member_id)
        return self._add(self._request.member_id)

    def _add(self, member_id: str) -> JoinResponse:
        draft, request = self._draft, self._request
        member = ClassicMember(
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=self._context.client_id,
            client_host=self._context.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
            join_request_id=self._context.request_id,
            is_new=True,
        )
        if draft.initial is not None:
            draft.initial = replace(draft.initial, member_added=True)
        draft.add(member, request.protocol_type)
        draft.schedule_timer(session_timer(member_id), _NEW_MEMBER_TIMEOUT_MS)
        rebalance(draft)
        return self._pending()

    # --- static members whose process is another one (KIP-345) -------------------------------------------------------

    def _replace(self, old: ClassicMember, new_id: str) -> JoinResponse:
        draft = self._draft
        old_leader = draft.leader
        member = self._replace_member(old, new_id)
        if draft.state is ClassicState.STABLE and select_protocol(draft) == draft.protocol_name:
            return self._replace_without_rebalance(
                draft.update_member(replace(member, join_request_id=None)), old_leader
            )
        match draft.state:
            case ClassicState.STABLE:
                rebalance(draft)
            case ClassicState.COMPLETING_REBALANCE:
                prepare_rebalance(draft)  # the leader may have the old id
            case ClassicState.PREPARING_REBALANCE | ClassicState.EMPTY:
                complete_join_if_all_joined(draft)
        return self._pending()

    def _replace_member(self, old: ClassicMember, new_id: str) -> ClassicMember:
        """Replace the member id of a static member.

        Pending requests of the old process are answered FENCED_INSTANCE_ID.
        """
        draft, request = self._draft, self._request
        code = ErrorCode.FENCED_INSTANCE_ID
        was_leader, had_not_synced = draft.leader == old.member_id, old.member_id in draft.pending_sync
        draft.complete_join_future(old, replace(_refused(code, old.member_id), protocol_name=None))
        draft.complete_sync_future(old, SyncGroupResponse(error_code=code))
        draft.remove(old.member_id)
        member = replace(
            old,
            member_id=new_id,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
            join_request_id=self._context.request_id,
            sync_request_id=None,
            is_new=False,
        )
        draft.members[new_id] = member
        if was_leader:
            draft.leader = new_id
        if had_not_synced:
            draft.pending_sync.add(new_id)
        draft.reschedule_session_timeout(member)
        return member

    def _replace_without_rebalance(self, member: ClassicMember, old_leader: str | None) -> JoinResponse:
        """The new process keeps the assignment of the old one. The new id and subscription are written."""
        draft = self._draft
        draft.subscribed = subscribed(draft)
        draft.records.append(draft.to_group().record())
        response = self._present_generation(member.member_id)
        if self._context.version >= _SKIPPING_SINCE:
            is_leader = draft.leader == member.member_id
            return replace(response, skip_assignment=is_leader, members=self._members_for(member))
        # A leader that cannot skip the assignment must not assign.
        return replace(response, leader=old_leader or _UNKNOWN)

    # --- members -----------------------------------------------------------------------------------------------------

    def _rejoin(self, member: ClassicMember) -> JoinResponse:
        draft, unchanged = self._draft, member.protocols == self._request.protocols
        is_leader = draft.leader == member.member_id
        match draft.state:
            case ClassicState.COMPLETING_REBALANCE if unchanged:  # it may not have got the response
                return replace(self._present_generation(member.member_id), members=self._members_for(member))
            case ClassicState.STABLE if unchanged and not is_leader:
                return self._present_generation(member.member_id)
            case _:  # a leader that rejoins requests a new assignment
                return self._update(member)

    def _update(self, member: ClassicMember) -> JoinResponse:
        draft, request = self._draft, self._request
        # A client that repeats the request has given up the first one.
        answered = draft.complete_join_future(member, _refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        draft.update_member(
            replace(
                answered,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                protocols=request.protocols,
                join_request_id=self._context.request_id,
            )
        )
        rebalance(draft)
        return self._pending()

    def _members_for(self, member: ClassicMember) -> tuple[JoinGroupResponseMember, ...]:
        """All members, for the leader; none for other members."""
        draft = self._draft
        if draft.leader != member.member_id or draft.protocol_name is None:
            return ()
        return as_join_response(draft.members, draft.protocol_name)

    def _present_generation(self, member_id: str) -> JoinGroupResponse:
        draft = self._draft
        return JoinGroupResponse(
            generation_id=draft.generation,
            protocol_type=draft.protocol_type,
            protocol_name=draft.protocol_name,
            leader=draft.leader or _UNKNOWN,
            member_id=member_id,
        )

    def _pending(self) -> Pending:
        return Pending(request_id=self._context.request_id)


def _refused(code: ErrorCode, member_id: str = _UNKNOWN) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id)
