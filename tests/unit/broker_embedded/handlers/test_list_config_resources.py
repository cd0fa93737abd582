"""ListConfigResources: what has settings, by type."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.broker_driver import BrokerDriver


def listed(broker: BrokerDriver, *types: int) -> list[tuple[str, int]]:
    answer = broker.ask(ListConfigResourcesRequest(resource_types=types), 1)
    assert answer.error_code == 0
    return [(resource.resource_name, resource.resource_type) for resource in answer.config_resources]


def test_all_and_some(broker: BrokerDriver) -> None:
    broker.create("b")
    broker.create("a")
    assert listed(broker) == [("1", 8), ("1", 4), ("a", 2), ("b", 2)]
    assert listed(broker, 2) == [("a", 2), ("b", 2)]
    assert listed(broker, 2, 4) == [("1", 4), ("a", 2), ("b", 2)]


@pytest.mark.parametrize("types", [(16,), (32,)])
def test_there_are_no_subscriptions_to_metrics_and_no_group_has_settings_yet(
    broker: BrokerDriver, types: tuple[int, ...]
) -> None:
    assert listed(broker, *types) == []


def test_v0_asks_for_subscriptions_to_metrics(broker: BrokerDriver) -> None:
    broker.create("a")
    answer = broker.ask(ListConfigResourcesRequest(), 0)
    assert (answer.error_code, answer.config_resources) == (0, ())


def test_a_type_that_does_not_exist(broker: BrokerDriver) -> None:
    answer = broker.ask(ListConfigResourcesRequest(resource_types=(2, 64)), 1)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, ())
