"""ConsumerGroupHeartbeat: a member joins, stays, changes its subscription, revokes partitions, or leaves.

1. The member is created or updated. If its subscription changes, the group epoch is bumped.
2. If the group epoch is newer than the assignment epoch, a new target assignment is computed.
3. The member is reconciled by one step towards its target.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from broker_embedded._groups.classic.group import ClassicGroup, session_timer
from broker_embedded._groups.consumer import leave as consumer_leave
from broker_embedded._groups.consumer import regexes as consumer_regexes
from broker_embedded._groups.consumer.config import ConsumerContext
from broker_embedded._groups.consumer.draft import ConsumerDraft
from broker_embedded._groups.consumer.entries import member_entry
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    TopicIdPartition,
    by_topic,
)
from broker_embedded._groups.consumer.migration import upgrade
from broker_embedded._groups.group import Group, Outcome
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_OWN_IDS_SINCE: Final = 1
"""From this version on clients generate the member ids (KIP-1082)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatContext:
    """The client id and the address of a request's client."""

    client_id: str
    client_host: str


# --- the request alone ------------------------------------------------------------------------------------------------


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raise KafkaError unless the request is valid for any group: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR."""
    problem = _problem(request, version)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        detail = f"ServerAssignor {request.server_assignor} is not supported. Supported: {', '.join(assignors)}."
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, detail)


def _problem(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    epoch = request.member_epoch
    needs_id = version >= _OWN_IDS_SINCE or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    named = {
        "MemberId": request.member_id if needs_id else None,
        "GroupId": request.group_id,
        "InstanceId": request.instance_id,
        "RackId": request.rack_id,
    }
    empty = next((name for name, value in named.items() if value is not None and not value.strip()), None)
    if empty is not None:
        return f"{empty} can't be empty."
    if epoch == JOIN_EPOCH:
        return _problem_of_join(request)
    if epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if epoch < STATIC_LEAVE_EPOCH else None


def _problem_of_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


# --- the decision -----------------------------------------------------------------------------------------------------


def heartbeat(
    group: Group | None,
    request: ConsumerGroupHeartbeatRequest,
    sender: HeartbeatContext,
    context: ConsumerContext,
    now_ms: int,
) -> Outcome[ConsumerGroupHeartbeatResponse]:
    """Decide a heartbeat that has passed `check_request`. Raises KafkaError."""
    if request.member_epoch < JOIN_EPOCH:
        return consumer_leave.leave(_require(group, request.group_id), request, now_ms)
    joins = request.member_epoch == JOIN_EPOCH
    draft = (
        _begin(group, request.group_id, context, now_ms)
        if joins
        else ConsumerDraft(_require(group, request.group_id), now_ms)
    )
    draft.check_max_size(request.member_id)
    owned = owned_partitions(request)
    before = draft.group
    old = _join(draft, request) if joins else _stay(draft.group, request, owned)
    member, must_bump_epoch, subscription_changed = _update(draft, before, old, request, sender)
    draft.bump_group_epoch(if_topics_changed=not must_bump_epoch)
    draft.update_target_assignment()
    settled = draft.maybe_reconcile(member.member_id, owned, subscription_changed=subscription_changed)
    draft.schedule_timer(session_timer(settled.member_id), draft.config.session_timeout_ms)
    tells = joins or _is_full(request) or settled.assigned != old.assigned
    return draft.outcome(
        ConsumerGroupHeartbeatResponse(
            member_id=settled.member_id,
            member_epoch=settled.member_epoch,
            heartbeat_interval_ms=draft.config.heartbeat_interval_ms,
            assignment=_assignment(settled) if tells else None,
        )
    )


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> frozenset[TopicIdPartition] | None:
    """The owned partitions in the request; None if they are unchanged."""
    if request.topic_partitions is None:
        return None
    return frozenset(
        TopicIdPartition(topic.topic_id, number) for topic in request.topic_partitions for number in topic.partitions
    )


def _require(group: Group | None, group_id: str) -> ConsumerGroup:
    if isinstance(group, ConsumerGroup):
        return group
    detail = f"there is no group {group_id!r}" if group is None else f"group {group_id!r} is not a consumer group"
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, detail)


def _begin(group: Group | None, group_id: str, context: ConsumerContext, now_ms: int) -> ConsumerDraft:
    """The group that a member joins: the existing one, a new one, or an upgraded classic one."""
    if group is None:
        return ConsumerDraft(ConsumerGroup(group_id=group_id, context=context), now_ms)
    if not isinstance(group, ClassicGroup):
        return ConsumerDraft(_require(group, group_id), now_ms)
    if group.is_empty:
        return ConsumerDraft(ConsumerGroup(group_id=group_id, context=context), now_ms, preceding=group.tombstones())
    return upgrade(group, context, now_ms)


def _join(draft: ConsumerDraft, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """The member that joins: the existing one, a new one, or a static one that replaces its old member id.

    Raises KafkaError, UNRELEASED_INSTANCE_ID: the old member has not left.
    """
    group, member_id = draft.group, request.member_id
    last = None if request.instance_id is None else group.static_member(request.instance_id)
    if last is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    if last.classic is None and last.member_epoch != STATIC_LEAVE_EPOCH:
        detail = f"instance {request.instance_id!r} of group {group.group_id!r} belongs to member {last.member_id!r}"
        raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, detail)
    return draft.replace_static_member(last, member_id)


def _stay(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, owned: frozenset[TopicIdPartition] | None
) -> ConsumerMember:
    """The member of the heartbeat. Raises KafkaError: unknown member, or wrong epoch.

    The previous epoch is accepted if the member owns only assigned partitions, because the response with the new epoch
    may be lost.
    """
    if request.instance_id is None:
        member = group.require_member(request.member_id)
    else:
        member = group.require_static(request.instance_id, request.member_id)
    response_lost = (
        request.member_epoch < member.member_epoch
        and request.member_epoch == member.previous_member_epoch
        and owned is not None
        and owned <= member.assigned.keys()
    )
    if request.member_epoch != member.member_epoch and not response_lost:
        detail = (
            f"member {member.member_id!r} of group {group.group_id!r} is at epoch {member.member_epoch}, not "
            f"{request.member_epoch}; it must abandon all its partitions and rejoin"
        )
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, detail)
    return member


def _update(
    draft: ConsumerDraft,
    before: ConsumerGroup,
    old: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest,
    sender: HeartbeatContext,
) -> tuple[ConsumerMember, bool, bool]:
    """The updated member; whether a new assignment is necessary; whether its subscription has changed."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    new = replace(
        old,
        instance_id=_value_or(request.instance_id, old.instance_id),
        rack_id=_value_or(request.rack_id, old.rack_id),
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=_value_or(request.server_assignor, old.server_assignor),
        subscribed_topic_names=old.subscribed_topic_names if names is None else frozenset(names),
        subscribed_topic_regex=_value_or(request.subscribed_topic_regex, old.subscribed_topic_regex),
        client_id=sender.client_id,
        client_host=sender.client_host,
        classic=None,
    )
    if new != old or new.member_id not in draft.group.members:
        draft.append(member_entry(draft.group.group_id, new))
    if old.classic is not None:
        draft.cancel_timers(new.member_id)
    names_changed = new.subscribed_topic_names != old.subscribed_topic_names
    regex_changed = new.subscribed_topic_regex != old.subscribed_topic_regex
    regex_bumps_epoch = consumer_regexes.update_subscription(draft, before, old, new)
    return new, names_changed or regex_bumps_epoch, names_changed or regex_changed


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether it is a full request, as after an error, which gets a full response."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
            for topic_id, numbers in by_topic(member.assigned).items()
        )
    )


ValueT = TypeVar("ValueT")


def _value_or(value: ValueT | None, known: ValueT) -> ValueT:
    """The value of the request, or if it has none the known one."""
    return known if value is None else value
