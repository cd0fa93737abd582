from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from tests.support.broker.coordinator_driver import T0, Coordinated, committed, is_stable
from tests.support.broker.driver import BrokerDriver


def new_id(broker: BrokerDriver, version: int = 4) -> int:
    response = broker.ask(InitProducerIdRequest(transactional_id=None), version)
    assert (response.error_code, response.producer_epoch) == (0, 0)
    return response.producer_id


def test_ids_in_every_version_are_all_different(broker: BrokerDriver) -> None:
    ids = [new_id(broker, version) for version in range(6) for _ in range(3)]
    response = broker.ask(InitProducerIdRequest(transactional_id=None, producer_id=ids[0], producer_epoch=3), 3)
    assert (response.error_code, response.producer_epoch) == (0, 0)
    ids.append(response.producer_id)
    assert len(set(ids)) == len(ids)
    assert min(ids) >= 0


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_producer_ids_are_unique_across_restarts(broker: BrokerDriver, how: str) -> None:
    ids = []
    for _ in range(3):
        ids += [new_id(broker) for _ in range(3)]
        getattr(broker, how)()
    assert len(set(ids)) == len(ids)


def begin(broker: BrokerDriver, version: int = 5, name: str = "mine", **others: Any) -> InitProducerIdResponse:
    fields: dict[str, Any] = {"transaction_timeout_ms": 1000, **others}
    return broker.ask(InitProducerIdRequest(transactional_id=name, **fields), version)


@pytest.mark.parametrize("version", range(6))
def test_each_producer_that_begins_has_a_later_epoch(broker: BrokerDriver, version: int) -> None:
    responses = [begin(broker, version) for _ in range(3)]
    assert [(response.error_code, response.producer_epoch) for response in responses] == [(0, 0), (0, 1), (0, 2)]
    assert len({response.producer_id for response in responses}) == 1
    assert begin(broker, version, "other").producer_id != responses[0].producer_id


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(
    ("name", "timeout_ms", "code"),
    [
        ("", 1000, ErrorCode.INVALID_REQUEST),
        ("mine", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("mine", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_invalid_init_producer_ids_are_refused(
    broker: BrokerDriver, version: int, name: str, timeout_ms: int, code: ErrorCode
) -> None:
    response = begin(broker, version, name, transaction_timeout_ms=timeout_ms)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_producer_that_sends_its_id_and_epoch_gets_the_next_epoch(broker: BrokerDriver, version: int) -> None:
    first = begin(broker)
    claim: dict[str, Any] = {"producer_id": first.producer_id, "producer_epoch": first.producer_epoch}
    second = begin(broker, version, **claim)
    assert (second.error_code, second.producer_id, second.producer_epoch) == (0, first.producer_id, 1)
    assert begin(broker, version, **claim).producer_epoch == 1  # it asks again: the response was lost
    begin(broker)
    fenced = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert begin(broker, version, **claim).error_code == fenced


@pytest.mark.parametrize("claim", [{"producer_id": 5}, {"producer_epoch": 5}])
@pytest.mark.parametrize("name", [None, "mine"])
def test_a_producer_id_without_an_epoch_is_refused(
    broker: BrokerDriver, claim: dict[str, Any], name: str | None
) -> None:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000, **claim)
    assert broker.ask(request, 5).error_code == ErrorCode.INVALID_REQUEST


def test_init_producer_id_aborts_the_open_transaction(broker: BrokerDriver) -> None:
    broker.create("t")
    old, new = Coordinated(broker, "mine"), Coordinated(broker, "mine")
    old.begin()
    old.write(b"a", T0)
    response = begin(broker)
    assert response.error_code == 0
    assert (committed(broker), is_stable(broker)) == ([], True)
    new.use(ProducerIdAndEpoch(producer_id=response.producer_id, epoch=response.producer_epoch))
    new.write(b"b", T0)
    new.end()
    assert committed(broker) == [b"b"]
