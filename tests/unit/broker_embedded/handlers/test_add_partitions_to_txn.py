import pytest

from broker_embedded._coordinator.log import partition_for
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from spark_kafka_native._protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.coordinator_driver import T0, T1, TV_0, Coordinated
from tests.support.broker.driver import BrokerDriver

BETWEEN_BROKERS = (4, 5)
NOWHERE = TopicPartition("nowhere", 0)


@pytest.fixture
def mine(broker: BrokerDriver) -> Coordinated:
    """A transactional producer of a topic of two partitions."""
    broker.create("t", partitions=2)
    return Coordinated.begun(broker, version=TV_0)


def transaction(
    producer: ProducerIdAndEpoch, *partitions: TopicPartition, name: str = "id", verify_only: bool = False
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=tuple(
            AddPartitionsToTxnTopic(
                name=topic, partitions=tuple(tp.partition for tp in partitions if tp.topic == topic)
            )
            for topic in dict.fromkeys(tp.topic for tp in partitions)
        ),
    )


def ask(
    broker: BrokerDriver, version: int, *transactions: AddPartitionsToTxnTransaction
) -> list[dict[TopicPartition, int]]:
    """Error codes by partition, of each transaction."""
    if version in BETWEEN_BROKERS:
        response = broker.ask(AddPartitionsToTxnRequest(transactions=transactions), version)
        assert [result.transactional_id for result in response.results_by_transaction] == [
            wanted.transactional_id for wanted in transactions
        ]
        results = [result.topic_results for result in response.results_by_transaction]
    else:
        (only,) = transactions
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=only.transactional_id,
            v3_and_below_producer_id=only.producer_id,
            v3_and_below_producer_epoch=only.producer_epoch,
            v3_and_below_topics=only.topics,
        )
        results = [broker.ask(request, version).results_by_topic_v3_and_below]
    return [
        {
            TopicPartition(topic.name, found.partition_index): found.partition_error_code
            for topic in result
            for found in topic.results_by_partition
        }
        for result in results
    ]


@pytest.mark.parametrize("version", range(6))
def test_added_partitions_are_in_the_ongoing_transaction(broker: BrokerDriver, mine: Coordinated, version: int) -> None:
    for wanted in ([T0], [T0, T1]):
        assert ask(broker, version, transaction(mine.producer, *wanted)) == [dict.fromkeys(wanted, 0)]
        assert mine.known.partitions == set(wanted)
    assert mine.state == "Ongoing"


@pytest.mark.parametrize("version", range(6))
def test_an_unknown_partition_keeps_the_others_out_of_the_transaction(
    broker: BrokerDriver, mine: Coordinated, version: int
) -> None:
    assert ask(broker, version, transaction(mine.producer, T0, NOWHERE)) == [
        {T0: ErrorCode.OPERATION_NOT_ATTEMPTED, NOWHERE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    ]
    assert mine.state == "Empty"


@pytest.mark.parametrize("version", range(6))
def test_add_partitions_of_another_producer_is_refused(broker: BrokerDriver, mine: Coordinated, version: int) -> None:
    producer_id = mine.producer.producer_id
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    for name, producer, code in [
        ("id", ProducerIdAndEpoch(producer_id=producer_id, epoch=7), fenced),
        ("id", ProducerIdAndEpoch(producer_id=producer_id + 1, epoch=0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("other", mine.producer, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("", mine.producer, ErrorCode.INVALID_REQUEST),
    ]:
        assert ask(broker, version, transaction(producer, T0, T1, name=name)) == [{T0: code, T1: code}]
    assert mine.state == "Empty"


def test_clients_do_not_add_internal_topics(broker: BrokerDriver, mine: Coordinated) -> None:
    internal = TopicPartition("__consumer_offsets", 0)
    for version in range(4):
        assert ask(broker, version, transaction(mine.producer, T0, internal)) == [
            {T0: ErrorCode.OPERATION_NOT_ATTEMPTED, internal: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        ]
    assert mine.state == "Empty"


@pytest.mark.parametrize("version", BETWEEN_BROKERS)
def test_verify_only_adds_no_partition(broker: BrokerDriver, mine: Coordinated, version: int) -> None:
    outside = ErrorCode.TRANSACTION_ABORTABLE
    mine.add(T0)
    asked = transaction(mine.producer, T0, T1, verify_only=True)
    for _ in range(2):
        assert ask(broker, version, asked) == [{T0: 0, T1: outside}]
    fenced = transaction(ProducerIdAndEpoch(producer_id=mine.producer.producer_id, epoch=7), T0, verify_only=True)
    assert ask(broker, version, fenced) == [{T0: ErrorCode.PRODUCER_FENCED}]
    mine.end()
    assert ask(broker, version, asked) == [{T0: outside, T1: outside}]


@pytest.mark.parametrize("version", BETWEEN_BROKERS)
def test_several_transactions_at_once(broker: BrokerDriver, mine: Coordinated, version: int) -> None:
    other = Coordinated(broker, "other")
    other.begin()
    wanted = [
        transaction(mine.producer, T0),
        transaction(mine.producer, T0, name="unknown"),
        transaction(other.producer, T0, T1, name="other"),
    ]
    assert ask(broker, version, *wanted) == [{T0: 0}, {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}, {T0: 0, T1: 0}]
    assert ask(broker, version) == []


def add(broker: BrokerDriver, version: int, producer: ProducerIdAndEpoch, *, name: str = "id", group: str = "g") -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id=group
    )
    return broker.ask(request, version).error_code


@pytest.mark.parametrize("version", range(5))
def test_add_offsets_to_txn_adds_the_partition_of_the_group(broker: BrokerDriver, version: int) -> None:
    mine = Coordinated.begun(broker)
    for groups in (["g"], ["g", "another"]):
        assert add(broker, version, mine.producer, group=groups[-1]) == 0
        assert mine.known.partitions == {
            TopicPartition("__consumer_offsets", partition_for(group, 3)) for group in groups
        }
    assert mine.state == "Ongoing"


@pytest.mark.parametrize("version", range(5))
def test_add_offsets_of_another_producer_is_refused(broker: BrokerDriver, version: int) -> None:
    mine = Coordinated(broker)
    producer = mine.begin()
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert add(broker, version, ProducerIdAndEpoch(producer_id=producer.producer_id, epoch=7)) == fenced
    other = ProducerIdAndEpoch(producer_id=producer.producer_id + 1, epoch=0)
    assert add(broker, version, other) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert add(broker, version, producer, name="") == ErrorCode.INVALID_REQUEST
    assert mine.state == "Empty"
