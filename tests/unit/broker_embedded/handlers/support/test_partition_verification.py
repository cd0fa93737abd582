from collections.abc import Iterable
from typing import Any

import pytest

from broker_embedded._handlers.support.registry import CloseConnection
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.driver import BrokerDriver
from tests.support.broker.transactional_producer import DirectProducer
from tests.support.requests.transactions import code

LEVELS = (1, 2)
BEFORE_LEVEL_2 = (3, 10, 11)


def codes(broker: BrokerDriver, request: ProduceRequest, version: int) -> list[ErrorCode]:
    return [code(part) for topic in broker.ask(request, version).responses for part in topic.partition_responses]


def ends(broker: BrokerDriver, topic: str = "t") -> tuple[int, int]:
    """The last stable offset, and the end."""
    log = broker.broker.partitions.get(topic, 0).log
    return log.last_stable_offset, log.log_end_offset


@pytest.fixture
def producer(broker: BrokerDriver) -> DirectProducer:
    """A producer of topic t, which has one partition."""
    broker.create("t")
    return DirectProducer(broker).begin()


@pytest.mark.parametrize("level", LEVELS)
def test_transactions_one_after_the_other(broker: BrokerDriver, level: int) -> None:
    broker.create("t")
    producer = DirectProducer(broker, level=level).begin()
    assert (producer.write("t", "a"), producer.write("t", "b", "c")) == (0, 1)
    assert ends(broker) == (0, 3)
    producer.commit()
    assert ends(broker) == (4, 4)
    assert producer.write("t", "d") == 4
    producer.abort()
    assert producer.write("t", "e") == 6
    assert ends(broker) == (6, 7)


@pytest.mark.parametrize("version", BEFORE_LEVEL_2)
def test_a_partition_that_was_not_added(broker: BrokerDriver, version: int) -> None:
    broker.create("t", partitions=2)
    producer = DirectProducer(broker, level=1).begin()
    assert producer.add(("t", 0)) == [ErrorCode.NONE]
    expected = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
    assert codes(broker, producer.request(("t", 1), ("t", 0)), version) == [expected, ErrorCode.NONE]
    assert broker.values("t") == [b"value"]
    response = producer.produce("t", partition=1, version=version)
    assert response.error_message == ("t-1 is not part of id's transaction" if version >= 8 else None)
    assert response.log_start_offset == -1
    assert broker.values("t", partition=1) == []


def test_a_partition_is_added_as_it_is_written_to(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    producer = DirectProducer(broker).begin()
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(broker, producer.request(("t", 0), ("t", 1), ("no", 0)), 12) == [0, 0, missing]
    assert {str(part) for part in broker.broker.transactions.all["id"].partitions} == {"t-0", "t-1"}


def test_once_verified_the_log_is_enough(broker: BrokerDriver, producer: DirectProducer) -> None:
    """The second batch does not wait for the coordinator."""
    producer.write("t")
    lock = broker.broker.transactions.lock("id")
    broker.run(lock.__aenter__())
    assert producer.write("t") == 1
    broker.run(lock.__aexit__(None, None, None))


def test_a_batch_that_comes_again_amid_its_transaction(broker: BrokerDriver, producer: DirectProducer) -> None:
    assert [producer.produce("t", base_sequence=0).base_offset for _ in range(2)] == [0, 0]
    assert ends(broker) == (0, 1)


def test_records_outside_of_transactions_may_come_with_a_transactional_id(
    broker: BrokerDriver, producer: DirectProducer
) -> None:
    plain: dict[str, Any] = {"transactional": False, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
    assert code(producer.produce("t", **plain)) is ErrorCode.NONE
    assert ends(broker) == (1, 1)


def test_a_batch_outside_of_its_producers_open_transaction(broker: BrokerDriver, producer: DirectProducer) -> None:
    producer.write("t")
    assert code(producer.produce("t", transactional=False)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", [3, 11, 12])
def test_records_of_a_transaction_need_a_transactional_id(broker: BrokerDriver, version: int) -> None:
    """The whole request is refused, as by Apache Kafka."""
    broker.create("t", partitions=2)
    producer = DirectProducer(broker).begin()
    request = producer.request(("t", 0), ("no", 0), transactional_id=None)
    assert codes(broker, request, version) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    assert ends(broker) == (0, 0)


def test_all_records_are_of_one_producer(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    producer = DirectProducer(broker).begin()
    mine, others = producer.request(("t", 0)), producer.request(("t", 1), producer_epoch=3)
    request = ProduceRequest(
        transactional_id="id", acks=-1, timeout_ms=0, topic_data=mine.topic_data + others.topic_data
    )
    assert codes(broker, request, 12) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


@pytest.mark.parametrize("version", [9, 11, 12])
@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"producer_id": 77}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": 1}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"transactional_id": "other"}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_another_producer_than_that_of_the_id_is_refused(
    broker: BrokerDriver, version: int, claims: dict[str, Any], expected: ErrorCode
) -> None:
    broker.create("t")
    producer = DirectProducer(broker).begin()
    assert code(producer.produce("t", version=version, **claims)) is expected
    assert ends(broker) == (0, 0)


@pytest.mark.parametrize("level", LEVELS)
def test_a_batch_of_a_fenced_epoch_is_refused(broker: BrokerDriver, level: int) -> None:
    """Amid the transaction, which its successor has aborted, and at the start of another."""
    broker.create("t", partitions=2)
    old = DirectProducer(broker, level=level).begin()
    old.write("t", "lost")
    DirectProducer(broker, level=level).begin()
    assert ends(broker) == (2, 2)
    assert code(old.produce("t")) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(old.produce("t", partition=1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert ends(broker) == (2, 2)


@pytest.mark.parametrize("version", [9, 11])
def test_a_late_batch_of_a_transaction_that_is_over(broker: BrokerDriver, version: int) -> None:
    """The marker is in the log: a transaction that starts after it would never end."""
    broker.create("t")
    producer = DirectProducer(broker, level=1).begin()
    producer.write("t")
    producer.commit()
    expected = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
    assert code(producer.produce("t", version=version)) is expected
    assert ends(broker) == (2, 2)


def test_a_late_batch_of_an_epoch_that_is_over(broker: BrokerDriver, producer: DirectProducer) -> None:
    producer.write("t")
    before = producer.epoch
    producer.commit()
    late = producer.produce("t", producer_epoch=before, base_sequence=1)
    assert code(late) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert ends(broker) == (2, 2)


def test_a_transaction_begins_at_sequence_0(broker: BrokerDriver, producer: DirectProducer) -> None:
    """The batches after a refused one must be refused, too."""
    assert code(producer.produce("t", base_sequence=5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.write("t") == 0


def test_acks_0_is_silent_or_closes_the_connection(broker: BrokerDriver, producer: DirectProducer) -> None:
    assert broker.run(broker.begin(producer.request(("t", 0), acks=0), 12)) is None
    assert ends(broker) == (0, 1)
    with pytest.raises(CloseConnection, match="t-0: INVALID_PRODUCER_EPOCH"):
        broker.run(broker.begin(producer.request(("t", 0), acks=0, producer_epoch=7), 12))


def test_verification_can_be_switched_off(broker: BrokerDriver) -> None:
    """Before v12; a newer producer never says which partitions it writes to."""
    broker.restart({"transaction.partition.verification.enable": "false"})
    broker.create("t", partitions=2)
    producer = DirectProducer(broker, level=1).begin()
    assert code(producer.produce("t")) is ErrorCode.NONE
    assert ends(broker) == (0, 1)
    assert code(producer.produce("t", partition=1, version=12)) is ErrorCode.NONE
    assert {str(part) for part in broker.broker.transactions.all["id"].partitions} == {"t-1"}


@pytest.mark.parametrize("level", LEVELS)
def test_appends_that_wait_for_the_disk(broker: BrokerDriver, level: int) -> None:
    broker.create("t", flush_messages="1")
    producer = DirectProducer(broker, level=level).begin()
    assert (producer.write("t"), producer.write("t")) == (0, 1)
    assert code(producer.produce("t", producer_epoch=9, base_sequence=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    producer.commit()
    assert ends(broker) == (3, 3)


def test_a_transaction_begins_only_when_nothing_is_being_decided(
    broker: BrokerDriver, producer: DirectProducer
) -> None:
    lock = broker.broker.transactions.lock("id")
    broker.run(lock.__aenter__())
    waiting = broker.pending(producer.request(("t", 0)), 12)
    assert ends(broker) == (0, 0)
    broker.run(lock.__aexit__(None, None, None))
    response = broker.response(waiting)
    assert code(response.responses[0].partition_responses[0]) is ErrorCode.NONE
    assert ends(broker) == (0, 1)


def test_a_client_that_leaves_does_not_stop_its_append_half_way(broker: BrokerDriver, producer: DirectProducer) -> None:
    lock = broker.broker.transactions.lock("id")
    broker.run(lock.__aenter__())
    waiting = broker.begin(producer.request(("t", 0)), 12)
    broker.settle()
    waiting.cancel()
    broker.run(lock.__aexit__(None, None, None))
    broker.settle()
    assert ends(broker) == (0, 1)
    producer.commit()
    assert ends(broker) == (2, 2)


@pytest.mark.parametrize("version", [3, 11, 12])
def test_a_failed_write_of_the_partition_is_a_retriable_error(
    broker: BrokerDriver, producer: DirectProducer, version: int
) -> None:
    """NOT_ENOUGH_REPLICAS is the code upon which producers of all ages do so."""
    broker.broker.transactions.release()
    assert code(producer.produce("t", version=version)) is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("version", [3, 11, 12])
def test_the_last_transaction_is_not_over_yet(
    broker: BrokerDriver, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker is missing, and its disk fails."""

    async def write_none(
        partitions: Iterable[TopicPartition], *_: object, **__: object
    ) -> dict[TopicPartition, ErrorCode]:
        return dict.fromkeys(partitions, ErrorCode.KAFKA_STORAGE_ERROR)

    broker.create("t", partitions=2)
    producer = DirectProducer(broker).begin()
    producer.write("t", partition=1)
    monkeypatch.setattr(broker.broker.markers, "write", write_none)
    producer.commit()
    expected = ErrorCode.CONCURRENT_TRANSACTIONS if version >= 12 else ErrorCode.NOT_ENOUGH_REPLICAS
    assert code(producer.produce("t", version=version)) is expected


def test_a_refused_append_leaves_its_partition_in_the_transaction(broker: BrokerDriver) -> None:
    """The marker in it ends no transaction."""
    broker.create("t", max_message_bytes="100")
    producer = DirectProducer(broker).begin()
    assert code(producer.produce("t", "x" * 100)) is ErrorCode.MESSAGE_TOO_LARGE
    assert {str(part) for part in broker.broker.transactions.all["id"].partitions} == {"t-0"}
    producer.commit()
    assert ends(broker) == (1, 1)
    assert producer.write("t") == 1


def test_topics_in_old_formats_have_no_transactions(broker: BrokerDriver) -> None:
    """A topic that became part of a transaction does not prevent its end."""
    broker.passing_for("2.8")
    broker.create("old", message_format_version="0.10.2")
    producer = DirectProducer(broker, level=1).begin()
    assert producer.add(("old", 0)) == [ErrorCode.NONE]
    assert code(producer.produce("old", version=9)) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert code(producer.end(commit=True, version=3)) is ErrorCode.NONE
    assert broker.broker.transactions.all["id"].state.label == "CompleteCommit"
    assert ends(broker, "old") == (0, 0)
