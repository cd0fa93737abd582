from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.append.incoming import AppendContext, AppendOrigin, InvalidRecords, ValidatedBatch
from broker_embedded._log.append.validation import validate
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._records.batch import CompressionType, read_header, seal
from spark_kafka_native._records.control import ControlType
from spark_kafka_native._records.conversion import write_batch
from spark_kafka_native._records.record import LogRecord
from tests.support.broker.old_format_log import OldFormatLog
from tests.support.records.log_batches import NOW_MS, batch
from tests.support.records.message_sets import messages_in
from tests.support.records.record_batches import marker
from tests.support.refusals import refused

CODECS = list(CompressionType)
NONE, GZIP, SNAPPY, LZ4, ZSTD = CODECS
COMPACT: dict[str, Any] = {"cleanup_policy": "compact"}


def validated(records: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT, **topic: Any) -> ValidatedBatch:
    config = LogConfig.parse({key.replace("_", "."): value for key, value in topic.items()})
    return validate(
        memoryview(records), AppendContext(config=config, partition="t-0", origin=origin, now_ms=NOW_MS, base_offset=50)
    )


def refusal(records: bytearray, **topic: Any) -> KafkaError:
    error = refused(validated, records, **topic)
    assert error.detail.startswith("t-0: ")
    return error


def keyed(*keys: bytes | None, compression: CompressionType = NONE, time: int = NOW_MS, first: int = 0) -> bytearray:
    records = [LogRecord(first + index, time, key, b"v%d" % index) for index, key in enumerate(keys)]
    return write_batch(records, base_offset=0, compression=compression)


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("codec", CODECS)
def test_the_topics_codec(codec: CompressionType, name: str) -> None:
    wanted = NONE if name == "uncompressed" else CompressionType[name.upper()]
    log = OldFormatLog(compression_type=name)
    sent = batch(b"a", b"b" * 300, compression=codec, producer_id=5, producer_epoch=1, base_sequence=7)
    log.put(sent)  # which is copied, and comes once more below
    log.put(batch(b"c", compression=codec))
    assert [(shape[1], shape[2]) for shape in log.shapes()] == [(wanted, 1), (wanted, 2)]
    assert [record.value for record in log.records()] == [b"a", b"b" * 300, b"c"]
    header = read_header(log.stored())
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 7)
    assert log.put(
        batch(b"a", b"b" * 300, compression=codec, producer_id=5, producer_epoch=1, base_sequence=7)
    ).duplicate


def test_the_topics_codec_leaves_batches_alone_that_have_it() -> None:
    sent = batch(b"a", compression=GZIP)
    found = validated(sent, compression_type="gzip", compression_gzip_level=1)
    assert bytes(found.records) == bytes(sent)
    assert found.header == read_header(sent)


def test_compression_levels_of_recompressed_batches() -> None:
    text = b"".join(b"%d, " % index for index in range(5000))
    sizes = [
        len(validated(batch(text), compression_type="gzip", compression_gzip_level=level).records) for level in (1, 9)
    ]
    assert sizes[0] > sizes[1]


def test_markers_stay_uncompressed() -> None:
    commit = marker(ControlType.COMMIT, 5)
    found = validated(commit, AppendOrigin.COORDINATOR, compression_type="zstd")
    assert bytes(found.records) == bytes(commit)


def test_headers_survive_another_codec() -> None:
    records = [LogRecord(0, NOW_MS, b"k", b"v", b"\x02\x02h\x02x")]
    found = validated(write_batch(records, base_offset=0), compression_type="zstd")
    assert messages_in(found.records) == records


@pytest.mark.parametrize("codec", CODECS)
def test_a_compacted_topic_looks_at_keys_and_changes_nothing(codec: CompressionType) -> None:
    good = keyed(b"a", b"", b"c", compression=codec)
    assert bytes(validated(good, **COMPACT).records) == bytes(good)
    error = refusal(keyed(b"a", None, None, compression=codec), **COMPACT)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [record.batch_index for record in error.record_errors] == [1, 2]


@pytest.mark.parametrize("codec", CODECS)
def test_a_timestamp_in_the_middle_is_found_where_there_is_a_bound(codec: CompressionType) -> None:
    times = [NOW_MS, NOW_MS - 1000, NOW_MS]
    records = batch(b"a", b"b", b"c", timestamps=times, compression=codec)
    assert bytes(validated(records, message_timestamp_before_max_ms=1000).records) == bytes(records)
    error = refusal(records, message_timestamp_before_max_ms=999)
    assert isinstance(error, InvalidRecords)
    assert (error.code, [record.batch_index for record in error.record_errors]) == (ErrorCode.INVALID_TIMESTAMP, [1])


def test_wrong_header_fields_are_repaired_where_records_are_decoded() -> None:
    lies = bytearray(keyed(b"a", b"b"))
    lies[35:43] = (NOW_MS + 5).to_bytes(8, "big")  # the largest timestamp
    seal(lies)
    header = read_header(validated(lies, **COMPACT).records)
    assert (header.max_timestamp, header.records_count) == (NOW_MS, 2)
    gaps = write_batch([LogRecord(1, NOW_MS, b"a", None), LogRecord(1, NOW_MS, b"b", None)], base_offset=0)
    assert [record.offset for record in messages_in(validated(gaps, **COMPACT).records)] == [50, 51]


@pytest.mark.parametrize("count", [1, 3])
def test_a_wrong_number_of_records_is_noticed_where_they_are_looked_at(count: int) -> None:
    wrong = keyed(b"a" * 20, b"b")
    wrong[57:61] = count.to_bytes(4, "big")
    wrong[23:27] = (count - 1).to_bytes(4, "big")
    seal(wrong)
    validated(wrong)  # a header alone does not tell
    assert refusal(wrong, **COMPACT).code is ErrorCode.INVALID_RECORD


def test_a_payload_that_does_not_decompress() -> None:
    bad = keyed(b"a" * 100, compression=GZIP)
    bad[75] ^= 1
    seal(bad)
    assert refusal(bad, **COMPACT).code is ErrorCode.CORRUPT_MESSAGE


def test_batches_are_converted_to_messages() -> None:
    log = OldFormatLog(message_format_version="0.10.2")
    for sent in (keyed(b"a", b"b"), keyed(b"c", compression=GZIP), keyed(b"d")):
        log.put(sent)
    assert [(record.offset, record.key) for record in log.records()] == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert [shape[:2] for shape in log.shapes()] == [(1, NONE), (1, NONE), (1, GZIP), (1, NONE)]


@pytest.mark.parametrize("codec", CODECS[:-1])
@pytest.mark.parametrize("magic", [0, 1])
def test_into_an_old_format(magic: int, codec: CompressionType) -> None:
    log = OldFormatLog(message_format_version=("0.9.0", "0.10.2")[magic])
    for start in (0, 3):
        values = [b"%d" % index for index in range(start, start + 3)]
        result = log.put_batch(*values, compression=codec)
        assert (result.base_offset, result.last_offset) == (start, start + 2)
    assert log.records() == [LogRecord(index, NOW_MS if magic else -1, None, b"%d" % index) for index in range(6)]
    assert {shape[:2] for shape in log.shapes()} == {(magic, codec)}
    assert log.log.epochs.latest is None


@pytest.mark.parametrize(
    ("records", "code", "why"),
    [
        (batch(b"a", compression=ZSTD), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "no zstd"),
        (
            batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0),
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            "producer id 5",
        ),
        (
            write_batch([LogRecord(0, NOW_MS, None, b"v", b"\x02\x02h\x02x")], base_offset=0),
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            "headers",
        ),
        (batch(b"a", timestamps=-7), ErrorCode.INVALID_TIMESTAMP, "before 1970"),
    ],
)
@pytest.mark.parametrize("release", ["0.9.0", "0.10.2"])
def test_headers_and_producer_ids_are_refused_in_old_formats(
    records: bytearray, code: ErrorCode, why: str, release: str
) -> None:
    error = refusal(bytearray(records), message_format_version=release)
    assert (error.code, why in error.detail) == (code, True), error.detail


def test_transactions_are_refused_in_old_formats() -> None:
    records = batch(b"a", transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)
    with pytest.raises(KafkaError, match=r"records of a transaction.*\(UNSUPPORTED_FOR_MESSAGE_FORMAT, "):
        validated(records, AppendOrigin.COORDINATOR, message_format_version="0.10.2")


def test_the_brokers_time_over_another_codec_and_format() -> None:
    for topic in ({"compression_type": "zstd"}, {"message_format_version": "0.10.2", "compression_type": "gzip"}):
        log = OldFormatLog(message_timestamp_type="LogAppendTime", **topic)
        assert log.put_batch(b"a", b"b", timestamps=5).log_append_time_ms == NOW_MS
        assert [record.timestamp for record in log.records()] == [NOW_MS, NOW_MS]


def test_a_batch_that_grows_by_recompression_is_measured_again() -> None:
    small = batch(b"x" * 1000, compression=GZIP)
    error = refusal(small, compression_type="uncompressed", max_message_bytes=500)
    assert (error.code, "converted to the topic's codec" in error.detail) == (ErrorCode.MESSAGE_TOO_LARGE, True)


@given(
    codec=st.sampled_from(CODECS),
    settings_of_topic=st.sampled_from(
        [
            {"cleanup.policy": "compact"},
            {"compression.type": "gzip"},
            {"compression.type": "uncompressed"},
            {"message.format.version": "0.10.2"},
            {"message.format.version": "0.9.0"},
        ]
    ),
    damage=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
)
@settings(max_examples=200)
def test_random_bytes_are_refused_or_stored_readable(
    codec: CompressionType, settings_of_topic: dict[str, str], damage: list[tuple[int, int]]
) -> None:
    raw = keyed(b"a", b"b" * 60, b"", compression=codec)
    for at, byte in damage:
        raw[61 + at % (len(raw) - 61)] = byte
    seal(raw)
    log = OldFormatLog(**{key.replace(".", "_"): value for key, value in settings_of_topic.items()})
    code = None
    try:
        log.put(raw)
    except KafkaError as error:
        code = error.code
    assert code in {
        None,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
    offsets = [record.offset for record in log.records()]
    assert offsets == ([0, 1, 2] if code is None else [])
