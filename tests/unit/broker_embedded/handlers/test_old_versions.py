from typing import Any

import pytest

from broker_embedded._handlers.support.registry import CloseConnection
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import PartitionData
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsPartitionResponse
from spark_kafka_native._protocol.messages.produce import PartitionProduceResponse
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import CompressionType
from spark_kafka_native._records.conversion import write_batch
from spark_kafka_native._records.legacy import CODECS
from spark_kafka_native._records.record import LogRecord
from tests.support.broker.driver import BrokerDriver, batch, commit_offset, produce_request
from tests.support.broker.log_driver import batches_of
from tests.support.records.log_batches import NOW_MS
from tests.support.records.message_sets import entry, message_set, messages_in, shapes
from tests.support.requests.of_topic import list_offsets

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
RELEASES = ["0.8.2", "0.9", "0.10.0", "0.10.2", "0.11", "2.8", "3.9"]
MAGICS = {"0.8.2": 0, "0.9": 0, "0.10.0": 1, "0.10.2": 1}
"""Of the releases that do not write record batches."""


@pytest.fixture
def old(broker: BrokerDriver) -> BrokerDriver:
    """A broker that passes for one of the last releases that still serve old versions, with a topic t."""
    broker.passing_for("3.9")
    broker.create("t")
    return broker


def topic(broker: BrokerDriver, release: str) -> BrokerDriver:
    """The broker as of another release, with a topic t, though that release may not know CreateTopics."""
    broker.create("t")
    return broker.passing_for(release)


def code(response: PartitionProduceResponse | PartitionData | ListOffsetsPartitionResponse) -> ErrorCode:
    return ErrorCode.of(response.error_code)


def raw(data: PartitionData) -> bytes:
    assert data.error_code == 0, data
    return bytes(data.records or b"")  # type: ignore[arg-type]  # as a client gets them


def fetched(broker: BrokerDriver, offset: int = 0, *, version: int, **others: Any) -> list[LogRecord]:
    return messages_in(raw(broker.fetch("t", offset, version=version, **others)))


def consumed(broker: BrokerDriver, **options: Any) -> list[LogRecord]:
    """All records, as a consumer reads them."""
    found: list[LogRecord] = []
    while more := [message for message in fetched(broker, len(found), **options) if message.offset >= len(found)]:
        found += more
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("release", RELEASES)
def test_a_producer_and_a_consumer_of_each_release(broker: BrokerDriver, release: str, codec: CompressionType) -> None:
    topic(broker, release)
    versions = broker.broker.config.release.served(0)
    sent_by = [version for version in range(3) if version in versions]
    for index, version in enumerate(sent_by):
        magic = 1 if version == 2 else 0
        response = broker.produce("t", message_set(b"a", b"b", magic=magic, compression=codec), version=version)
        assert (code(response), response.base_offset) == (ErrorCode.NONE, 2 * index)
    values = [b"a", b"b"] * len(sent_by)
    for version in range(4):
        if version in broker.broker.config.release.served(1):
            found = consumed(broker, version=version)
            assert [message.value for message in found] == values
            assert [message.offset for message in found] == list(range(len(values)))
            magic = min(MAGICS.get(release, 2), 0 if version < 2 else 1)
            assert {shape[:2] for shape in shapes(raw(broker.fetch("t", version=version)))} == {(magic, codec)}
    stored = MAGICS.get(release, 2)
    assert {shape[0] for shape in shapes(raw(broker.passing_for("4.0").fetch("t")))} == {stored}


def test_responses_have_the_fields_of_their_version(old: BrokerDriver) -> None:
    old.run(old.broker.close())
    old.settings["log.message.timestamp.type"] = "LogAppendTime"
    old.open()
    for version, time in ((0, -1), (1, -1), (2, NOW_MS)):
        response = old.produce("t", message_set(b"a"), version=version)
        assert (response.log_append_time_ms, response.log_start_offset) == (time, -1)
    assert {message.timestamp for message in fetched(old, version=2)} == {NOW_MS}


def test_a_release_of_today_closes_the_connection(broker: BrokerDriver) -> None:
    broker.create("t")
    for version in range(3):
        with pytest.raises(CloseConnection):
            broker.produce("t", message_set(b"a"), version=version)
        with pytest.raises(CloseConnection):
            broker.fetch("t", version=version)
    assert broker.values("t") == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_record_batches_may_come_in_old_versions_too(old: BrokerDriver, version: int) -> None:
    assert old.produce("t", batch(b"a"), version=version).base_offset == 0
    assert code(old.produce("t", bytes(batch(b"a")) * 2, version=version)) is ErrorCode.INVALID_RECORD
    zstd = write_batch([LogRecord(0, NOW_MS, None, b"z")], base_offset=0, compression=ZSTD)
    assert old.produce("t", zstd, version=version).base_offset == 1
    assert old.values("t") == [b"a", b"z"]


@pytest.mark.parametrize("records", [b"", message_set(b"a")[:-1], message_set(b"a")[:15], batch(b"a")[:-1]])
def test_a_produce_without_a_whole_message_appends_nothing(old: BrokerDriver, records: bytes) -> None:
    response = old.produce("t", records, version=2)
    assert (code(response), response.base_offset) == (ErrorCode.NONE, -1)
    assert old.run(old.begin(produce_request("t", records, acks=0), 2)) is None
    assert old.values("t") == []


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (bytes(50), ErrorCode.CORRUPT_MESSAGE),
        (entry(crc=5), ErrorCode.CORRUPT_MESSAGE),
        (entry(attributes=4), ErrorCode.INVALID_RECORD),
        (entry(attributes=4, crc=5), ErrorCode.CORRUPT_MESSAGE),
        (entry(attributes=8), ErrorCode.INVALID_TIMESTAMP),
        (entry(magic=7), ErrorCode.CORRUPT_MESSAGE),
        (message_set(b"a", compression=GZIP) * 2, ErrorCode.INVALID_RECORD),
        (message_set(b"x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_bad_message_sets_are_refused_with_a_code(
    old: BrokerDriver, records: bytes | None, expected: ErrorCode
) -> None:
    response = old.produce("t", records, version=2)
    assert (code(response), response.base_offset) == (expected, -1)
    assert old.values("t") == []
    with pytest.raises(CloseConnection, match=f"acks=0 failed: t-0: {expected.name}"):
        old.run(old.begin(produce_request("t", records, acks=0), 2))


@pytest.mark.parametrize("version", [3, 9, 12])
def test_message_sets_are_not_for_new_versions(broker: BrokerDriver, version: int) -> None:
    broker.create("t")
    assert code(broker.produce("t", message_set(b"a" * 50), version=version)) is ErrorCode.INVALID_RECORD


def test_large_sets_are_converted_beside_the_event_loop(old: BrokerDriver) -> None:
    values = [b"%05d" % index * 20 for index in range(1000)]
    assert old.produce("t", message_set(*values), version=2).base_offset == 0
    assert old.values("t") == values


def test_records_to_blame_are_named_from_v8_on(broker: BrokerDriver) -> None:
    broker.create("t", cleanup_policy="compact", message_timestamp_before_max_ms="1000")
    records = [
        LogRecord(0, NOW_MS, b"k", b"a"),
        LogRecord(1, NOW_MS, None, b"b"),
        LogRecord(2, NOW_MS - 1001, b"k", b"c"),
    ]
    sent = bytes(write_batch(records, base_offset=0))
    response = broker.produce("t", sent, version=8)
    assert code(response) is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in response.record_errors] == [1, 2]
    first, second = (error.batch_index_error_message or "" for error in response.record_errors)
    assert "without a key" in first
    assert "message.timestamp.before.max.ms" in second
    assert response.error_message is not None
    assert response.error_message.startswith("t-0: record 1: ")
    old_response = broker.produce("t", sent, version=7)
    assert (code(old_response), old_response.record_errors) == (ErrorCode.INVALID_TIMESTAMP, ())
    unkeyed = bytes(write_batch(records[1:2], base_offset=0))
    assert code(broker.produce("t", unkeyed, version=9)) is ErrorCode.INVALID_RECORD
    assert broker.values("t") == []


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topics_codec(broker: BrokerDriver, name: str) -> None:
    broker.create("t", compression_type=name)
    large = [b"%06d" % index * 20 for index in range(300)]
    broker.produce("t", batch(b"a", b"b"))
    broker.produce("t", write_batch([LogRecord(i, NOW_MS, None, v) for i, v in enumerate(large)], base_offset=0))
    assert broker.values("t") == [b"a", b"b", *large]
    wanted = NONE if name == "uncompressed" else CompressionType[name.upper()]
    assert {shape[1] for shape in shapes(raw(broker.fetch("t")))} == {wanted}


def test_zstd_is_not_for_old_consumers(old: BrokerDriver) -> None:
    old.produce("t", batch(b"a"))
    old.produce("t", write_batch([LogRecord(0, NOW_MS, None, b"z")], base_offset=0, compression=ZSTD))
    for version in range(4):
        assert [message.value for message in fetched(old, version=version)] == [b"a"]
        refused = old.fetch("t", 1, version=version)
        assert (code(refused), refused.high_watermark) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1)
    assert [message.value for message in fetched(old, 1, version=4)] == [b"z"]


def test_a_topic_that_does_not_convert(old: BrokerDriver) -> None:
    old.create("u", message_downconversion_enable="false")
    old.produce("u", batch(b"a"))
    for version in range(4):
        assert code(old.fetch("u", version=version)) is ErrorCode.UNSUPPORTED_VERSION
    assert messages_in(raw(old.fetch("u", version=4)))


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_limits_of_old_consumers(old: BrokerDriver, version: int) -> None:
    for index in range(4):
        old.produce("t", batch(*[b"%d" % index * 50] * 5))
    found = consumed(old, version=version, max_partition=200)
    assert [message.offset for message in found] == list(range(20))


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_out_of_range_and_missing(old: BrokerDriver, version: int) -> None:
    assert code(old.fetch("t", 5, version=version)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert code(old.fetch("t", 0, 1, version=version)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert raw(old.fetch("t", 0, version=version)) == b""


def test_consumers_of_today_get_old_formats_as_they_are(broker: BrokerDriver) -> None:
    topic(broker, "0.10.2")
    sent = bytes(message_set(b"a", b"b", compression=GZIP))
    broker.produce("t", sent, version=2)
    broker.passing_for("4.0")
    assert raw(broker.fetch("t", version=11)) == sent


def offsets_before(broker: BrokerDriver, time: int, most: int = 10, **others: Any) -> ListOffsetsPartitionResponse:
    request = list_offsets("t", time, others.pop("partition", 0), most=most, **others)
    (found,) = broker.ask(request, 0).topics[0].partitions
    return found


def test_lists_of_offsets(old: BrokerDriver) -> None:
    assert offsets_before(old, -1).old_style_offsets == (0,)
    log = old.broker.partitions.get("t", 0).log
    for _ in range(3):
        old.produce("t", batch(b"a", b"b"))
        log.local.roll()
    old.produce("t", batch(b"c"))
    assert offsets_before(old, -1).old_style_offsets == (7, 6, 4, 2, 0)
    assert offsets_before(old, -1, 2).old_style_offsets == (7, 6)
    assert offsets_before(old, -1, 0).old_style_offsets == ()
    assert offsets_before(old, -1, -5).old_style_offsets == ()
    assert offsets_before(old, -2).old_style_offsets == (0,)
    assert offsets_before(old, NOW_MS).old_style_offsets == (7, 6, 4, 2, 0)
    assert offsets_before(old, 1).old_style_offsets == ()
    assert offsets_before(old, -1, replica_id=-2).old_style_offsets == (7, 6, 4, 2, 0)


def test_lists_of_offsets_that_cannot_be(old: BrokerDriver) -> None:
    assert code(offsets_before(old, -3)) is ErrorCode.UNSUPPORTED_VERSION
    assert code(offsets_before(old, -1, partition=1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_there_are_no_times_in_format_v0(broker: BrokerDriver) -> None:
    topic(broker, "0.9")
    broker.produce("t", message_set(b"a", magic=0), version=0)
    broker.run(broker.broker.close())
    broker.settings |= {"as.version": "2.8", "log.message.format.version": "0.9.0"}
    broker.open()

    def look_up(time: int) -> ListOffsetsPartitionResponse:
        return broker.ask(list_offsets("t", time), 1).topics[0].partitions[0]

    assert code(look_up(NOW_MS)) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert [look_up(time).offset for time in (-1, -2)] == [1, 0]


@pytest.mark.parametrize("release", ["0.9", "0.10.2"])
def test_offsets_are_kept_in_the_format_of_their_time(broker: BrokerDriver, release: str) -> None:
    topic(broker, release)
    for offset in range(5):
        assert commit_offset(broker, offset, version=2) == 0
    for reopen in (broker.restart, broker.crash, lambda: broker.passing_for("4.3")):
        reopen()
        logs = [broker.broker.partitions.get("__consumer_offsets", index).log for index in range(3)]
        assert {header.magic for log in logs for header, _ in batches_of(log)} == {MAGICS[release]}
        topic_id = broker.topic_id("t")
        value = broker.broker.groups.offsets.committed("g", TopicPartition("t", 0), topic_id)
        assert value is not None
        assert value.offset == 4
