"""What may be wrong with a ConsumerGroupHeartbeat, whatever the group is like."""

from collections.abc import Collection
from typing import Final

from broker_embedded.groups.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_OWN_IDS_SINCE: Final = 1
"""Since this version members bring their ids (KIP-1082)."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raise KafkaError: INVALID_REQUEST, or UNSUPPORTED_ASSIGNOR."""
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
