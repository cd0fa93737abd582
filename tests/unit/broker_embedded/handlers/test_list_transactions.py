"""ListTransactions: all ids, or those that pass the filters of each version."""

from typing import Any

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.support.broker_driver import BrokerDriver
from tests.support.direct_producer import DirectProducer


def ask(broker: BrokerDriver, version: int = 2, **filters: Any) -> ListTransactionsResponse:
    return broker.ask(ListTransactionsRequest(**filters), version)


def listed(broker: BrokerDriver, version: int = 2, **filters: Any) -> dict[str, str]:
    answer = ask(broker, version, **filters)
    assert answer.error_code == 0
    return {state.transactional_id: state.transaction_state for state in answer.transaction_states}


@pytest.fixture
def ids(broker: BrokerDriver) -> dict[str, int]:
    """Producer ids of "app-1", which is open for a second, "app-2", just begun, and "other", which rests."""
    broker.create("t")
    first = DirectProducer(broker, "app-1").begin()
    first.write("t")
    broker.advance(1000)
    second = DirectProducer(broker, "app-2").begin()
    second.write("t")
    third = DirectProducer(broker, "other").begin()
    return {"app-1": first.id, "app-2": second.id, "other": third.id}


@pytest.mark.parametrize("version", range(3))
def test_everything(broker: BrokerDriver, ids: dict[str, int], version: int) -> None:
    assert listed(broker, version) == {"app-1": "Ongoing", "app-2": "Ongoing", "other": "Empty"}
    found = ask(broker, version).transaction_states
    assert {state.transactional_id: state.producer_id for state in found} == ids


def test_those_that_pass_the_filters(broker: BrokerDriver, ids: dict[str, int]) -> None:
    assert set(listed(broker, state_filters=("Ongoing",))) == {"app-1", "app-2"}
    assert set(listed(broker, producer_id_filters=(ids["other"], ids["app-1"]))) == {"other", "app-1"}
    assert set(listed(broker, duration_filter=500, state_filters=("Ongoing",))) == {"app-1"}
    assert set(listed(broker, transactional_id_pattern="app-.*")) == {"app-1", "app-2"}
    assert set(listed(broker, transactional_id_pattern="app-")) == set()
    assert set(listed(broker, transactional_id_pattern="")) == set(ids)
    assert set(listed(broker, transactional_id_pattern=".*1|o.*", state_filters=("Empty",))) == {"other"}


def test_what_nobody_knows_is_named(broker: BrokerDriver, ids: dict[str, int]) -> None:
    answer = ask(broker, state_filters=("Ongoing", "Bored"))
    assert answer.unknown_state_filters == ("Bored",)
    assert len(answer.transaction_states) == len(ids) - 1
    refused = ask(broker, transactional_id_pattern="(")
    assert (refused.error_code, refused.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, ())
