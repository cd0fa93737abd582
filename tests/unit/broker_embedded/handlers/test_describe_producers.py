import pytest

from broker_embedded._log.append.incoming import AppendConditions
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from spark_kafka_native._records.batch import set_producer
from tests.support.broker.driver import BrokerDriver, batch, idempotent
from tests.support.broker.transactional_producer import DirectProducer


def producers(broker: BrokerDriver, topic: str, *indexes: int) -> list[PartitionResponse]:
    request = DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=indexes),))
    (answered,) = broker.ask(request, 0).topics
    assert [part.partition_index for part in answered.partitions] == list(indexes)
    return list(answered.partitions)


def test_each_producer_with_its_last_batch(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    for sequence, timestamp_ms in ((0, 1000), (2, 2000)):
        records = batch(b"a", b"b", timestamp_ms=timestamp_ms)
        broker.produce("t", idempotent(records, producer_id=7, sequence=sequence, epoch=1))
    broker.produce("t", idempotent(batch(b"a"), producer_id=8, sequence=0))
    broker.produce("t", batch(b"no producer"), 1)
    found, without = producers(broker, "t", 0, 1)
    assert found.active_producers[0] == ProducerState(
        producer_id=7,
        producer_epoch=1,
        last_sequence=3,
        last_timestamp=2000,
        coordinator_epoch=-1,
        current_txn_start_offset=-1,
    )
    assert [producer.producer_id for producer in found.active_producers] == [7, 8]
    assert (without.error_code, without.active_producers) == (0, ())


@pytest.mark.parametrize(
    ("topic", "index", "code"),
    [
        ("t", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("missing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_partitions_that_are_not_there(broker: BrokerDriver, topic: str, index: int, code: ErrorCode) -> None:
    broker.create("t")
    (refused,) = producers(broker, topic, index)
    assert (refused.error_code, refused.active_producers) == (code, ())
    assert refused.error_message


def test_where_open_transactions_begin(broker: BrokerDriver) -> None:
    """Also of a hanging one, which its coordinator does not know."""
    broker.create("t")
    writer = DirectProducer(broker).begin()
    writer.write("t", "a", "b")
    (state,) = producers(broker, "t", 0)[0].active_producers
    assert (state.producer_id, state.current_txn_start_offset, state.coordinator_epoch) == (writer.producer_id, 0, -1)
    broker.advance(10)
    writer.commit()
    (state,) = producers(broker, "t", 0)[0].active_producers
    assert (state.producer_epoch, state.current_txn_start_offset, state.coordinator_epoch) == (writer.epoch, -1, 0)
    assert (state.last_sequence, state.last_timestamp) == (-1, broker.clock.now_ms())
    hanging = batch(b"x")
    set_producer(hanging, 0, producer_id=99, producer_epoch=4, base_sequence=0, transactional=True)
    broker.broker.partitions.get("t", 0).append(hanging, AppendConditions(verified=True))
    found = producers(broker, "t", 0)[0].active_producers
    assert [(each.producer_id, each.current_txn_start_offset) for each in found] == [(writer.producer_id, -1), (99, 3)]
