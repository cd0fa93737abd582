import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.coordinator_driver import T0, T1, TV_0, Coordinated, committed, is_stable
from tests.support.broker.driver import BrokerDriver

VERSIONS = range(3)
BEFORE_4 = "3.9"
"""Kafka 4 has no v0 any more."""


@pytest.fixture
def mine(broker: BrokerDriver) -> Coordinated:
    """A producer amid a transaction in both partitions of a topic."""
    broker.create("t", partitions=2)
    mine = Coordinated.begun(broker, version=TV_0)
    mine.write(b"a", T0, T1)
    return mine


def marker(mine: Coordinated, *topics: tuple[str, int], commit: bool = False, **others: int) -> WritableTxnMarker:
    fields = {"producer_id": mine.producer.producer_id, "producer_epoch": mine.producer.epoch, **others}
    return WritableTxnMarker(
        transaction_result=commit,
        topics=tuple(WritableTxnMarkerTopic(name=name, partition_indexes=(index,)) for name, index in topics),
        **fields,
    )


def write(broker: BrokerDriver, version: int, *wanted: WritableTxnMarker) -> list[dict[TopicPartition, int]]:
    if version == 0:
        broker.passing_for(BEFORE_4)
    response = broker.ask(WriteTxnMarkersRequest(markers=wanted), version)
    assert [result.producer_id for result in response.markers] == [one.producer_id for one in wanted]
    return [
        {
            TopicPartition(topic.name, found.partition_index): found.error_code
            for topic in result.topics
            for found in topic.partitions
        }
        for result in response.markers
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_is_ended_in_the_partitions_that_are_named(
    broker: BrokerDriver, mine: Coordinated, version: int, commit: bool
) -> None:
    assert write(broker, version, marker(mine, T0, commit=commit)) == [{T0: 0}]
    assert (committed(broker), is_stable(broker)) == ([b"a"] if commit else [], True)
    assert not is_stable(broker, T1)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_marker_and_every_partition_by_itself(broker: BrokerDriver, mine: Coordinated, version: int) -> None:
    nowhere = TopicPartition("nowhere", 0)
    wanted = [marker(mine, nowhere, T0), marker(mine, T1, producer_id=-1), marker(mine, T1)]
    assert write(broker, version, *wanted) == [
        {nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, T0: 0},
        {T1: ErrorCode.INVALID_REQUEST},
        {T1: 0},
    ]
    assert is_stable(broker, T1)
    assert write(broker, version) == []


def test_a_transaction_of_level_2_ends_with_a_later_epoch(broker: BrokerDriver, mine: Coordinated) -> None:
    present = marker(mine, T0, transaction_version=2)
    assert write(broker, 2, present) == [{T0: ErrorCode.INVALID_PRODUCER_EPOCH}]
    later = marker(mine, T0, transaction_version=2, producer_epoch=mine.producer.epoch + 1)
    assert write(broker, 2, later) == [{T0: 0}]


def test_the_coordinator_ends_a_transaction_despite_foreign_markers(broker: BrokerDriver, mine: Coordinated) -> None:
    write(broker, 1, marker(mine, T0))
    mine.end()
    assert (committed(broker), committed(broker, T1)) == ([], [b"a"])
    assert mine.state == "CompleteCommit"
