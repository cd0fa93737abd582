"""Decisions about a group by its type: classic, consumer, or None if there is no group.

A member that uses the classic protocol may be in a group of either type (KIP-848), so that JoinGroup, SyncGroup,
Heartbeat and LeaveGroup are decided here. ConsumerGroupHeartbeat is decided by `consumer.heartbeat`.
"""

from collections.abc import Collection, Mapping
from typing import Final

from broker_embedded._groups.classic import join as classic_join
from broker_embedded._groups.classic import leave as classic_leave
from broker_embedded._groups.classic import sync as classic_sync
from broker_embedded._groups.classic.group import ClassicConfig, ClassicGroup
from broker_embedded._groups.consumer import classic as consumer_classic
from broker_embedded._groups.consumer import leave as consumer_leave
from broker_embedded._groups.consumer import regexes as consumer_regexes
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.group import Group, Outcome, SetTimer, TimerKey
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

_GROUP_NOT_FOUND_SINCE: Final = 9
"""The first OffsetCommit version with GROUP_ID_NOT_FOUND; older ones get ILLEGAL_GENERATION."""


# --- members that speak the classic protocol --------------------------------------------------------------------------


def join(
    group: Group | None,
    request: JoinGroupRequest,
    context: classic_join.JoinContext,
    config: ClassicConfig,
    now_ms: int,
) -> Outcome[JoinGroupResponse]:
    """JoinGroup. It creates a classic group if there is no group. Raises KafkaError."""
    if isinstance(group, ConsumerGroup):
        return consumer_classic.join(group, request, context, now_ms)
    return classic_join.join(_classic(group), request, context, config, now_ms)


def sync(group: Group | None, request: SyncGroupRequest, request_id: int, now_ms: int) -> Outcome[SyncGroupResponse]:
    """SyncGroup. ``request_id`` is the request's id while it is pending. Raises KafkaError."""
    if isinstance(group, ConsumerGroup):
        return consumer_classic.sync(group, request, now_ms)
    return classic_sync.sync(_classic(group), request, request_id, now_ms)


def heartbeat(group: Group | None, request: HeartbeatRequest, now_ms: int) -> Outcome[HeartbeatResponse]:
    """Heartbeat. Raises KafkaError."""
    if isinstance(group, ConsumerGroup):
        return consumer_classic.heartbeat(group, request, now_ms)
    return classic_leave.heartbeat(_classic(group), request)


def leave(group: Group | None, request: LeaveGroupRequest, now_ms: int) -> Outcome[LeaveGroupResponse]:
    """LeaveGroup, with a result for each member. Raises KafkaError: the request names no group."""
    if isinstance(group, ConsumerGroup):
        return consumer_classic.leave(group, request, now_ms)
    return classic_leave.leave(_classic(group), request, now_ms)


# --- committed offsets ------------------------------------------------------------------------------------------------


def check_commit(group: Group | None, request: OffsetCommitRequest, version: int) -> tuple[SetTimer, ...]:
    """The timers that a commit renews. Raises KafkaError: the sender may not commit for the group."""
    if group is not None:
        return group.check_commit(request, version)
    if request.generation_id_or_member_epoch < 0:
        return ()
    known = version >= _GROUP_NOT_FOUND_SINCE
    code = ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
    raise KafkaError(code, f"there is no group {request.group_id!r}")


def check_commit_in_transaction(group: Group | None, request: TxnOffsetCommitRequest) -> None:
    """Raise KafkaError unless the sender may commit in a transaction (KIP-447)."""
    if group is not None:
        group.check_commit_in_transaction(request)
    elif request.generation_id >= 0:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"there is no group {request.group_id!r}")


# --- timers and lookups -----------------------------------------------------------------------------------------------


def resumed(group: Group) -> Outcome[None]:
    """Set new timers for the members of a group that was read from the log."""
    if isinstance(group, ConsumerGroup):
        return consumer_leave.resumed(group)
    existing = _classic(group)
    assert existing is not None
    return classic_leave.resumed(existing)


def timer_fired(group: Group | None, key: TimerKey, now_ms: int) -> Outcome[None]:
    """Handle a timeout."""
    if isinstance(group, ConsumerGroup):
        return consumer_leave.timer_fired(group, key, now_ms)
    existing = _classic(group)
    return Outcome(response=None) if existing is None else classic_leave.timer_fired(existing, key, now_ms)


def subscribed_regexes(group: Group | None) -> Collection[str]:
    """The regular expressions that members subscribe to; only a consumer group has any."""
    return group.subscribed_regexes.keys() if isinstance(group, ConsumerGroup) else ()


def regexes_resolved(
    group: Group | None, topics: Mapping[str, frozenset[str]], version: int, now_ms: int
) -> Outcome[None]:
    """Record the ``topics`` that each expression matches in the metadata of ``version``."""
    if isinstance(group, ConsumerGroup):
        return consumer_regexes.resolved(group, topics, version, now_ms)
    return Outcome(response=None)


def _classic(group: Group | None) -> ClassicGroup | None:
    assert group is None or isinstance(group, ClassicGroup), f"group {group.group_id!r} is of an unknown type"
    return group
