"""DescribeTransactions: what is known of an id, from its first epoch to the end of its transaction."""

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TopicData,
    TransactionState,
)
from tests.support.broker_driver import BrokerDriver
from tests.support.direct_producer import DirectProducer


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
            producer_id=producer.id,
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
