from typing import Any
from uuid import UUID

import pytest

from broker_embedded._replica.partitions import LocalPartition
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._records.batch import CompressionType, read_header
from tests.support.broker.driver import BrokerDriver
from tests.support.records.log_batches import NOW_MS, batch
from tests.support.records.message_sets import message_set
from tests.support.refusals import refused

ZSTD = CompressionType.ZSTD


def refusal(broker: BrokerDriver, topic: str | UUID, index: int) -> ErrorCode:
    partitions = broker.broker.partitions
    return refused(partitions.get if isinstance(topic, str) else partitions.get_by_id, topic, index).code


@pytest.fixture
def partition(broker: BrokerDriver) -> LocalPartition:
    broker.create("t", partitions=2)
    return broker.broker.partitions.get("t", 1)


def test_a_partition_is_found_by_name_and_by_id(broker: BrokerDriver, partition: LocalPartition) -> None:
    topic = broker.broker.image.topics["t"]
    assert broker.broker.partitions.get_by_id(topic.topic_id, 1) is partition
    assert (partition.id, partition.topic_id) == (("t", 1), topic.topic_id)
    assert partition.log is broker.broker.logs.get(partition.id)


def test_unknown_topics_and_partitions_are_refused(broker: BrokerDriver, partition: LocalPartition) -> None:
    assert refusal(broker, "t", 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(broker, "t", -1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(broker, "u", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(broker, UUID(int=5), 0) is ErrorCode.UNKNOWN_TOPIC_ID
    assert refusal(broker, partition.topic_id, 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_made_again_is_another(broker: BrokerDriver, partition: LocalPartition) -> None:
    assert broker.broker.partitions.get_by_id(partition.topic_id, 1) is partition
    broker.delete("t")
    broker.create("t", partitions=2)
    assert refused(broker.broker.partitions.get_by_id, partition.topic_id, 1).code is ErrorCode.UNKNOWN_TOPIC_ID
    assert broker.broker.partitions.get("t", 1).topic_id != partition.topic_id


def test_a_partition_that_another_broker_leads(broker: BrokerDriver, partition: LocalPartition) -> None:
    broker.broker.partitions._node_id = 2
    broker.broker.partitions.use(broker.broker.image)
    assert refusal(broker, "t", 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_partition_without_its_log(broker: BrokerDriver, partition: LocalPartition) -> None:
    broker.broker.logs.delete_all([partition.id])
    broker.broker.partitions.use(broker.broker.image)
    assert refusal(broker, "t", 1) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_partition_checks_the_leader_epoch(partition: LocalPartition) -> None:
    partition.check_leader_epoch(-1)
    partition.check_leader_epoch(0)
    for claimed, code in ((1, ErrorCode.UNKNOWN_LEADER_EPOCH), (-2, ErrorCode.FENCED_LEADER_EPOCH)):
        assert refused(partition.check_leader_epoch, claimed).code is code


def test_appends_wait_for_the_disk_with_flush_messages(broker: BrokerDriver, partition: LocalPartition) -> None:
    broker.create("flushed", flush_messages="10")
    assert not partition.flushes_on_append
    assert broker.broker.partitions.get("flushed", 0).flushes_on_append


def test_appends_that_look_at_many_records_are_long_work(broker: BrokerDriver) -> None:
    def is_long(partition: LocalPartition, values: list[bytes], **fields: Any) -> bool:
        records = memoryview(batch(*values, **fields))
        return partition.inspects_on_append(records, read_header(records), NOW_MS)

    large, small = [b"x" * 20_000], [b"x"]
    broker.create("plain")
    broker.create("packed", compression_type="zstd")
    broker.create("bounded", message_timestamp_before_max_ms="1000")
    plain, packed, bounded = (broker.broker.partitions.get(topic, 0) for topic in ("plain", "packed", "bounded"))
    assert plain.inspects_on_append(memoryview(message_set(*small)), None, NOW_MS)
    assert [is_long(plain, values) for values in (large, small)] == [False, False]
    assert [is_long(packed, values) for values in (large, small)] == [True, False]
    assert [is_long(bounded, values * 2) for values in (large, small)] == [True, False]
    assert [is_long(each, small * 2, compression=ZSTD) for each in (plain, packed, bounded)] == [False, True, True]
    assert is_long(plain, small, compression=ZSTD, timestamps=NOW_MS + 10**8)


def test_every_append_to_a_log_of_format_v0_is_long_work(broker: BrokerDriver) -> None:
    """It may wait for the lock while another append compresses a message again."""
    broker.passing_for("3.9")
    broker.create("oldest", message_format_version="0.9.0")
    broker.create("old", message_format_version="0.10.2")
    records = memoryview(batch(b"x"))
    found = [
        broker.broker.partitions.get(topic, 0).inspects_on_append(records, read_header(records), NOW_MS)
        for topic in ("oldest", "old")
    ]
    assert found == [True, False]


def test_partitions_that_are_there_and_where_they_are_led(broker: BrokerDriver) -> None:
    broker.create("led", partitions=2)
    partitions = broker.broker.partitions
    assert [partitions.has("led", index) for index in (-1, 0, 1, 2)] == [False, True, True, False]
    assert not partitions.has("missing", 0)
    image = partitions.image_of("led", 1)
    assert image is not None
    assert (image.leader, image.leader_epoch) == (1, 0)
    assert partitions.image_of("missing", 0) is None


def test_appended_bytes_are_counted_once(broker: BrokerDriver) -> None:
    broker.create("counted")
    records = batch(b"a", b"b")
    size = len(records)
    broker.broker.partitions.get("counted", 0).append(records)
    traffic = broker.broker.traffic.topic("counted")
    assert (traffic.bytes_in, traffic.messages_in) == (size, 2)
