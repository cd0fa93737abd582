from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from broker_embedded._transactions.state import Transaction, TransactionState
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.broker.driver import SMALL_SETTINGS, fetch_request, produce_request
from tests.support.records.log_batches import batch
from tests.support.requests.raw_client import RawClient
from tests.support.waiting import eventually

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "data", topics={"t": 1}, settings=SMALL_SETTINGS) as running:
        yield running


def begin(broker: EmbeddedBroker) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=15_000)
    with RawClient(broker.bootstrap_servers) as client:
        response = client.ask(request, 5)
    assert response.error_code == 0
    return response


def write(broker: EmbeddedBroker, producer: InitProducerIdResponse) -> None:
    records = batch(
        b"a",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    request = replace(produce_request("t", records), transactional_id="id")
    with RawClient(broker.bootstrap_servers) as client:
        assert client.ask(request, 12).responses[0].partition_responses[0].error_code == 0


def known(broker: EmbeddedBroker) -> Mapping[str, Transaction]:
    async def look() -> Mapping[str, Transaction]:
        return dict(broker._server.broker.transactions.all)

    return broker._call(look())


def stable_offset(broker: EmbeddedBroker) -> int:
    with RawClient(broker.bootstrap_servers) as client:
        return client.ask(fetch_request("t"), 11).responses[0].partitions[0].last_stable_offset


def test_a_transaction_whose_producer_is_silent_is_aborted(broker: EmbeddedBroker) -> None:
    write(broker, begin(broker))
    broker.advance(ms=14_000)
    assert (known(broker)["id"].state, stable_offset(broker)) == (TransactionState.ONGOING, 0)
    broker.advance(ms=12_000)  # its timeout, and the time between two looks
    assert (known(broker)["id"].state, stable_offset(broker)) == (TransactionState.COMPLETE_ABORT, 2)


def test_an_unused_transactional_id_expires(broker: EmbeddedBroker) -> None:
    begin(broker)
    broker.advance(ms=WEEK_MS - HOUR_MS)
    assert set(known(broker)) == {"id"}
    broker.advance(ms=2 * HOUR_MS)
    assert not known(broker)


@pytest.mark.parametrize("outcome", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_a_decision_before_a_kill_is_completed_at_the_start(broker: EmbeddedBroker, outcome: TransactionState) -> None:
    write(broker, begin(broker))

    async def decide_and_die() -> None:
        table = broker._server.broker.transactions._table
        before = table.all["id"]
        decided = replace(before, state=outcome, producer_epoch=before.producer_epoch + 1)
        await table.write(decided, table.load_epoch)

    broker._call(decide_and_die())
    broker.kill()
    broker.start()
    after = {
        TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
        TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
    }
    eventually(lambda: known(broker)["id"].state, after[outcome])
    assert stable_offset(broker) == 2
