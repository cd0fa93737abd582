import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from tests.support.broker.coordinator_driver import T0, TV_0, TV_2, Coordinated, committed, markers
from tests.support.broker.driver import BrokerDriver

VERSIONS = range(6)


def begun(broker: BrokerDriver, version: int) -> Coordinated:
    """A producer amid a transaction, of the kind that asks in this version."""
    broker.create("t")
    mine = Coordinated(broker, version=TV_2 if version >= 5 else TV_0)
    mine.begin()
    mine.write(b"a", T0)
    return mine


def end(
    broker: BrokerDriver, producer: ProducerIdAndEpoch, version: int, *, name: str = "id", commit: bool
) -> EndTxnResponse:
    request = EndTxnRequest(
        transactional_id=name, producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=commit
    )
    return broker.ask(request, version)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_end_and_its_repetition(broker: BrokerDriver, version: int, commit: bool) -> None:
    mine = begun(broker, version)
    for _ in range(2):
        response = end(broker, mine.producer, version, commit=commit)
        after = (mine.producer.producer_id, 1) if version >= 5 else (-1, -1)
        assert (response.error_code, response.producer_id, response.producer_epoch) == (0, *after)
    assert mine.state == ("CompleteCommit" if commit else "CompleteAbort")
    assert committed(broker) == ([b"a"] if commit else [])
    assert markers(broker) == [("COMMIT" if commit else "ABORT", mine.producer.producer_id, int(version >= 5))]


@pytest.mark.parametrize("version", VERSIONS)
def test_end_txn_of_another_producer_is_refused(broker: BrokerDriver, version: int) -> None:
    mine = begun(broker, version)
    producer_id = mine.producer.producer_id
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    for name, producer, code in [
        ("id", ProducerIdAndEpoch(producer_id=producer_id, epoch=7), fenced),
        ("id", ProducerIdAndEpoch(producer_id=producer_id + 1, epoch=0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("other", mine.producer, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("", mine.producer, ErrorCode.INVALID_REQUEST),
    ]:
        response = end(broker, producer, version, name=name, commit=True)
        assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)
    assert mine.state == "Ongoing"


@pytest.mark.parametrize("version", VERSIONS)
def test_end_txn_without_an_open_transaction(broker: BrokerDriver, version: int) -> None:
    mine = Coordinated.begun(broker)
    assert end(broker, mine.producer, version, commit=True).error_code == ErrorCode.INVALID_TXN_STATE
