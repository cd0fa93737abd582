from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TopicData,
    TransactionState,
)
from spark_kafka_native._protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.support.broker.driver import BrokerDriver
from tests.support.broker.transactional_producer import DirectProducer


def described(broker: BrokerDriver, *names: str) -> tuple[TransactionState, ...]:
    return broker.ask(DescribeTransactionsRequest(transactional_ids=names), 0).transaction_states


def test_an_id_through_its_life(broker: BrokerDriver) -> None:
    broker.create("a", partitions=3)
    broker.create("b")
    producer = DirectProducer(broker, timeout_ms=5000).begin()
    (empty,) = described(broker, "id")
    assert (empty.transaction_state, empty.topics, empty.transaction_start_time_ms) == ("Empty", (), -1)
    broker.advance(10)
    begun = broker.clock.now_ms()
    for topic, partition in (("b", 0), ("a", 2), ("a", 0)):
        producer.write(topic, partition=partition)
        broker.advance(10)
    assert described(broker, "id") == (
        TransactionState(
            error_code=0,
            transactional_id="id",
            transaction_state="Ongoing",
            transaction_timeout_ms=5000,
            transaction_start_time_ms=begun,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=(TopicData(topic="a", partitions=(0, 2)), TopicData(topic="b", partitions=(0,))),
        ),
    )
    producer.commit()
    (committed,) = described(broker, "id")
    assert (committed.transaction_state, committed.topics) == ("CompleteCommit", ())
    producer.write("a")
    producer.abort()
    broker.restart()
    (aborted,) = described(broker, "id")
    assert (aborted.transaction_state, aborted.producer_epoch) == ("CompleteAbort", producer.epoch)


def test_ids_that_are_not_there(broker: BrokerDriver) -> None:
    DirectProducer(broker).begin()
    found = described(broker, "no", "id", "")
    assert [(ErrorCode.of(state.error_code), state.transactional_id) for state in found] == [
        (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "no"),
        (ErrorCode.NONE, "id"),
        (ErrorCode.INVALID_REQUEST, ""),
    ]


def ask(broker: BrokerDriver, version: int = 2, **filters: Any) -> ListTransactionsResponse:
    return broker.ask(ListTransactionsRequest(**filters), version)


def listed(broker: BrokerDriver, version: int = 2, **filters: Any) -> dict[str, str]:
    response = ask(broker, version, **filters)
    assert response.error_code == 0
    return {state.transactional_id: state.transaction_state for state in response.transaction_states}


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
    return {"app-1": first.producer_id, "app-2": second.producer_id, "other": third.producer_id}


@pytest.mark.parametrize("version", range(3))
def test_all_transactions_are_listed(broker: BrokerDriver, ids: dict[str, int], version: int) -> None:
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


def test_an_unknown_transactional_id_is_described_with_an_error(broker: BrokerDriver, ids: dict[str, int]) -> None:
    response = ask(broker, state_filters=("Ongoing", "Bored"))
    assert response.unknown_state_filters == ("Bored",)
    assert len(response.transaction_states) == len(ids) - 1
    refused = ask(broker, transactional_id_pattern="(")
    assert (refused.error_code, refused.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, ())
