import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._records.batch import CompressionType, TimestampType
from spark_kafka_native._records.compression import compress
from spark_kafka_native._records.formats import iter_any
from spark_kafka_native._records.legacy import CODECS, read_message
from spark_kafka_native._records.record import LogRecord
from tests.support.broker.log_driver import offset_for_timestamp
from tests.support.broker.old_format_log import OldFormatLog
from tests.support.records.log_batches import NOW_MS, batch
from tests.support.records.message_sets import entry, message_set
from tests.support.refusals import refused

OLD = {0: "0.9.0", 1: "0.10.2"}
NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType


def log_of(magic: int, **settings: object) -> OldFormatLog:
    return OldFormatLog(**({"message_format_version": OLD[magic]} if magic in OLD else {}), **settings)


def refusal(log: OldFormatLog, records: bytes | bytearray) -> tuple[ErrorCode, str]:
    before = bytes(records)
    error = refused(log.put, records)
    assert records == before
    assert log.log.log_end_offset == 0
    assert log.log.local.size_in_bytes == 0
    assert error.detail.startswith("t-0: ")
    return error.code, error.detail


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_the_topics_own_format(magic: int, codec: CompressionType) -> None:
    log = log_of(magic)
    sent = []
    for start in (0, 3):
        values = [b"%d" % index for index in range(start, start + 3)]
        sent.append(bytes(message_set(*values, magic=magic, compression=codec)))
        result = log.put(sent[-1])
        assert (result.base_offset, result.last_offset, result.log_append_time_ms) == (start, start + 2, -1)
    assert log.records() == [LogRecord(index, NOW_MS if magic else -1, None, b"%d" % index) for index in range(6)]
    assert log.shapes() == (
        [(magic, codec, 2), (magic, codec, 5)] if codec else [(magic, NONE, index) for index in range(6)]
    )
    if not (magic == 0 and codec):  # only there do the bytes inside change, for their offsets are absolute
        stored = log.stored()
        without_offsets = [raw[at + 8 : at + header.size_in_bytes] for raw in sent for at, header in iter_any(raw)]
        assert [stored[at + 8 : at + header.size_in_bytes] for at, header in iter_any(stored)] == without_offsets


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("stored", [0, 1, 2])
@pytest.mark.parametrize("sent", [0, 1])
def test_a_message_set_is_converted_to_the_topics_format(sent: int, stored: int, codec: CompressionType) -> None:
    log = log_of(stored)
    times = [NOW_MS + 5, NOW_MS + 9, NOW_MS]
    keys = [b"k", None, b""]
    log.put(message_set(b"first", magic=sent, compression=codec))
    log.put(message_set(b"a", None, b"", magic=sent, compression=codec, timestamps=times, keys=keys))
    kept = [NOW_MS, *times] if sent and stored else [-1] * 4
    assert log.records() == [
        LogRecord(0, kept[0], None, b"first"),
        LogRecord(1, kept[1], b"k", b"a"),
        LogRecord(2, kept[2], None, None),
        LogRecord(3, kept[3], b"", b""),
    ]
    expected = [(stored, codec, 0), (stored, codec, 3)]
    if stored < 2 and not codec:
        expected = [(stored, codec, offset) for offset in range(4)]
    assert log.shapes() == expected
    last = list(iter_any(log.stored()))[-1][1]
    if stored == 2:
        assert (last.base_offset, last.partition_leader_epoch, last.records_count) == (1, 3, 3)
        assert (last.base_timestamp, last.max_timestamp) == (kept[1], max(kept[1:]))


@pytest.mark.parametrize("codec", CODECS)
def test_the_brokers_time(codec: CompressionType) -> None:
    for magic in (0, 1, 2):
        log = log_of(magic, message_timestamp_type="LogAppendTime")
        log.clock.advance(1000)
        result = log.put(message_set(b"a", b"b", magic=1, compression=codec, timestamps=5))
        assert result.log_append_time_ms == NOW_MS + 1000
        assert [record.timestamp for record in log.records()] == ([NOW_MS + 1000] * 2 if magic else [-1, -1])
        types = {header.timestamp_type for _, header in iter_any(log.stored())}
        assert types == {TimestampType.LOG_APPEND_TIME if magic else TimestampType.NO_TIMESTAMP_TYPE}


def test_a_wrapper_with_another_time_than_its_largest_gets_that() -> None:
    """As some producers send them: 0."""
    inner = bytes(message_set(b"a", b"b", timestamps=[NOW_MS, NOW_MS + 7]))
    log = log_of(1)
    log.put(entry(offset=1, attributes=GZIP, timestamp=0, key=None, value=compress(GZIP, inner)))
    assert read_message(log.stored()).max_timestamp == NOW_MS + 7
    assert [record.timestamp for record in log.records()] == [NOW_MS, NOW_MS + 7]
    found = offset_for_timestamp(log.log, None)
    assert found is not None
    assert (found.offset, found.timestamp) == (1, NOW_MS + 7)


@pytest.mark.parametrize("offsets", [[0, 0], [5, 6], [1, 0], [0, 2]])
def test_offsets_inside_that_do_not_count_from_0_are_rewritten(offsets: list[int]) -> None:
    inner = b"".join(entry(offset=offset, value=b"%d" % index) for index, offset in enumerate(offsets))
    log = log_of(1)
    log.put(entry(offset=offsets[-1], attributes=SNAPPY, key=None, value=compress(SNAPPY, inner)))
    log.put(message_set(b"2"))
    assert [(record.offset, record.value) for record in log.records()] == [(0, b"0"), (1, b"1"), (2, b"2")]
    assert [shape[:2] for shape in log.shapes()] == [(1, SNAPPY), (1, NONE)]


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_the_topics_codec(magic: int, codec: CompressionType, name: str) -> None:
    log = log_of(magic, compression_type=name)
    log.put(message_set(b"a", b"b", magic=1, compression=codec))
    assert [record.value for record in log.records()] == [b"a", b"b"]
    wanted = NONE if name == "uncompressed" else CompressionType[name.upper()]
    assert {shape[1] for shape in log.shapes()} == {wanted}


def test_a_message_that_is_cut_off_is_left_out() -> None:
    raw = message_set(b"a", b"b", b"c")
    for missing in (1, 20, 34):
        log = log_of(1)
        assert log.put(raw[:-missing]).last_offset == 1
        assert [record.value for record in log.records()] == [b"a", b"b"]
        log.put(raw)
        assert log.log.log_end_offset == 5
    assert refusal(log_of(1), raw[:30])[0] is ErrorCode.INVALID_RECORD


def test_many_messages_take_an_index_entry_as_often_as_batches_do() -> None:
    log = log_of(1, index_interval_bytes=1000)
    log.put(message_set(*[b"x" * 100] * 200))
    log.reopen()
    assert 20 <= log.files()["00000000000000000000.index"] / 8 <= 28
    for offset in range(200):
        assert log.records(offset)[0].offset == offset


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_bit_is_corrupt(magic: int, codec: CompressionType) -> None:
    raw = message_set(b"a", magic=magic, compression=codec)
    for at in range(12, len(raw)):
        if at != 16:  # the magic: another format's, or none
            bad = bytearray(raw)
            bad[at] ^= 1
            assert refusal(log_of(magic), bad)[0] is ErrorCode.CORRUPT_MESSAGE


def wrapped(*inner: bytes, codec: CompressionType = GZIP, **fields: Any) -> bytes:
    value = compress(codec, b"".join(inner))
    return entry(**{"offset": len(inner) - 1, "attributes": codec, "key": None, "value": value, **fields})


@pytest.mark.parametrize(
    ("records", "code", "why"),
    [
        (
            message_set(b"a") + message_set(b"b", magic=0),
            ErrorCode.INVALID_RECORD,
            "a message of format v0 follows one of format v1",
        ),
        (message_set(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD, "a message of format v2 follows one of format v1"),
        (message_set(b"a", compression=GZIP) * 2, ErrorCode.INVALID_RECORD, "must be alone"),
        (message_set(b"a") + message_set(b"b", compression=GZIP), ErrorCode.INVALID_RECORD, "must be alone"),
        (message_set(b"a", compression=GZIP) + message_set(b"b"), ErrorCode.INVALID_RECORD, "must be alone"),
        (wrapped(wrapped(entry())), ErrorCode.INVALID_RECORD, "inside a compressed message"),
        (wrapped(entry(magic=0, value=b"long enough")), ErrorCode.INVALID_RECORD, "magic 0 inside one of format v1"),
        (wrapped(entry(crc=5)), ErrorCode.CORRUPT_MESSAGE, "CRC-32 of the message is"),
        (wrapped(entry(offset=9), offset=5), ErrorCode.INVALID_RECORD, "the last offset inside"),
        (wrapped(), ErrorCode.INVALID_RECORD, "no message inside"),
        (entry(attributes=1, value=None), ErrorCode.INVALID_RECORD, "without a value"),
        (entry(attributes=1, value=b"nonsense"), ErrorCode.CORRUPT_MESSAGE, "gzip"),
        (entry(attributes=4), ErrorCode.INVALID_RECORD, "codec 4"),
        (entry(attributes=7, magic=0), ErrorCode.INVALID_RECORD, "codec 7"),
        (entry(attributes=4, crc=5), ErrorCode.CORRUPT_MESSAGE, "codec 4"),
        (entry(attributes=8), ErrorCode.INVALID_TIMESTAMP, "LogAppendTime"),
        (entry(timestamp=NOW_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP, "message.timestamp.after.max.ms"),
        (message_set(b"a") + bytes(60), ErrorCode.CORRUPT_MESSAGE, "length 0"),
        (message_set(b"x" * 3000), ErrorCode.MESSAGE_TOO_LARGE, "max.message.bytes is 2000"),
    ],
)
@pytest.mark.parametrize("magic", [1, 2])
def test_invalid_message_sets_are_refused(records: bytes, code: ErrorCode, why: str, magic: int) -> None:
    found, detail = refusal(log_of(magic, max_message_bytes=2000), records)
    assert (found, why in detail) == (code, True), detail


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_a_compacted_topic_needs_keys(magic: int, codec: CompressionType) -> None:
    log = log_of(magic, cleanup_policy="compact")
    keys = [b"k", None, b"k"]
    code, detail = refusal(log, message_set(b"a", b"b", b"c", keys=keys, compression=codec))
    assert (code, "record 1: " in detail) == (ErrorCode.INVALID_RECORD, True)
    log.put(message_set(b"a", keys=[b"k"], compression=codec))
    assert log.log.log_end_offset == 1


def test_a_codec_that_the_format_does_not_have() -> None:
    code, detail = refusal(log_of(1, compression_type="zstd"), message_set(b"a"))
    assert (code, "message format v1 has no zstd" in detail) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, True)
    OldFormatLog(compression_type="zstd").put(message_set(b"a"))


def test_negative_times_do_not_fit_elsewhere() -> None:
    log = log_of(1)
    log.put(message_set(b"a", timestamps=-5))
    assert log.records()[0].timestamp == -5
    assert refusal(log_of(2), message_set(b"a", timestamps=-5))[0] is ErrorCode.INVALID_TIMESTAMP


def test_a_message_set_that_grows_by_conversion_is_measured_again() -> None:
    records = message_set(*[b"x" * 100] * 20, compression=GZIP)
    limits = {"max_message_bytes": 2000, "compression_type": "uncompressed"}
    code, detail = refusal(log_of(1, segment_bytes=2500, **limits), records)
    assert (code, "segment.bytes" in detail) == (ErrorCode.RECORD_LIST_TOO_LARGE, True)
    code, detail = refusal(log_of(2, **limits), records)
    assert (code, "converted to the topic's codec" in detail) == (ErrorCode.MESSAGE_TOO_LARGE, True)


@given(
    magic=st.sampled_from([0, 1]),
    codec=st.sampled_from(CODECS),
    stored=st.sampled_from([0, 1, 2]),
    damage=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 300),
    sealed=st.booleans(),
)
@settings(max_examples=200)
def test_random_message_sets_are_refused_or_stored_readable(
    magic: int, codec: CompressionType, stored: int, damage: list[tuple[int, int]], cut: int, sealed: bool
) -> None:
    raw = message_set(b"abc", None, b"d" * 60, keys=[None, b"k", b""], magic=magic, compression=codec)
    for at, byte in damage:
        raw[at % len(raw)] = byte
    raw = raw[: max(26, len(raw) - cut)] if cut < 100 else raw
    if sealed:  # so that what is wrong gets further in
        size = int.from_bytes(raw[8:12], "big", signed=True)
        raw[12:16] = zlib.crc32(raw[16 : max(16, 12 + size)]).to_bytes(4, "big")
    log = log_of(stored)
    code = None
    try:
        log.put(raw)
    except KafkaError as error:
        code = error.code
    assert code is None or code in REFUSALS
    records = log.records()
    assert [record.offset for record in records] == list(range(log.log.log_end_offset))
    assert bool(records) == (code is None)
    log.reopen(clean=False)
    assert log.records() == records


REFUSALS = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
}
