"""AddOffsetsToTxn: the partition that keeps a group joins its transaction."""

import pytest

from broker_embedded.coordinator.log import partition_for
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.records.batch import ProducerIdAndEpoch
from tests.support.broker_driver import BrokerDriver
from tests.support.coordinator_driver import Coordinated


def add(broker: BrokerDriver, version: int, producer: ProducerIdAndEpoch, *, name: str = "id", group: str = "g") -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id=group
    )
    return broker.ask(request, version).error_code


@pytest.mark.parametrize("version", range(5))
def test_the_partition_of_the_group_joins(broker: BrokerDriver, version: int) -> None:
    mine = Coordinated(broker)
    mine.begin()
    for groups in (["g"], ["g", "another"]):
        assert add(broker, version, mine.producer, group=groups[-1]) == 0
        assert mine.known.partitions == {
            TopicPartition("__consumer_offsets", partition_for(group, 3)) for group in groups
        }
    assert mine.state == "Ongoing"


@pytest.mark.parametrize("version", range(5))
def test_who_may_not_add(broker: BrokerDriver, version: int) -> None:
    mine = Coordinated(broker)
    producer = mine.begin()
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert add(broker, version, ProducerIdAndEpoch(producer_id=producer.producer_id, epoch=7)) == fenced
    other = ProducerIdAndEpoch(producer_id=producer.producer_id + 1, epoch=0)
    assert add(broker, version, other) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert add(broker, version, producer, name="") == ErrorCode.INVALID_REQUEST
    assert mine.state == "Empty"
