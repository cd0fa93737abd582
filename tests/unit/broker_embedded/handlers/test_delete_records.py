import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.broker.configs import TOPIC, put
from tests.support.broker.driver import BrokerDriver, batch
from tests.support.requests.of_topic import delete_records, list_offsets


def delete(broker: BrokerDriver, topic: str, offset: int, partition: int = 0, *, version: int = 2) -> tuple[int, int]:
    (answered,) = broker.ask(delete_records(topic, offset, partition), version).topics
    (result,) = answered.partitions
    assert (answered.name, result.partition_index) == (topic, partition)
    return result.low_watermark, result.error_code


@pytest.fixture
def topic(broker: BrokerDriver) -> str:
    """A topic with the records a to f, in batches of two."""
    broker.create("t")
    for first, second in ("ab", "cd", "ef"):
        broker.produce("t", batch(first.encode(), second.encode()))
    return "t"


def earliest(broker: BrokerDriver, topic: str) -> int:
    return broker.ask(list_offsets(topic, -2), 9).topics[0].partitions[0].offset


@pytest.mark.parametrize("version", range(3))
def test_records_before_an_offset_are_gone(broker: BrokerDriver, topic: str, version: int) -> None:
    assert delete(broker, topic, 3, version=version) == (3, 0)
    assert earliest(broker, topic) == 3
    assert broker.fetch(topic, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert broker.values(topic, 3) == [b"c", b"d", b"e", b"f"], "the batch that holds the offset comes whole"


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_deleted_records_stay_deleted_after_a_restart(broker: BrokerDriver, topic: str, how: str) -> None:
    delete(broker, topic, 3)
    getattr(broker, how)()
    assert earliest(broker, topic) == 3


def test_minus_one_is_all(broker: BrokerDriver, topic: str) -> None:
    assert delete(broker, topic, -1) == (6, 0)
    assert broker.values(topic, 6) == []
    assert broker.produce(topic, batch(b"g")).base_offset == 6


def test_a_start_never_moves_back(broker: BrokerDriver, topic: str) -> None:
    assert delete(broker, topic, 4) == (4, 0)
    assert delete(broker, topic, 1) == (4, 0)


@pytest.mark.parametrize("offset", [-2, 7, 2**62])
def test_offsets_that_are_not_there(broker: BrokerDriver, topic: str, offset: int) -> None:
    assert delete(broker, topic, offset) == (-1, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert earliest(broker, topic) == 0


def test_partitions_that_are_not_there(broker: BrokerDriver, topic: str) -> None:
    assert delete(broker, topic, 1, partition=9) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete(broker, "missing", 1) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_the_brokers_own_topics_keep_theirs(broker: BrokerDriver) -> None:
    assert delete(broker, "__consumer_offsets", 0) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    broker.run(broker.broker.topic_lifecycle.require("__consumer_offsets"))
    assert delete(broker, "__consumer_offsets", 0) == (-1, ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_a_policy_without_deletion_keeps_them(broker: BrokerDriver, topic: str) -> None:
    put(broker, TOPIC, topic, cleanup_policy="compact")
    assert delete(broker, topic, 1) == (-1, ErrorCode.POLICY_VIOLATION)
    put(broker, TOPIC, topic, cleanup_policy="compact,delete")
    assert delete(broker, topic, 1) == (1, 0)
    put(broker, TOPIC, topic, cleanup_policy="")
    assert delete(broker, topic, 2) == (2, 0)


def test_a_partition_named_twice_is_answered_once_for_the_last(broker: BrokerDriver, topic: str) -> None:
    parts = tuple(DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (2, 4))
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=parts),))
    (result,) = broker.ask(request, 2).topics[0].partitions
    assert result.low_watermark == 4
