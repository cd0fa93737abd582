import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.broker.driver import BrokerDriver, batch


def end_of(
    broker: BrokerDriver, epoch: int, *, present: int = -1, topic: str = "t", partition: int = 0, version: int = 4
) -> tuple[int, int, int]:
    part = OffsetForLeaderPartition(partition=partition, current_leader_epoch=present, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic=topic, partitions=(part,)),))
    (answered,) = broker.ask(request, version).topics
    (result,) = answered.partitions
    assert (answered.topic, result.partition) == (topic, partition)
    return result.error_code, result.leader_epoch, result.end_offset


@pytest.mark.parametrize("version", range(5))
def test_the_present_epoch_ends_where_the_log_does(broker: BrokerDriver, version: int) -> None:
    broker.passing_for("3.9")
    broker.create("t")
    expected_epoch = 0 if version >= 1 else -1
    assert end_of(broker, 0, version=version) == (0, expected_epoch, 0)
    broker.produce("t", batch(b"a", b"b"))
    assert end_of(broker, 0, version=version) == (0, expected_epoch, 2)


@pytest.mark.parametrize("epoch", [-1, 1, 99])
def test_future_and_unknown_epochs_have_no_end_offset(broker: BrokerDriver, epoch: int) -> None:
    broker.create("t")
    broker.produce("t", batch(b"a"))
    assert end_of(broker, epoch) == (0, -1, -1)


def test_the_end_offsets_of_earlier_epochs(broker: BrokerDriver) -> None:
    broker.create("t")
    log = broker.broker.partitions.get("t", 0).log
    for epoch in (0, 2, 5):
        log.append(batch(b"a", b"b"), leader_epoch=epoch)
    assert end_of(broker, 2) == (0, 2, 4)
    assert end_of(broker, 3) == (0, 2, 4), "an epoch that had no records ended with the one before"
    assert end_of(broker, 5) == (0, 5, 6)


@pytest.mark.parametrize(
    ("present", "code"), [(0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (-2, ErrorCode.FENCED_LEADER_EPOCH)]
)
def test_the_current_leader_epoch_of_the_request_is_checked(broker: BrokerDriver, present: int, code: int) -> None:
    broker.create("t")
    assert end_of(broker, 0, present=present)[0] == code


def test_partitions_that_are_not_there(broker: BrokerDriver) -> None:
    broker.create("t")
    assert end_of(broker, 0, partition=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert end_of(broker, 0, topic="missing") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
