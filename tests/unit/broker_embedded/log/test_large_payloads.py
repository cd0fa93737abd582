import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log import appender
from broker_embedded._log.append import conversion, message_sets
from broker_embedded._log.append.incoming import AppendContext, AppendOrigin, InvalidRecords, ValidatedBatch
from broker_embedded._log.append.message_sets import renumbered
from broker_embedded._log.append.validation import assign, max_records, validate
from broker_embedded._log.cleaner.batch_cleaner import BatchCleaner, Rules, keyed_offsets
from broker_embedded._log.cleaner.cleaned_transactions import CleanedTransactions
from broker_embedded._log.cleaner.offset_map import OffsetMap
from broker_embedded._platform.cancellation import Cancellation, WorkCancelled
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._records import conversion as records_conversion
from spark_kafka_native._records import record as record_module
from spark_kafka_native._records.batch import RECORD_BATCH_OVERHEAD, CompressionType, read_header, seal, write_header
from spark_kafka_native._records.compression import compressor
from spark_kafka_native._records.conversion import convert_down, payload_pieces, read_records, write_batch
from spark_kafka_native._records.legacy import read_plain_messages
from spark_kafka_native._records.record import MIN_RECORD_BYTES, LogRecord, varint
from spark_kafka_native._records.scan import LONG_MAX, RecordScan
from tests.support.broker.old_format_log import OldFormatLog
from tests.support.records.log_batches import NOW_MS, batch
from tests.support.records.message_sets import message_set, messages_in

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
MIB = 1024 * 1024
RECORDS = 20_000
EQUAL_RECORD = b"\x10\x00\x00\x00\x02k\x02v\x00"
"""The key k and the value v, at offset delta 0."""


def equal_records(count: int, record: bytes = EQUAL_RECORD, codec: CompressionType = ZSTD) -> bytearray:
    """A sealed batch of equal records: some hundred bytes, whatever their number."""
    one = compressor(codec)
    whole = bytearray(RECORD_BATCH_OVERHEAD)
    for _ in range(count // 10_000):
        whole += one.compress(record * 10_000)
    whole += one.compress(record * (count % 10_000)) + one.flush()
    write_header(
        whole,
        size_in_bytes=len(whole),
        last_offset_delta=count - 1,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS,
        records_count=count,
        compression=codec,
    )
    seal(whole)
    return whole


SMALL = equal_records(RECORDS)


def validated(records: bytearray, **topic: object) -> ValidatedBatch:
    config = LogConfig.parse({key.replace("_", "."): value for key, value in topic.items()})
    append = AppendContext(config=config, partition="t-0", origin=AppendOrigin.CLIENT, now_ms=NOW_MS, base_offset=50)
    return validate(memoryview(records), append)


@pytest.fixture
def peak(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """The largest number of bytes that Python has had at a time during the test, blocks of records being small."""
    monkeypatch.setattr(record_module, "_BLOCK_BYTES", 16 * 1024)
    tracemalloc.start(1)
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.mark.parametrize(
    "topic",
    [
        {"cleanup_policy": "compact", "compression_type": "zstd"},
        {"message_timestamp_before_max_ms": 1000},
        {"compression_type": "lz4", "max_message_bytes": 32 * MIB},
        {"message_format_version": "0.10.2", "compression_type": "gzip"},
    ],
    ids=str,
)
def test_records_are_checked_and_written_with_bounded_memory(peak: Callable[[], int], topic: dict[str, object]) -> None:
    assert len(SMALL) < 1000
    stored = validated(equal_records(RECORDS), **topic)
    assert stored.header.last_offset_delta == RECORDS - 1
    assert peak() < 4 * MIB


def test_the_errors_of_records_are_bounded(peak: Callable[[], int]) -> None:
    with pytest.raises(InvalidRecords) as caught:
        validated(equal_records(RECORDS, b"\x0e\x00\x00\x00\x01\x02v\x00"), cleanup_policy="compact")
    assert [error.batch_index for error in caught.value.record_errors] == list(range(100))
    assert caught.value.detail.endswith("; and 97 or more others")
    assert peak() < 2 * MIB


def test_a_batch_that_would_grow_beyond_the_limit_is_not_written_to_the_end(peak: Callable[[], int]) -> None:
    for code, old_format in (
        (ErrorCode.MESSAGE_TOO_LARGE, {}),
        (ErrorCode.RECORD_LIST_TOO_LARGE, {"message_format_version": "0.10.2"}),
    ):
        topic = {"compression_type": "uncompressed", **old_format}
        with pytest.raises(KafkaError, match=r"converted to the topic's codec|allowed by segment\.bytes") as caught:
            validated(SMALL, max_message_bytes=100_000, segment_bytes=MIB // 2, **topic)
        assert caught.value.code is code
    assert peak() < 4 * MIB


def test_inspected_batches_decompress_to_a_limit_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "_MIN_BOUND", 9 * 1000)
    monkeypatch.setattr(conversion, "_TIMES_LARGER", 1)
    topic = {"cleanup_policy": "compact", "max_message_bytes": 9000}
    assert validated(equal_records(1000), **topic).header.records_count == 1000
    with pytest.raises(KafkaError, match="zstd payload decompresses to more than 9000 bytes, the larger") as caught:
        validated(equal_records(1001), **topic)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    for magic in (0, 1):
        records = message_set(*[b"v" * 300] * 10, magic=magic, compression=GZIP)
        with pytest.raises(KafkaError, match="gzip payload decompresses to more than 2250 bytes") as caught:
            validated(records, **topic)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_the_limit_grows_with_the_topics_batches() -> None:
    limits = [
        conversion.max_payload_bytes(LogConfig.parse({"max.message.bytes": size}))
        for size in (1000, 2 * MIB, 100 * MIB)
    ]
    assert limits == [64 * MIB, 128 * MIB, 512 * MIB]


def wrapping(delta: int = LONG_MAX) -> bytearray:
    """A batch whose first record's time is beyond an int64, for Java -2, and the second's the last there is."""
    records = b"\x22\x00" + varint(delta) + b"\x00\x02k\x02v\x00" + b"\x10\x00\x00\x02\x02k\x02v\x00"
    raw = bytearray(RECORD_BATCH_OVERHEAD) + records
    write_header(
        raw,
        size_in_bytes=len(raw),
        last_offset_delta=1,
        base_timestamp=LONG_MAX,
        max_timestamp=LONG_MAX,
        records_count=2,
    )
    seal(raw)
    return raw


def test_a_time_that_wraps_around_is_the_same_for_every_reader() -> None:
    raw = wrapping()
    header = read_header(raw)
    assert [message.timestamp for message in messages_in(raw)] == [-2, LONG_MAX]
    assert [timestamp for _, _, timestamp, _ in RecordScan(header, latest=-3).found([raw[61:]])] == [-2, LONG_MAX]
    offsets = OffsetMap(10, 0.9)
    assert offsets.put_all(keyed_offsets(bytes(raw), header, 0)) is None
    cleaned = cleaner(offsets, 1).clean(bytes(raw), header)
    assert cleaned is not None
    assert [message.timestamp for message in messages_in(cleaned.data)] == [LONG_MAX]
    assert convert_down(memoryview(raw), 0, header, magic=1, from_offset=0)
    stored = validated(raw, message_timestamp_after_max_ms=LONG_MAX, compression_type="gzip")
    assert [message.timestamp for message in messages_in(stored.records)] == [-2, LONG_MAX]


@pytest.mark.parametrize(
    ("delta", "why"), [(LONG_MAX, "timestamp -2 is before 1970"), (-LONG_MAX - 1, "too far apart")]
)
def test_times_that_cannot_be_written_again_are_refused(delta: int, why: str) -> None:
    raw = wrapping(delta)
    raw[35:43] = (5).to_bytes(8, "big")  # not the largest time, so the batch is written again
    seal(raw)
    with pytest.raises(KafkaError, match=why) as caught:
        validated(raw, message_timestamp_after_max_ms=LONG_MAX, cleanup_policy="compact")
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", CompressionType)
def test_a_count_that_is_impossible_for_the_size_is_an_invalid_record(codec: CompressionType) -> None:
    raw = batch(b"x" * 50, compression=codec)
    most = max_records(read_header(raw))
    assert most == codec.max_ratio * (len(raw) - RECORD_BATCH_OVERHEAD) // MIN_RECORD_BYTES
    for count in (most, most + 1, 2**31 - 1):
        raw[57:61] = count.to_bytes(4, "big")
        raw[23:27] = (count - 1).to_bytes(4, "big")
        seal(raw)
        if count == most:
            validated(raw)
            continue
        with pytest.raises(KafkaError, match=f"{count} records do not fit into .* bytes of {codec.label}") as no:
            validated(raw)
        assert no.value.code is ErrorCode.INVALID_RECORD


MANY = 8_000


@pytest.fixture(scope="module")
def many_messages() -> bytes:
    """208 KB of the smallest messages."""
    return bytes(message_set(b"", magic=0)) * MANY


@pytest.mark.parametrize("tail", [0, 5], ids=["whole", "cut off"])
@pytest.mark.parametrize(
    "topic",
    [
        {"message_format_version": "0.9.0"},
        {"message_format_version": "0.10.2", "compression_type": "gzip"},
        {"message_format_version": "0.11.0", "max_message_bytes": 32 * MIB},
    ],
    ids=str,
)
def test_an_uncompressed_message_set_takes_a_few_times_its_bytes(
    many_messages: bytes, topic: dict[str, object], tail: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_sets, "_AT_ONCE", 256)
    monkeypatch.setattr(record_module, "_BLOCK_BYTES", 16 * 1024)
    one = OldFormatLog(**topic)
    sent = bytearray(many_messages + many_messages[:tail])
    tracemalloc.start(1)
    result = one.log.append(sent, leader_epoch=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.last_offset == MANY - 1
    assert peak < 4.5 * len(sent), "some copies of the bytes, and the positions"


def test_a_set_that_is_larger_than_a_segment_is_refused_before_all_of_it_is_read(
    many_messages: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal read
        found = read_plain_messages(*args, **more)
        read += len(found[0]) if found else 0
        return found

    monkeypatch.setattr(message_sets, "read_plain_messages", counted)
    one = OldFormatLog(message_format_version="0.9.0", segment_bytes=MIB // 8)
    messages = many_messages * 3
    for tail in (b"", messages[:5]):
        read = 0
        with pytest.raises(KafkaError, match=r"exceed segment\.bytes = 131072.*\(RECORD_LIST_TOO_LARGE, "):
            one.put(messages + tail)
        assert read < 3 * MANY / 2
    assert one.log.log_end_offset == 0


def cleaner(offsets: OffsetMap, latest: int) -> BatchCleaner:
    rules = Rules(
        now_ms=NOW_MS,
        delete_retention_ms=1000,
        latest_offset=latest,
        until_offset=latest + 100,
        last_records={},
        old_horizon_ms=0,
    )
    return BatchCleaner(offsets, CleanedTransactions(), rules)


def test_keys_are_mapped_with_bounded_memory(peak: Callable[[], int]) -> None:
    found = 0
    for key, offset in keyed_offsets(bytes(SMALL), read_header(SMALL), 0):
        assert (key, offset) == (b"k", 0)
        found += 1
    assert found == RECORDS
    assert peak() < 2 * MIB


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("tombstones", [False, True])
def test_a_batch_of_several_blocks_is_cleaned_as_one(
    codec: CompressionType, tombstones: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_module, "_BLOCK_BYTES", 16 * 1024)
    messages = [
        LogRecord(index, NOW_MS + index % 7, b"%d" % (index // 2), None if tombstones and index == 1 else b"v" * 100)
        for index in range(3000)
    ]
    data = bytes(write_batch(messages, base_offset=0, compression=codec))
    offsets = OffsetMap(2000, 0.9)
    assert offsets.put_all(keyed_offsets(data, read_header(data), 0)) is None
    cleaned = cleaner(offsets, 2999).clean(data, read_header(data))
    assert cleaned is not None
    kept = [message._replace(headers=b"\x00") for message in messages if message.offset % 2]
    assert messages_in(cleaned.data) == kept
    header = read_header(cleaned.data)
    assert (cleaned.records_kept, header.records_count) == (1500, 1500)
    assert header.max_timestamp == max(message.timestamp for message in kept)
    assert header.compression is codec
    assert (header.delete_horizon_ms is not None) is tombstones
    again = cleaner(offsets, 2999).clean(bytes(cleaned.data), header)
    assert again is not None
    assert bytes(again.data) == bytes(cleaned.data)


def test_an_append_does_not_wait_for_the_inspection_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    one = OldFormatLog(cleanup_policy="compact")
    slow = bytes(write_batch([LogRecord(0, NOW_MS, b"slow", b"v")], base_offset=0))
    begun, released = threading.Event(), threading.Event()

    def slowly(records: memoryview, *args: Any, **more: Any) -> ValidatedBatch:
        if bytes(records) == slow:
            begun.set()
            assert released.wait(30)
        return validate(records, *args, **more)

    monkeypatch.setattr(appender, "validate", slowly)
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(one.put, slow)
        assert begun.wait(30)
        assert one.put(write_batch([LogRecord(0, NOW_MS, b"fast", b"v")], base_offset=0)).base_offset == 0
        released.set()
        assert waiting.result(30).base_offset == 1
    assert [(record.offset, record.key) for record in one.records()] == [(0, b"fast"), (1, b"slow")]


@pytest.mark.parametrize("release", ["0.9.0", "0.10.2"])
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4])
def test_offsets_are_right_if_the_log_has_grown_since_the_inspection(
    monkeypatch: pytest.MonkeyPatch, codec: CompressionType, release: str
) -> None:
    one = OldFormatLog(message_format_version=release)
    grows = [True]

    def grown(records: memoryview, *args: Any, **more: Any) -> ValidatedBatch:
        found = validate(records, *args, **more)
        if grows:
            grows.clear()
            one.put_batch(b"first", compression=codec)
        return found

    monkeypatch.setattr(appender, "validate", grown)
    result = one.put(message_set(b"a", b"b", magic=0, compression=codec))
    assert (result.base_offset, result.last_offset) == (1, 2)
    assert [(record.offset, record.value) for record in one.records()] == [(0, b"first"), (1, b"a"), (2, b"b")]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_records_are_never_checked_under_the_lock_however_often_others_append(
    monkeypatch: pytest.MonkeyPatch, codec: CompressionType
) -> None:
    """Of a compressed set of format v0 only the offsets are written again."""
    one = OldFormatLog(message_format_version="0.9.0")
    checks = 0

    def overtaken(records: memoryview, *args: Any, **more: Any) -> ValidatedBatch:
        nonlocal checks
        found = validate(records, *args, **more)
        if found.holds_absolute_offsets:
            checks += 1
            assert not one.log.local.lock._is_owned(), f"check {checks} is made under the lock"  # type: ignore[attr-defined]
            one.put_set(b"small", magic=0)
        return found

    monkeypatch.setattr(appender, "validate", overtaken)
    result = one.put(message_set(b"a", b"b", magic=0, compression=codec))
    assert (checks, result.base_offset, result.last_offset) == (1, 1, 2)
    assert [(record.offset, record.value) for record in one.records()] == [(0, b"small"), (1, b"a"), (2, b"b")]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_offsets_inside_a_compressed_message_are_written_again(codec: CompressionType) -> None:
    config = LogConfig.parse({"message.format.version": "0.9.0"})
    append = AppendContext(config=config, partition="t-0", origin=AppendOrigin.CLIENT, now_ms=NOW_MS, base_offset=5)
    found = validate(memoryview(batch(b"a", b"b", compression=codec)), append)
    assert [message.offset for message in messages_in(found.records)] == [5, 6]
    again = renumbered(found, append._replace(base_offset=2**40))
    assert [(message.offset, message.value) for message in messages_in(again.records)] == [
        (2**40, b"a"),
        (2**40 + 1, b"b"),
    ]
    (placed,) = assign(again, base_offset=2**40, leader_epoch=1, log_append_time_ms=-1)
    assert [message.offset for message in messages_in(again.records)] == [2**40, 2**40 + 1]
    assert placed.last_offset == 2**40 + 1
    small = append._replace(config=LogConfig.parse({"max.message.bytes": "10"}, config))
    with pytest.raises(KafkaError, match=r"at least \d+ bytes; max\.message\.bytes is 10.*\(MESSAGE_TOO_LARGE, "):
        renumbered(found, small)


@pytest.mark.parametrize(
    "topic",
    [
        {"cleanup_policy": "compact"},
        {"compression_type": "lz4"},
        {"message_format_version": "0.10.2", "compression_type": "gzip"},
    ],
    ids=str,
)
@pytest.mark.parametrize("pieces", [0, 1], ids=["scanned", "written"])
def test_an_inspection_that_is_cancelled_ends_between_pieces(
    monkeypatch: pytest.MonkeyPatch, topic: dict[str, object], pieces: int
) -> None:
    """While the records are scanned, and while they are written again, as they are not in order."""
    cancellation, read = Cancellation(), 0

    def counted(*args: Any, **more: Any) -> Iterator[Any]:
        nonlocal read
        for piece in payload_pieces(*args, **more):
            if read == pieces:
                cancellation.cancel("the client has left")
            read += 1
            yield piece

    monkeypatch.setattr(conversion, "payload_pieces", counted)
    monkeypatch.setattr(records_conversion, "payload_pieces", counted)
    monkeypatch.setattr(record_module, "_BLOCK_BYTES", 16 * 1024)
    one = OldFormatLog(**topic)
    with pytest.raises(WorkCancelled, match="the client has left"):
        one.log.append(equal_records(400_000), leader_epoch=3, cancellation=cancellation)
    assert read == pieces + 1
    assert one.log.log_end_offset == 0


def test_reading_records_one_by_one_holds_a_block_of_them(peak: Callable[[], int]) -> None:
    assert sum(1 for _ in read_records(memoryview(SMALL), 0, read_header(SMALL))) == RECORDS
    assert peak() < 3 * MIB
