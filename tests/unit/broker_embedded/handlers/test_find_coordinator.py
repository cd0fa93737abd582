"""FindCoordinator: this broker for groups and transactional ids, nobody for what it does not do."""

from typing import Any

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.broker_driver import NODE, BrokerDriver


@pytest.mark.parametrize("version", range(4))
def test_a_group_in_versions_with_one_key(broker: BrokerDriver, version: int) -> None:
    answer = broker.ask(FindCoordinatorRequest(key="g"), version)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, NODE.host, NODE.port)
    assert len(broker.broker.image.topics["__consumer_offsets"].partitions) == 3


@pytest.mark.parametrize("version", range(4, 7))
def test_groups_in_versions_with_many(broker: BrokerDriver, version: int) -> None:
    answer = broker.ask(FindCoordinatorRequest(coordinator_keys=("g", "h")), version)
    assert [(found.key, found.error_code, found.node_id, found.host, found.port) for found in answer.coordinators] == [
        (key, 0, 1, NODE.host, NODE.port) for key in ("g", "h")
    ]


@pytest.mark.parametrize("version", range(1, 7))
def test_transactional_ids(broker: BrokerDriver, version: int) -> None:
    fields: dict[str, Any] = {"coordinator_keys": ("id",)} if version >= 4 else {"key": "id"}
    answer = broker.ask(FindCoordinatorRequest(key_type=1, **fields), version)
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, NODE.host, NODE.port)
    assert list(broker.broker.image.topics) == ["__transaction_state"]


def test_no_keys_no_coordinators(broker: BrokerDriver) -> None:
    assert broker.ask(FindCoordinatorRequest(coordinator_keys=()), 6).coordinators == ()


@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (2, ErrorCode.INVALID_REQUEST),
        (9, ErrorCode.INVALID_REQUEST),
    ],
)
def test_other_coordinators_are_not_here(broker: BrokerDriver, key_type: int, code: ErrorCode) -> None:
    one = broker.ask(FindCoordinatorRequest(key="x", key_type=key_type), 3)
    assert (one.error_code, one.node_id, one.host, one.port) == (code, -1, "", -1)
    assert one.error_message
    (many,) = broker.ask(FindCoordinatorRequest(coordinator_keys=("x",), key_type=key_type), 6).coordinators
    assert (many.key, many.error_code, many.node_id) == ("x", code, -1)
    assert broker.broker.image.topics == {}


def test_many_at_once_make_the_topic_once(broker: BrokerDriver) -> None:
    tasks = [broker.begin(FindCoordinatorRequest(key="g"), 3) for _ in range(5)]
    assert {answer.error_code for task in tasks if (answer := broker.run(task))} == {0}
