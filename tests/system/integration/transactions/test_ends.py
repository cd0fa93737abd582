import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.clients.topics import Topics
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transaction_views import described, reaches, shows
from tests.support.requests.transactions import LEVELS, RawProducer, code
from tests.support.servers.brokers import Server, TopicMaker
from tests.system.integration.transactions.conftest import MakeProducer


def test_end_txn_sent_again(producer: RawProducer, reader: RawClient, topic: str) -> None:
    """The response was lost: the same end is the same response, the other one is refused."""
    for commit in (True, False):
        producer.write(topic, f"{commit}")
        first = producer.end(commit=commit)
        again = producer.end(commit=commit)
        other = producer.end(commit=not commit)
        assert (code(first), code(again), code(other)) == (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE)
        assert (again.producer_id, again.producer_epoch) == (first.producer_id, first.producer_epoch)
        expected = (producer.producer_id, producer.epoch + 1)
        assert (first.producer_id, first.producer_epoch) == (expected if producer.level == 2 else (-1, -1))
        producer.take(*(expected if producer.level == 2 else producer.identity))
    shows(reader, topic, "True")


def test_end_txn_without_an_open_transaction(new_producer: MakeProducer) -> None:
    old = new_producer("old-" + new_producer().transactional_id, level=1).begin()
    assert code(old.end(commit=True)) is ErrorCode.INVALID_TXN_STATE
    assert code(old.end(commit=False)) is ErrorCode.INVALID_TXN_STATE
    producer = new_producer(level=2).begin()
    assert code(producer.end(commit=True)) is ErrorCode.INVALID_TXN_STATE
    # A producer that does not know what it has written may make sure (KIP-890).
    response = producer.end(commit=False)
    assert (code(response), response.producer_epoch) == (ErrorCode.NONE, producer.epoch + 1)


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_end_txn(new_producer: MakeProducer, reader: RawClient, topic: str, version: int) -> None:
    producer = new_producer(level=1).begin()
    producer.write(topic, "a")
    response = producer.end(commit=True, version=version)
    expected = (producer.producer_id, producer.epoch + 1) if version >= 5 else (-1, -1)
    assert (code(response), response.producer_id, response.producer_epoch) == (ErrorCode.NONE, *expected)
    shows(reader, topic, "a")


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_of_a_transactional_produce(
    new_producer: MakeProducer, reader: RawClient, topic: str, version: int
) -> None:
    producer = new_producer(level=2 if version >= 12 else 1).begin()
    if producer.level == 1:
        assert producer.add((topic, 0)) == [ErrorCode.NONE]
    assert code(producer.produce(topic, "a", version=version)) is ErrorCode.NONE
    producer.commit()
    shows(reader, topic, "a")


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_add_partitions(
    new_producer: MakeProducer, reader: RawClient, topic: str, version: int
) -> None:
    producer = new_producer(level=1).begin()
    for _ in range(2):  # again is the same
        assert producer.add((topic, 0), (topic, 1), version=version) == [ErrorCode.NONE] * 2
    producer.write(topic, "a", partition=1)
    producer.commit()
    shows(reader, topic, "a", partition=1)


@pytest.mark.parametrize(
    ("version", "expected"), [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_partitions_that_were_not_added(
    new_producer: MakeProducer, reader: RawClient, topic: str, version: int, expected: ErrorCode
) -> None:
    producer = new_producer(level=1).begin()
    assert code(producer.produce(topic, "a", version=version)) is expected
    producer.write(topic, "b", partition=1)
    assert code(producer.produce(topic, "a", version=version)) is expected
    producer.abort()
    shows(reader, topic)


def test_partitions_that_do_not_exist(producer: RawProducer, reader: RawClient, topic: str) -> None:
    failed = ErrorCode.OPERATION_NOT_ATTEMPTED
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.add((topic, 0), (topic, 7), ("no-such-topic", 0)) == [failed, unknown, unknown]
    assert described(reader, producer.transactional_id).transaction_state == "Empty"
    assert code(producer.produce(topic, "a", partition=7)) is unknown


def test_two_transactions_in_one_partition(
    producer: RawProducer, new_producer: MakeProducer, reader: RawClient, topic: str
) -> None:
    other = new_producer("other-" + producer.transactional_id, level=producer.level).begin()
    producer.write(topic, "a")
    other.write(topic, "b")
    producer.write(topic, "c")
    producer.commit()
    reaches(reader, producer.transactional_id, "CompleteCommit")
    other.write(topic, "d")
    other.abort()
    shows(reader, topic, "a", "c")


def test_a_batch_that_is_sent_again(producer: RawProducer, reader: RawClient, topic: str) -> None:
    first = producer.write(topic, "a", "b")
    again = producer.produce(topic, "a", "b", base_sequence=0)
    assert (code(again), again.base_offset) == (ErrorCode.NONE, first)
    assert code(producer.produce(topic, "c", base_sequence=7)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.write(topic, "c")
    producer.commit()
    shows(reader, topic, "a", "b", "c")


def test_a_topic_that_goes_while_a_transaction_is_open(
    producer: RawProducer, server: Server, new_topic: TopicMaker, reader: RawClient, topic: str
) -> None:
    doomed = new_topic()
    producer.write(doomed, "a")
    producer.write(topic, "b")
    with Topics(server.bootstrap_servers) as topics:
        topics.delete(doomed)
    producer.commit()
    shows(reader, topic, "b")
    reaches(reader, producer.transactional_id, "CompleteCommit")
    producer.write(topic, "c")
    producer.commit()
    shows(reader, topic, "b", "c")


@pytest.mark.parametrize("level", LEVELS)
def test_batches_that_do_not_belong_into_a_transaction(new_producer: MakeProducer, topic: str, level: int) -> None:
    producer = new_producer(level=level).begin()
    producer.write(topic, "a")
    assert code(producer.produce(topic, "b", transactional=False)) is ErrorCode.INVALID_TXN_STATE
