from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transaction_views import reaches, shows
from tests.support.requests.transactions import LEVELS, RawProducer, code
from tests.system.integration.transactions.conftest import MakeProducer

FENCED = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}


def test_the_epoch_rises_with_every_producer(new_producer: MakeProducer) -> None:
    first, second = new_producer().begin(), new_producer().begin()
    assert second.producer_id == first.producer_id
    assert second.epoch == first.epoch + 1


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_init_producer_id(new_producer: MakeProducer, version: int) -> None:
    response = new_producer().init(version)
    assert (code(response), response.producer_epoch) == (ErrorCode.NONE, 0)
    assert response.producer_id >= 0


def test_a_new_producer_aborts_what_the_old_one_left(
    producer: RawProducer, new_producer: MakeProducer, reader: RawClient, topic: str
) -> None:
    producer.write(topic, "lost")
    heir = new_producer(level=producer.level).begin()
    assert heir.epoch > producer.epoch
    shows(reader, topic)
    heir.write(topic, "kept")
    heir.commit()
    shows(reader, topic, "kept")


def test_a_fenced_producer_can_do_nothing(
    producer: RawProducer, new_producer: MakeProducer, reader: RawClient, topic: str
) -> None:
    producer.write(topic, "lost")
    heir = new_producer().begin()
    assert code(producer.produce(topic, "zombie")) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.add((topic, 1)) == [ErrorCode.PRODUCER_FENCED]
    assert producer.add_offsets("g") is ErrorCode.PRODUCER_FENCED
    assert code(producer.end(commit=True)) is ErrorCode.PRODUCER_FENCED
    assert code(producer.end(commit=False)) is ErrorCode.PRODUCER_FENCED
    claim: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    assert code(producer.init(**claim)) is ErrorCode.PRODUCER_FENCED
    heir.write(topic, "kept")
    heir.commit()
    shows(reader, topic, "kept")


def test_old_versions_have_the_error_invalid_producer_epoch(new_producer: MakeProducer, topic: str) -> None:
    zombie = new_producer(level=1).begin()
    new_producer().begin()
    claim: dict[str, Any] = {"producer_id": zombie.producer_id, "producer_epoch": zombie.epoch}
    invalid = ErrorCode.INVALID_PRODUCER_EPOCH
    assert zombie.add((topic, 0), version=1) == [invalid]
    assert zombie.add_offsets("g", version=1) is invalid
    assert code(zombie.end(commit=True, version=1)) is invalid
    assert code(zombie.init(3, **claim)) is invalid


def test_a_producer_that_names_itself_gets_the_next_epoch(producer: RawProducer, reader: RawClient, topic: str) -> None:
    """KIP-360: a producer recovers from an error by a new epoch, which aborts its open transaction."""
    producer.write(topic, "lost")
    before = producer.identity
    assert code(producer.init(producer_id=before[0], producer_epoch=before[1])) is ErrorCode.NONE
    assert producer.producer_id == before[0]
    assert producer.epoch > before[1]
    shows(reader, topic)
    producer.write(topic, "kept")
    producer.commit()
    shows(reader, topic, "kept")


def test_a_producer_that_names_itself_again_gets_the_same_response(new_producer: MakeProducer) -> None:
    producer = new_producer().begin()
    claim: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    first = producer.init(**claim)
    again = producer.init(**claim)
    assert (again.producer_id, again.producer_epoch) == (first.producer_id, first.producer_epoch)
    assert first.producer_epoch == claim["producer_epoch"] + 1


def test_a_producer_that_names_another(new_producer: MakeProducer) -> None:
    producer = new_producer().begin()
    fields: dict[str, Any] = {"producer_id": producer.producer_id + 1000, "producer_epoch": producer.epoch}
    assert code(producer.init(**fields)) is ErrorCode.PRODUCER_FENCED
    fields = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch + 5}
    assert code(producer.init(**fields)) is ErrorCode.PRODUCER_FENCED
    fields = {"producer_id": producer.producer_id, "producer_epoch": -1}
    assert code(producer.init(**fields)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("level", LEVELS)
def test_an_unknown_id_or_producer(new_producer: MakeProducer, topic: str, level: int) -> None:
    unnamed = new_producer(level=level)
    unnamed.take(123_456, 0)
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert unnamed.add((topic, 0)) == [unknown]
    assert unnamed.add_offsets("g") is unknown
    assert code(unnamed.end(commit=True)) is unknown
    known = new_producer(level=level).begin()
    known.take(known.producer_id + 1000, known.epoch)
    assert known.add((topic, 0)) == [unknown]
    assert code(known.end(commit=False)) is unknown


def test_an_epoch_of_its_own_for_every_transaction(new_producer: MakeProducer, reader: RawClient, topic: str) -> None:
    """KIP-890: what a producer sent before a transaction ended is refused after it."""
    producer = new_producer(level=2).begin()
    epochs = []
    for number in range(3):
        epochs.append(producer.epoch)
        producer.write(topic, str(number))
        producer.commit()
    assert epochs == [0, 1, 2]
    reaches(reader, producer.transactional_id, "CompleteCommit")
    late = producer.produce(topic, "late", producer_epoch=epochs[-1], base_sequence=1)
    assert code(late) is ErrorCode.INVALID_PRODUCER_EPOCH
    shows(reader, topic, "0", "1", "2")


def test_the_same_epoch_for_all_transactions_of_old_producers(new_producer: MakeProducer, topic: str) -> None:
    producer = new_producer(level=1).begin()
    for number in range(3):
        producer.write(topic, str(number))
        producer.commit()
        assert producer.epoch == 0


@pytest.mark.parametrize("timeout_ms", [0, -1, 15 * 60 * 1000 + 1])
def test_timeouts_that_are_refused(new_producer: MakeProducer, timeout_ms: int) -> None:
    assert code(new_producer(timeout_ms=timeout_ms).init()) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_no_name_at_all(new_producer: MakeProducer) -> None:
    producer = new_producer()
    assert code(producer.init(transactional_id="")) is ErrorCode.INVALID_REQUEST
    plain = producer.init(transactional_id=None)
    assert (code(plain), plain.producer_epoch) == (ErrorCode.NONE, 0)
