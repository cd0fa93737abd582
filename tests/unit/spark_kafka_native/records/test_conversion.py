import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records.batch import CompressionType, TimestampType, check_crc, read_header
from spark_kafka_native._records.control import ControlType
from spark_kafka_native._records.conversion import convert_down, payload_pieces, read_records, recompress, write_batch
from spark_kafka_native._records.errors import CorruptBatch, OversizedBatch
from spark_kafka_native._records.formats import iter_any, read_any
from spark_kafka_native._records.legacy import CODECS, read_message
from spark_kafka_native._records.record import NO_HEADERS, LogRecord, parse_records
from tests.support.records.log_batches import NOW_MS
from tests.support.records.message_sets import message_set, messages_in, shapes
from tests.support.records.record_batches import marker
from tests.support.records.reference import Batch, Record, numbered
from tests.support.records.reference import write_batch as reference_batch
from tests.support.records.strategies import ascending, byte_strings, log_records

records = log_records(
    byte_strings(9000), st.sampled_from([NO_HEADERS, b"\x02\x02h\x02v", b"\x04\x02a\x01\x00\x00"]), max_size=30
)


def converted(raw: bytes | bytearray, magic: int, from_offset: int = 0) -> bytes:
    return convert_down(memoryview(raw), 0, read_header(raw), magic=magic, from_offset=from_offset)


@pytest.mark.parametrize("codec", list(CompressionType))
@given(found=records)
@settings(max_examples=8)
def test_a_batch_is_read_as_it_was_written(codec: CompressionType, found: list[LogRecord]) -> None:
    wanted = ascending(found)
    batch = write_batch(wanted, base_offset=wanted[0].offset - 3, compression=codec)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.base_offset, header.last_offset) == (wanted[0].offset - 3, wanted[-1].offset)
    assert (header.base_timestamp, header.max_timestamp) == (
        wanted[0].timestamp,
        max(record.timestamp for record in wanted),
    )
    assert messages_in(batch) == wanted


def test_a_batch_is_what_an_independent_writer_makes_of_it() -> None:
    plain = numbered([Record(b"k", b"v" * size, (("h", b"x"),), NOW_MS + size) for size in (0, 1, 63, 64, 9000)])
    ours = [LogRecord(record.offset, record.timestamp, record.key, record.value, b"\x02\x02h\x02x") for record in plain]
    assert write_batch(ours, base_offset=0) == reference_batch(Batch(records=plain))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@given(found=records)
@settings(max_examples=8)
def test_down_and_up_again(magic: int, codec: CompressionType, found: list[LogRecord]) -> None:
    wanted = ascending(found)
    down = converted(write_batch(wanted, base_offset=100, compression=codec), magic)
    assert {(found_magic, found_codec) for found_magic, found_codec, _ in shapes(down)} == {(magic, codec)}
    left = [record._replace(headers=NO_HEADERS) for record in wanted]
    left = left if magic else [record._replace(timestamp=-1) for record in left]
    assert messages_in(down) == left
    assert messages_in(write_batch(messages_in(down), base_offset=100, compression=codec)) == left


@pytest.mark.parametrize("codec", CODECS)
def test_the_brokers_time_stays_the_brokers(codec: CompressionType) -> None:
    wanted = [LogRecord(5, NOW_MS, None, b"a"), LogRecord(6, NOW_MS, None, b"b")]
    batch = write_batch(wanted, base_offset=5, compression=codec, timestamp_type=TimestampType.LOG_APPEND_TIME)
    down = converted(batch, 1)
    assert messages_in(down) == wanted
    assert read_any(down).timestamp_type is TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_before_the_wanted_offset_goes_unless_it_is_compressed(codec: CompressionType) -> None:
    batch = write_batch([LogRecord(offset, 0, None, b"") for offset in range(5, 9)], base_offset=5, compression=codec)
    offsets = [message.offset for message in messages_in(converted(batch, 1, from_offset=7))]
    assert offsets == ([5, 6, 7, 8] if codec else [7, 8])
    assert bool(converted(batch, 1, from_offset=9)) == bool(codec)


def test_older_formats_are_not_converted() -> None:
    for magic, source in ((1, 1), (1, 0), (0, 0)):
        raw = bytes(message_set(b"a", magic=source))
        assert convert_down(memoryview(raw), 0, read_message(raw), magic=magic, from_offset=9) == raw


@pytest.mark.parametrize("codec", CODECS)
def test_from_v1_to_v0(codec: CompressionType) -> None:
    raw = message_set(b"a", b"b", magic=1, compression=codec, first_offset=50)
    down = b"".join(
        convert_down(memoryview(raw), position, header, magic=0, from_offset=0) for position, header in iter_any(raw)
    )
    assert messages_in(down) == [LogRecord(50, -1, None, b"a"), LogRecord(51, -1, None, b"b")]


def test_nothing_is_left_of_markers_and_of_emptied_batches() -> None:
    assert converted(marker(ControlType.COMMIT, 5), 1) == b""
    empty = Batch(records=(), last_offset_delta=3, base_timestamp=0)
    assert converted(reference_batch(empty), 1) == b""


def test_zstd_has_no_old_form() -> None:
    batch = write_batch([LogRecord(0, 0, None, b"")], base_offset=0, compression=CompressionType.ZSTD)
    with pytest.raises(ValueError, match="no zstd in message format v1"):
        converted(batch, 1)


@pytest.mark.parametrize("codec", list(CompressionType))
def test_another_codec_and_all_else_the_same(codec: CompressionType) -> None:
    plain = numbered([Record(b"k", b"v" * 50, (), NOW_MS)] * 3)
    source = reference_batch(Batch(records=plain, producer_id=5, producer_epoch=2, base_sequence=9, transactional=True))
    header = read_header(source)
    pieces = payload_pieces(memoryview(source), 0, header)
    again = recompress(pieces, header, compression=codec, level=None, max_bytes=10_000)
    new = read_header(again)
    check_crc(again, 0, new)
    assert new.compression is codec
    same = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert new._replace(**same) == header._replace(**same)
    assert new.is_transactional
    assert messages_in(again) == messages_in(source)


def test_a_converted_batch_keeps_its_kind_and_producer() -> None:
    like = read_header(marker(ControlType.ABORT, producer_id=5, producer_epoch=3))
    again = read_header(write_batch([LogRecord(9, 1, b"k", b"v")], base_offset=9, like=like))
    assert (again.producer_id, again.producer_epoch, again.is_control, again.is_transactional) == (5, 3, True, True)


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_batch_larger_than_its_limit_is_not_written(codec: CompressionType) -> None:
    chance = random.Random(1)
    wanted = [LogRecord(offset, 0, None, chance.randbytes(1000)) for offset in range(200)]
    whole = write_batch(wanted, base_offset=0, compression=codec)
    assert write_batch(wanted, base_offset=0, compression=codec, max_bytes=len(whole)) == whole
    for limit in (1000, len(whole) - 1):
        with pytest.raises(OversizedBatch, match=f"the batch has at least [0-9]+ bytes, {limit} are allowed"):
            write_batch(wanted, base_offset=0, compression=codec, max_bytes=limit)
        pieces = payload_pieces(memoryview(whole), 0, read_header(whole))
        with pytest.raises(OversizedBatch):
            recompress(pieces, read_header(whole), compression=codec, level=None, max_bytes=limit)


def test_times_too_far_apart() -> None:
    far = [LogRecord(0, -(2**62), None, b""), LogRecord(1, 2**62, None, b"")]
    with pytest.raises(ValueError, match="too far apart"):
        write_batch(far, base_offset=0)


PAYLOAD = bytes(write_batch([LogRecord(0, 5, b"key", b"value"), LogRecord(1, 6, None, None)], base_offset=0)[61:])
HEADER = read_header(write_batch([LogRecord(0, 5, b"key", b"value"), LogRecord(1, 6, None, None)], base_offset=0))


def test_every_cut_of_a_payload_is_corrupt() -> None:
    assert len(list(parse_records([PAYLOAD], HEADER))) == 2
    for end in range(len(PAYLOAD)):
        with pytest.raises(CorruptBatch):
            list(parse_records([PAYLOAD[:end]], HEADER))
    with pytest.raises(CorruptBatch, match="1 bytes are left after"):
        list(parse_records([PAYLOAD + b"\0"], HEADER))


def test_damage_is_noticed_or_harmless() -> None:
    """Without a CRC a changed byte may pass for a key's; but then there are as many records, and nothing beyond."""
    for at in range(len(PAYLOAD)):
        for bit in range(8):
            broken = bytearray(PAYLOAD)
            broken[at] ^= 1 << bit
            with suppress(CorruptBatch):
                found = list(parse_records([bytes(broken)], HEADER))
                assert len(found) == 2
                assert sum(len(record.key or b"") + len(record.value or b"") for record in found) <= len(PAYLOAD)


def test_a_bad_record_has_its_position() -> None:
    batch = write_batch([LogRecord(5, 5, None, b"a"), LogRecord(6, 6, None, b"b")], base_offset=5)
    batch[-4] = 0x7F
    with pytest.raises(CorruptBatch, match=r"position 3, base offset 5, record 1"):
        list(read_records(memoryview(b"abc" + batch), 3, read_header(batch)))


def test_a_payload_above_the_limit_is_refused() -> None:
    batch = write_batch([LogRecord(0, 0, None, bytes(1_000_000))], base_offset=0, compression=CompressionType.GZIP)
    with pytest.raises(CorruptBatch, match="more than 1000 bytes"):
        list(read_records(memoryview(batch), 0, read_header(batch), max_bytes=1000))
