from typing import Any

import pytest

from broker_embedded._groups.consumer.heartbeat import check_request
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.support.refusals import refused

JOIN: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 5,
    "topic_partitions": (),
    "subscribed_topic_names": (),
}
STAY: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": 3}


def refusal(fields: dict[str, Any], version: int = 1) -> tuple[ErrorCode, str]:
    error = refused(check_request, ConsumerGroupHeartbeatRequest(**fields), version, ("uniform", "range"))
    return error.code, error.detail


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        (JOIN, 0),
        (JOIN, 1),
        (JOIN | {"member_id": ""}, 0),
        (JOIN | {"subscribed_topic_names": None, "subscribed_topic_regex": ""}, 1),
        (JOIN | {"server_assignor": "range"}, 1),
        (STAY, 1),
        (STAY | {"member_epoch": -1}, 1),
        (STAY | {"member_epoch": -2, "instance_id": "i"}, 1),
        (STAY | {"member_epoch": -2, "instance_id": "i", "member_id": ""}, 0),
    ],
)
def test_valid_requests_pass(fields: dict[str, Any], version: int) -> None:
    check_request(ConsumerGroupHeartbeatRequest(**fields), version, ("uniform", "range"))


@pytest.mark.parametrize(
    ("fields", "version", "says"),
    [
        (JOIN | {"member_id": ""}, 1, "MemberId"),
        (STAY | {"member_id": " "}, 0, "MemberId"),
        (STAY | {"member_id": "", "member_epoch": -1}, 0, "MemberId"),
        (STAY | {"group_id": ""}, 1, "GroupId"),
        (STAY | {"group_id": "  "}, 1, "GroupId"),
        (STAY | {"instance_id": ""}, 1, "InstanceId"),
        (STAY | {"rack_id": " "}, 1, "RackId"),
        (JOIN | {"rebalance_timeout_ms": -1}, 1, "RebalanceTimeoutMs"),
        (JOIN | {"topic_partitions": None}, 1, "TopicPartitions"),
        (JOIN | {"topic_partitions": (TopicPartitions(),)}, 1, "TopicPartitions"),
        (JOIN | {"subscribed_topic_names": None}, 1, "SubscribedTopicNames"),
        (STAY | {"member_epoch": -2}, 1, "InstanceId"),
        (STAY | {"member_epoch": -3}, 1, "MemberEpoch"),
    ],
)
def test_invalid_requests_are_refused(fields: dict[str, Any], version: int, says: str) -> None:
    code, detail = refusal(fields, version)
    assert code is ErrorCode.INVALID_REQUEST
    assert says in detail


@pytest.mark.parametrize("fields", [JOIN, STAY])
def test_an_assignor_that_is_not_offered(fields: dict[str, Any]) -> None:
    code, detail = refusal(fields | {"server_assignor": "magic"})
    assert code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in detail
