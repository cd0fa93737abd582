"""Members of a consumer group that use the classic protocol, during an upgrade or downgrade (KIP-848).

JoinGroup reconciles the member by one step towards its target, and is answered at once, with its epoch as the
generation. SyncGroup returns its assignment. Heartbeat responds REBALANCE_IN_PROGRESS if another step is necessary.
There is no leader, and no member waits for other members.
"""

import dataclasses
from typing import Final

from broker_embedded._groups.classic import join as classic_join
from broker_embedded._groups.classic.group import session_timer
from broker_embedded._groups.consumer import leave as consumer_leave
from broker_embedded._groups.consumer import regexes as consumer_regexes
from broker_embedded._groups.consumer.config import MigrationPolicy
from broker_embedded._groups.consumer.draft import ConsumerDraft, join_timer, sync_timer
from broker_embedded._groups.consumer.entries import member_entry
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.member import ConsumerMember, MemberState
from broker_embedded._groups.consumer.migration import (
    assignment_of,
    classic_metadata,
    downgrade,
    downgrade_is_due,
    partitions_of,
)
from broker_embedded._groups.consumer.records import ClassicMemberMetadata
from broker_embedded._groups.group import Outcome
from spark_kafka_native._protocol.consumer_protocol import (
    CONSUMER_PROTOCOL,
    MalformedEmbedded,
    Subscription,
    read_subscription,
    version_of,
)
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from spark_kafka_native._protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_UNKNOWN: Final = ""
_ID_REQUIRED_SINCE: Final = 4


def join(
    group: ConsumerGroup, request: JoinGroupRequest, context: classic_join.JoinContext, now_ms: int
) -> Outcome[JoinGroupResponse]:
    """Join, or reconcile by one step. An empty consumer group becomes a classic one. Raises KafkaError."""
    classic = group.context.classic
    if group.is_empty:
        outcome = classic_join.join(None, request, context, classic, now_ms)
        ends = () if outcome.group is None else group.tombstones()
        return dataclasses.replace(outcome, records=(*ends, *outcome.records))
    if not classic.min_session_timeout_ms <= request.session_timeout_ms <= classic.max_session_timeout_ms:
        return Outcome(
            response=JoinGroupResponse(error_code=ErrorCode.INVALID_SESSION_TIMEOUT, member_id=request.member_id)
        )
    draft = ConsumerDraft(group, now_ms)
    member_id = request.member_id or context.fresh_id
    _check_may_join(draft, request, member_id)
    if request.member_id == _UNKNOWN and request.group_instance_id is None and context.version >= _ID_REQUIRED_SINCE:
        return Outcome(response=JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
    return _Join(draft, request, context, member_id).decided()


def _check_may_join(draft: ConsumerDraft, request: JoinGroupRequest, member_id: str) -> None:
    group = draft.group
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if draft.config.migration_policy is MigrationPolicy.DISABLED:
        raise KafkaError(code, f"group {group.group_id!r} is a consumer group (group.consumer.migration.policy)")
    draft.check_max_size(member_id)
    classic = [member.protocol_names for member in group.members.values() if member.classic is not None]
    common = [entry.name for entry in request.protocols if all(entry.name in names for names in classic)]
    if request.protocol_type != CONSUMER_PROTOCOL or not common:
        raise KafkaError(code, f"member {member_id!r} has no protocol in common with group {group.group_id!r}")


class _Join:
    """The decision of one JoinGroup, in the steps of a heartbeat."""

    def __init__(
        self, draft: ConsumerDraft, request: JoinGroupRequest, context: classic_join.JoinContext, member_id: str
    ) -> None:
        self._draft = draft
        self._request = request
        self._context = context
        self._member_id = member_id
        self._subscription = _subscription(request)

    def decided(self) -> Outcome[JoinGroupResponse]:
        draft, before = self._draft, self._draft.group
        last = self._static_member()
        downgrades = last is not None and last.classic is None and downgrade_is_due(before, {last.member_id})
        old = self._member(last)
        new = self._updated(old)
        if new != old or new.member_id not in draft.group.members:
            draft.append(member_entry(before.group_id, new))
        consumer_regexes.update_subscription(draft, before, old, new)
        subscription_changed = (
            new.subscribed_topic_names != old.subscribed_topic_names
            or new.subscribed_topic_regex != old.subscribed_topic_regex
        )
        draft.bump_group_epoch(if_topics_changed=not subscription_changed)
        if downgrades:
            return self._decide_downgrade(subscription_changed)
        draft.update_target_assignment()
        settled = self._reconciled(subscription_changed)
        draft.cancel_timer(join_timer(settled.member_id))
        draft.schedule_timer(session_timer(settled.member_id), self._request.session_timeout_ms)
        draft.schedule_timer(sync_timer(settled.member_id), self._request.rebalance_timeout_ms)
        draft.set_must_rejoin(settled.member_id, must_rejoin=False)
        return draft.outcome(_join_response(settled))

    def _decide_downgrade(self, subscription_changed: bool) -> Outcome[JoinGroupResponse]:
        """The member replaces the last one that used the consumer protocol: downgrade the group."""
        draft = self._draft
        rebalance = draft.group.assignment_epoch < draft.group.epoch
        settled = draft.group.members[self._member_id] if rebalance else self._reconciled(subscription_changed)
        return downgrade(draft, _join_response(settled), rebalance=rebalance)

    def _static_member(self) -> ConsumerMember | None:
        instance_id = self._request.group_instance_id
        return None if instance_id is None else self._draft.group.static_member(instance_id)

    def _member(self, last: ConsumerMember | None) -> ConsumerMember:
        """The existing member, or a new one. Raises KafkaError: another member has the instance id."""
        group, instance_id = self._draft.group, self._request.group_instance_id
        if instance_id is not None and self._request.member_id != _UNKNOWN:
            return group.require_static(instance_id, self._member_id)
        if last is not None:
            return self._draft.replace_static_member(last, self._member_id)
        return group.members.get(self._member_id) or ConsumerMember(member_id=self._member_id)

    def _updated(self, old: ConsumerMember) -> ConsumerMember:
        request = self._request
        return dataclasses.replace(
            old,
            instance_id=old.instance_id if request.group_instance_id is None else request.group_instance_id,
            rack_id=self._subscription.rack_id or old.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            subscribed_topic_names=frozenset(self._subscription.topics),
            subscribed_topic_regex="",
            client_id=self._context.client_id,
            client_host=self._context.client_host,
            classic=classic_metadata(request.session_timeout_ms, request.protocols),
        )

    def _reconciled(self, subscription_changed: bool) -> ConsumerMember:
        topics = self._draft.group.context.topics()
        owned = partitions_of(self._subscription.owned_partitions, topics)
        return self._draft.maybe_reconcile(self._member_id, owned, subscription_changed=subscription_changed)


def _join_response(member: ConsumerMember) -> JoinGroupResponse:
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=_classic(member).supported_protocols[0].name,
    )


def _subscription(request: JoinGroupRequest) -> Subscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except MalformedEmbedded as error:
        detail = f"the subscription of a member of group {request.group_id!r} is malformed: {error}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail) from error


def sync(group: ConsumerGroup, request: SyncGroupRequest, now_ms: int) -> Outcome[SyncGroupResponse]:
    """Respond with a member's assignment. Raises KafkaError."""
    member = _require(group, request.member_id, request.group_instance_id, request.generation_id)
    classic = _classic(member)
    protocol = classic.supported_protocols[0]
    if request.protocol_type not in {None, CONSUMER_PROTOCOL} or request.protocol_name not in {None, protocol.name}:
        detail = f"member {member.member_id!r} of group {group.group_id!r} has {CONSUMER_PROTOCOL}, {protocol.name}"
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail)
    draft = ConsumerDraft(group, now_ms)
    if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _require_rejoin(draft, member)
        return draft.outcome(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    draft.cancel_timer(sync_timer(member.member_id))
    draft.schedule_timer(session_timer(member.member_id), classic.session_timeout_ms)
    return draft.outcome(
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_of(member.assigned, group.context.topics(), version_of(protocol.metadata)),
        )
    )


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest, now_ms: int) -> Outcome[HeartbeatResponse]:
    """Renew a session. REBALANCE_IN_PROGRESS: another step is necessary. Raises KafkaError."""
    member = _require(group, request.member_id, request.group_instance_id, request.generation_id)
    draft = ConsumerDraft(group, now_ms)
    draft.schedule_timer(session_timer(member.member_id), _classic(member).session_timeout_ms)
    if group.classic_count == len(group.members):  # no other member's heartbeat would do it
        draft.bump_group_epoch(if_topics_changed=True)
        draft.update_target_assignment()
    if not _must_join(draft.group, member):
        return draft.outcome(HeartbeatResponse())
    _require_rejoin(draft, member)
    return draft.outcome(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def leave(group: ConsumerGroup, request: LeaveGroupRequest, now_ms: int) -> Outcome[LeaveGroupResponse]:
    """Remove members of either protocol. Static ones may be named by their instance id only."""
    leaving: dict[str, ConsumerMember] = {}
    responses: list[MemberResponse] = []
    for identity in request.members:
        code = ErrorCode.NONE
        try:
            member = _identified(group, identity)
            leaving[member.member_id] = member
        except KafkaError as error:
            code = error.code
        responses.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
        )
    response = LeaveGroupResponse(members=tuple(responses))
    return consumer_leave.without_members(group, list(leaving.values()), now_ms, response)


def _identified(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.require_member(identity.member_id)
    static = group.static_member(instance_id)
    if identity.member_id == _UNKNOWN and static is not None:
        return static
    return group.require_static(instance_id, identity.member_id)


def _require(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    member = group.require_member(member_id) if instance_id is None else group.require_static(instance_id, member_id)
    if member.classic is None:
        detail = f"member {member_id!r} of group {group.group_id!r} does not use the classic protocol"
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, detail)
    if generation != member.member_epoch:
        detail = f"member {member_id!r} of group {group.group_id!r} is in generation {member.member_epoch}"
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, detail)
    return member


def _must_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether there is a new target, a partition to revoke, or all partitions that it waits for are free."""
    if member.member_epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    missing = group.targets.get(member.member_id, frozenset()) - member.assigned.keys()
    return member.state is MemberState.UNRELEASED_PARTITIONS and not any(
        group.is_taken(partition, but_by=member.member_id) for partition in missing
    )


def _require_rejoin(draft: ConsumerDraft, member: ConsumerMember) -> None:
    """Set the timer of its rebalance timeout, if it is not set."""
    if member.member_id not in draft.group.must_rejoin:
        draft.schedule_timer(join_timer(member.member_id), member.rebalance_timeout_ms)
        draft.set_must_rejoin(member.member_id, must_rejoin=True)


def _classic(member: ConsumerMember) -> ClassicMemberMetadata:
    assert member.classic is not None
    return member.classic
