"""DescribeClientQuotas: the entities that a filter lets through, and filters that make no sense."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tests.support.broker_driver import BrokerDriver
from tests.support.quotas import alter, formatted

EXACT, DEFAULT, ANY = 0, 1, 2


def describe(
    broker: BrokerDriver, *components: tuple[str, int, str | None], version: int = 1, strict: bool = False
) -> DescribeClientQuotasResponse:
    parts = (ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components)
    return broker.ask(DescribeClientQuotasRequest(components=tuple(parts), strict=strict), version)


@pytest.mark.parametrize("version", [0, 1])
def test_what_matches_is_described(broker: BrokerDriver, version: int) -> None:
    alter(broker, {"user": "ann"}, producer_byte_rate=1024.0, request_percentage=12.5)
    alter(broker, {"user": "ann", "client-id": None}, consumer_byte_rate=5.0)
    alter(broker, {"client-id": "etl"}, consumer_byte_rate=6.0)
    answer = describe(broker, ("user", EXACT, "ann"), version=version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert formatted(answer) == {
        "user=ann": {"producer_byte_rate": 1024, "request_percentage": 12.5},
        "client-id=<default>, user=ann": {"consumer_byte_rate": 5},
    }
    assert len(formatted(describe(broker, version=version))) == 3
    assert list(formatted(describe(broker, ("user", ANY, None), strict=True))) == ["user=ann"]


def test_no_quotas_are_an_empty_answer(broker: BrokerDriver) -> None:
    assert describe(broker).entries == ()


@pytest.mark.parametrize(
    ("component", "code"),
    [
        (("user", EXACT, None), ErrorCode.INVALID_REQUEST),
        (("", ANY, None), ErrorCode.INVALID_REQUEST),
        (("team", ANY, None), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_that_makes_no_sense(
    broker: BrokerDriver, component: tuple[str, int, str | None], code: ErrorCode
) -> None:
    answer = describe(broker, component)
    assert (answer.error_code, answer.entries) == (code, None)
    assert answer.error_message
