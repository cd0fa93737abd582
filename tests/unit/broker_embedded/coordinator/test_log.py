import logging
from pathlib import Path

import pytest

from broker_embedded._coordinator.log import Appended, CoordinatorLog, Within, partition_for
from broker_embedded._records.coordinator_record import CoordinatorRecord, encode_batch
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._records.batch import NO_SEQUENCE, RECORD_BATCH_OVERHEAD, seal
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem
from tests.support.broker.driver import BrokerDriver, fetch_request
from tests.support.broker.log_driver import batches_of
from tests.support.refusals import refused

RECORD = CoordinatorRecord(key=b"k", value=b"v")


def log_of(broker: BrokerDriver) -> CoordinatorLog:
    return broker.broker.groups.log


def test_the_topic_is_made_when_it_is_needed_as_kafka_makes_it(broker: BrokerDriver) -> None:
    assert broker.broker.image.topics == {}
    for _ in range(2):
        broker.run(log_of(broker).make_ready())
    topic = broker.broker.image.topics["__consumer_offsets"]
    assert len(topic.partitions) == 3
    assert dict(topic.configs) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


def test_when_the_topic_cannot_be_made_the_client_is_to_try_again() -> None:
    faults = FaultyFileSystem(MemoryFileSystem())
    with BrokerDriver(Path("/data"), file_system=faults) as broker:
        faults.fail("make_directory __consumer_offsets-*")
        error = refused(broker.run, log_of(broker).make_ready())
        assert error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert error.retriable
        faults.heal()
        broker.run(log_of(broker).make_ready())


def test_records_come_back_partition_by_partition(broker: BrokerDriver) -> None:
    log = log_of(broker)
    assert list(log.records()) == []
    broker.run(log.make_ready())
    for group in "abc":
        log.append(group, [RECORD, CoordinatorRecord(key=group.encode(), value=None)])
    order = sorted("abc", key=lambda group: partition_for(group, 3))
    assert [record.key for record in log.records()] == [key for group in order for key in (b"k", group.encode())]


def test_only_the_last_record_of_a_key_is_returned_in_log_order(broker: BrokerDriver) -> None:
    log = log_of(broker)
    broker.run(log.make_ready())
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"a", b"4"), (b"b", None)):
        log.append("g", [CoordinatorRecord(key=key, value=value)])
    assert [(record.key, record.value) for record in log.records()] == [(b"c", b"3"), (b"a", b"4"), (b"b", None)]


@pytest.mark.parametrize("flush", [False, True])
def test_an_append_returns_its_offset_and_may_be_transactional(broker: BrokerDriver, flush: bool) -> None:
    log = log_of(broker)
    broker.run(log.make_ready())

    def append(within: Within | None, *keys: bytes) -> Appended:
        records = [CoordinatorRecord(key=key, value=b"v") for key in keys]
        if flush:
            return broker.run(log.append_on_disk("g", records, within))
        return log.append("g", records, within)

    index = log.partition_of("g").partition
    producer = ProducerIdAndEpoch(producer_id=7, epoch=3)
    assert not log.is_in_transaction("g", producer)
    assert append(None, b"a", b"b") == (index, 0)
    assert append(Within(producer), b"b", b"c") == (index, 2)
    assert log.is_in_transaction("g", producer)
    assert not log.is_in_transaction("g", ProducerIdAndEpoch(producer_id=7, epoch=4))
    assert append(None, b"d") == (index, 4)
    stored = [header for header, _ in batches_of(broker.broker.partitions.get("__consumer_offsets", index).log)]
    producers = [(header.producer_id, header.producer_epoch, header.is_transactional) for header in stored]
    assert producers == [(-1, -1, False), (7, 3, True), (-1, -1, False)]
    assert stored[1].base_sequence == NO_SEQUENCE
    found = [(where, logged.record.key, logged.offset, logged.producer_id) for where, logged in log.logged()]
    assert found == [
        (index, b"a", 0, None),
        (index, b"b", 1, None),
        (index, b"b", 2, 7),
        (index, b"c", 3, 7),
        (index, b"d", 4, None),
    ]
    assert [record.key for record in log.records()] == [b"a", b"b", b"d"]


@pytest.mark.parametrize("flush", [False, True])
def test_an_append_that_fails_is_answered_with_the_coordinators_error_code(flush: bool) -> None:
    faults = FaultyFileSystem(MemoryFileSystem())
    settings = {"log.flush.interval.messages": 1} if flush else {}
    with BrokerDriver(Path("/data"), {**settings, "message.max.bytes": 300}, file_system=faults) as broker:
        log = log_of(broker)

        def append(record: CoordinatorRecord) -> ErrorCode:
            try:
                if flush:
                    broker.run(log.append_on_disk("g", [record]))
                else:
                    log.append("g", [record])
            except KafkaError as error:
                return error.code
            return ErrorCode.NONE

        assert not log.waits_for_disk("g")
        assert append(RECORD) is ErrorCode.COORDINATOR_NOT_AVAILABLE  # there is no such topic yet
        broker.run(log.make_ready())
        assert log.waits_for_disk("g") is flush
        assert append(CoordinatorRecord(key=b"k", value=b"x" * 300)) is ErrorCode.UNKNOWN_SERVER_ERROR
        faults.fail("write *.log")
        assert append(RECORD) is ErrorCode.NOT_COORDINATOR
        faults.heal()


def test_waiting_fetches_of_the_topic_are_answered_after_an_append(broker: BrokerDriver) -> None:
    log = log_of(broker)
    broker.run(log.make_ready())
    for group in "gh":
        index = partition_for(group, 3)
        waiting = broker.pending(fetch_request("__consumer_offsets", 0, index, max_wait_ms=30_000, min_bytes=1), 11)
        if group == "g":
            log.append(group, [RECORD])
        else:
            broker.run(log.append_on_disk(group, [RECORD]))
        broker.settle()
        assert waiting.done()


def test_a_batch_that_cannot_be_read_costs_the_rest_of_its_partition(
    broker: BrokerDriver, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create("__consumer_offsets", partitions=3)  # not compacted: its batches are not decoded at an append
    log = log_of(broker)
    for group in "ab":
        log.append(group, [RECORD])
    damaged = encode_batch([RECORD], broker.clock.now_ms())
    damaged[RECORD_BATCH_OVERHEAD] = 0x7F  # an impossible length of the first record
    seal(damaged)
    broker.broker.partitions.get("__consumer_offsets", partition_for("a", 3)).append(damaged)
    log.append("a", [RECORD])
    with caplog.at_level(logging.ERROR):
        assert len(list(log.records())) == 2
    assert f"the rest of __consumer_offsets-{partition_for('a', 3)} cannot be read, ignored" in caplog.text


def test_a_log_that_an_old_broker_wrote_is_read_too(broker: BrokerDriver) -> None:
    broker.passing_for("3.9")
    broker.create("__consumer_offsets", 3, cleanup_policy="compact", message_format_version="0.10.0")
    records = [RECORD, CoordinatorRecord(key=b"l", value=None)]
    log_of(broker).append("g", records)
    log = broker.broker.partitions.get("__consumer_offsets", partition_for("g", 3)).log
    assert {header.magic for header, _ in batches_of(log)} == {1}
    assert list(log_of(broker).records()) == records


@pytest.mark.parametrize(
    ("name", "partition"),
    # Java: Math.abs("...".hashCode()) % 50, computed by a JVM; the last hash is Integer.MIN_VALUE, which counts as 0.
    [("", 0), ("g", 3), ("console-consumer-12345", 6), ("grüße", 23), ("😀 group", 6), ("polygenelubricants", 0)],
)
def test_ids_live_where_kafka_puts_them(name: str, partition: int) -> None:
    assert (partition_for(name, 50), partition_for(name, 1)) == (partition, 0)
