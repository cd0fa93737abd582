import zlib
from collections.abc import Callable
from typing import Any

import lz4.frame
import pytest

from spark_kafka_native._records.batch import BatchHeader, CompressionType, TimestampType
from spark_kafka_native._records.compression import compress
from spark_kafka_native._records.errors import CorruptBatch, IncompleteBatch, InvalidMessageSet
from spark_kafka_native._records.formats import iter_any
from spark_kafka_native._records.legacy import (
    CODECS,
    Messages,
    check_message_crc,
    is_message,
    message_crcs,
    read_message,
    read_messages,
    set_message_offset,
    set_message_timestamp,
    walk_messages,
)
from spark_kafka_native._records.legacy_write import write_message_set
from spark_kafka_native._records.lz4_header import break_checksum, repair_checksum
from spark_kafka_native._records.record import LogRecord
from tests.support.records.message_sets import entry

MAGICS = (0, 1)
TIME = 1_700_000_000_000
RECORDS = [LogRecord(100, TIME, b"k", b"one"), LogRecord(103, TIME + 5, None, None), LogRecord(104, TIME - 5, b"", b"")]


def wrapper(*inner: bytes, codec: CompressionType = CompressionType.GZIP, **fields: Any) -> bytes:
    fields.setdefault("offset", len(inner) - 1)
    return entry(key=None, value=compress(codec, b"".join(inner)), attributes=codec, **fields)


def read(raw: bytes) -> list[LogRecord]:
    header = read_message(raw)
    check_message_crc(raw, 0, header)
    return read_messages(raw, 0, header)


def test_every_field_of_v1() -> None:
    raw = entry(attributes=8)
    assert read_message(b"xyz" + raw, 3) == BatchHeader(
        base_offset=7,
        batch_length=len(raw) - 12,
        partition_leader_epoch=-1,
        magic=1,
        crc=zlib.crc32(raw[16:]),
        attributes=8,
        last_offset_delta=0,
        base_timestamp=TIME,
        max_timestamp=TIME,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=1,
    )
    header = read_message(raw)
    assert (header.size_in_bytes, header.last_offset, header.next_offset) == (len(raw), 7, 8)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert not any((header.has_producer_id, header.is_control, header.is_transactional))
    assert read(raw) == [LogRecord(7, TIME, b"key", b"value")]


def test_v0_has_no_time() -> None:
    header = read_message(entry(magic=0, attributes=0x78))
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (0, -1, -1)
    assert header.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE
    assert read(entry(magic=0, key=None, value=None)) == [LogRecord(7, -1, None, None)]


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", CODECS)
def test_a_wrapper_and_what_is_inside(magic: int, codec: CompressionType) -> None:
    raw = bytes(write_message_set(RECORDS, magic=magic, compression=codec))
    headers = [header for _, header in iter_any(raw)]
    assert [(header.compression, header.last_offset) for header in headers] == (
        [(codec, 104)] if codec else [(codec, record.offset) for record in RECORDS]
    )
    assert headers[0].records_count == (-1 if codec else 1)
    expected = [record._replace(timestamp=record.timestamp if magic else -1) for record in RECORDS]
    read_back = [message for at, header in iter_any(raw) for message in read_messages(raw, at, header)]
    assert read_back == expected


def test_a_v1_wrapper_at_offset_0_begins_at_0() -> None:
    raw = wrapper(entry(offset=0), entry(offset=1), entry(offset=2), offset=0)
    assert [message.offset for message in read(raw)] == [0, 1, 2]
    assert [message.offset for message in read(wrapper(entry(offset=3), entry(offset=5), offset=50))] == [48, 50]


def test_the_brokers_time_is_that_of_every_message_inside() -> None:
    raw = wrapper(entry(offset=0, timestamp=1), entry(offset=1, timestamp=2))
    changed = bytearray(raw)
    set_message_timestamp(changed, 0, read_message(raw), 999, TimestampType.LOG_APPEND_TIME)
    assert [message.timestamp for message in read(bytes(changed))] == [999, 999]
    set_message_timestamp(changed, 0, read_message(changed), 2, TimestampType.CREATE_TIME)
    assert [message.timestamp for message in read(bytes(changed))] == [1, 2]


def test_changes_in_place() -> None:
    raw = bytearray(b"abc" + entry() + b"xyz")
    set_message_offset(memoryview(raw), 3, 2**40)
    set_message_timestamp(memoryview(raw), 3, read_message(raw, 3), 5, TimestampType.LOG_APPEND_TIME)
    assert raw == b"abc" + entry(offset=2**40, timestamp=5, attributes=8) + b"xyz"
    with pytest.raises(ValueError, match="v0 has no timestamp"):
        set_message_timestamp(raw, 3, read_message(entry(magic=0)), 5, TimestampType.CREATE_TIME)


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_cut_is_incomplete(magic: int, kind: type[bytes]) -> None:
    raw = entry(magic=magic)
    for end in range(len(raw)):
        with pytest.raises(IncompleteBatch, match="position 0"):
            read_message(kind(raw[:end]))
        if end >= 26:
            assert read_message(kind(raw[:end]), whole=False) == read_message(raw)
    assert list(iter_any(raw * 2 + raw[:-1])) == [(0, read_message(raw)), (len(raw), read_message(raw))]


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_bit_is_noticed(magic: int, codec: CompressionType) -> None:
    raw = write_message_set(RECORDS[:1], magic=magic, compression=codec)
    for at in range(8, len(raw)):  # the offset is under no CRC
        for bit in (1, 0x80):
            broken = bytearray(raw)
            broken[at] ^= bit
            with pytest.raises(CorruptBatch):
                read(bytes(broken))


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", CODECS[1:])
def test_every_cut_of_what_is_inside_is_corrupt(magic: int, codec: CompressionType) -> None:
    inner = entry(magic=magic, offset=0)
    for end in range(1, len(inner)):
        with pytest.raises(CorruptBatch, match=r"cut off|impossible size") as caught:
            read(wrapper(inner, inner[:end], magic=magic, codec=CompressionType.GZIP))
        assert caught.value.record_index == 1
    payload = compress(codec, inner * 3)
    for end in range(len(payload)):
        with pytest.raises(CorruptBatch):
            read(entry(magic=magic, attributes=codec, key=None, value=payload[:end]))


def length_at(raw: bytes, at: int, value: int) -> bytes:
    changed = bytearray(raw)
    changed[at : at + 4] = value.to_bytes(4, "big", signed=True)
    changed[12:16] = zlib.crc32(changed[16:]).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize(("at", "what"), [(26, "key"), (33, "value")])
@pytest.mark.parametrize("length", [-2, 2, 4, 100, 2**31 - 1, -(2**31)])
def test_lengths_that_do_not_fit(at: int, what: str, length: int) -> None:
    raw = length_at(entry(key=b"key", value=b"value"), at, length)
    with pytest.raises(CorruptBatch, match=r"impossible length .*position 0, base offset 7, record 0"):
        read(raw)
    with pytest.raises(CorruptBatch, match=r"impossible length .*position 0, base offset 0, record 0"):
        read(wrapper(raw))
    assert what in {"key", "value"}


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: entry(magic=2), CorruptBatch, "unknown magic 2 of a message"),
        (lambda: bytes(100), CorruptBatch, "impossible message size 0 in format v0"),
        (
            lambda: bytes(8) + (21).to_bytes(4, "big") + bytes(4) + b"\1" + bytes(40),
            CorruptBatch,
            "size 21 in format v1",
        ),
        (lambda: entry(attributes=4), InvalidMessageSet, "compression codec 4 in a message of format v1"),
        (lambda: entry(attributes=7, magic=0), InvalidMessageSet, "compression codec 7 in a message of format v0"),
        (wrapper, InvalidMessageSet, "no message inside"),
        (lambda: entry(attributes=1, value=None), InvalidMessageSet, "without a value"),
        (lambda: wrapper(wrapper(entry())), InvalidMessageSet, "compressed message inside a compressed message"),
        (lambda: wrapper(entry(magic=0, value=b"long enough")), InvalidMessageSet, "magic 0 inside one of format v1"),
        (lambda: wrapper(entry(offset=9), offset=8), InvalidMessageSet, "the last offset inside .* is 9"),
        (lambda: wrapper(entry(crc=1)), CorruptBatch, "CRC-32 of the message is .* says 0x00000001"),
        (lambda: wrapper(entry() + b"x"), CorruptBatch, "a message inside is cut off"),
        (lambda: entry(attributes=1, value=b"no gzip"), CorruptBatch, "gzip payload"),
    ],
)
def test_what_no_writer_writes(make: Callable[[], bytes], error: type[CorruptBatch], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        read(make())
    assert type(caught.value) is error
    assert caught.value.position == 0


def test_crcs_inside_need_not_be_checked() -> None:
    raw = wrapper(entry(crc=1))
    assert len(read_messages(raw, 0, read_message(raw), check_crcs=False)) == 1


def test_a_payload_above_the_limit_is_refused() -> None:
    raw = wrapper(entry(value=bytes(1_000_000)))
    with pytest.raises(CorruptBatch, match="decompresses to more than 100000 bytes"):
        read_messages(raw, 0, read_message(raw), max_bytes=100_000)


def test_is_message_recognises_the_magic() -> None:
    assert is_message(entry())
    assert is_message(b"xx" + entry(magic=0), 2)
    assert not is_message(entry(magic=2))
    assert not is_message(entry()[:16])
    assert not is_message(b"")


@pytest.mark.parametrize("magic", MAGICS)
def test_crcs_of_messages_and_of_inner_messages_are_checked(magic: int) -> None:
    inner = [entry(magic=magic, offset=number, value=bytes([number])) for number in range(3)]
    crcs = [zlib.crc32(raw[16:]) for raw in inner]
    assert list(message_crcs(inner[1], 0, read_message(inner[1]))) == [(crcs[1], True)]
    damaged = inner[1][:-1] + b"x"
    assert list(message_crcs(damaged, 0, read_message(damaged))) == [(crcs[1], False)]
    raw = b"before" + wrapper(inner[0], damaged, inner[2], magic=magic)
    header = read_message(raw, 6)
    assert list(message_crcs(raw, 6, header)) == [(crcs[0], True), (crcs[1], False), (crcs[2], True)]


def test_messages_inside_that_are_cut_off_have_no_crc() -> None:
    whole = entry()
    for inner, reason in ((whole[:15], "cut off"), (whole[:8] + bytes(4) + whole[12:], "impossible size 0")):
        raw = wrapper(whole, inner)
        with pytest.raises(CorruptBatch, match=reason):
            list(message_crcs(raw, 0, read_message(raw)))


def test_walk_messages_ends_before_anything_but_whole_messages_of_the_same_kind() -> None:
    def walked(*parts: bytes | bytearray, **limits: Any) -> tuple[list[int], int]:
        found = Messages()
        end = walk_messages(b"".join(parts), 0, found, magic=1, **limits)
        assert found.positions == [len(three) // 3 * number for number in range(len(found.offsets))]
        return found.offsets, end

    three = b"".join(entry(offset=offset) for offset in range(3))
    whole = ([0, 1, 2], len(three))
    assert walked(three) == whole
    assert walked(b"") == ([], 0)
    others = [entry(magic=0), entry(attributes=8), wrapper(entry()), b"\0" * 30, entry()[:-1], entry()[:5]]
    others += [entry(magic=2), b"\0" * 8 + b"\x80" + b"\0" * 30]
    for other in others:
        assert walked(three, other) == whole
    assert walked(three, until_offset=2) == ([0, 1], len(three) // 3 * 2)
    assert walked(three, most=1) == ([0], len(three) // 3)
    assert walked(three, attributes=8) == ([], 0)
    assert walked(wrapper(entry())) == ([], 0)


@pytest.mark.parametrize(("at", "detail"), [(20, "CRC-32 of the message is"), (28, "impossible length 259 of the")])
def test_walk_messages_names_the_position_of_damage(at: int, detail: str) -> None:
    raw = bytearray(entry(offset=7) + entry(offset=8))
    raw[len(raw) // 2 + at] ^= 1
    with pytest.raises(CorruptBatch, match=f"{detail}.*position {len(raw) // 2}, base offset 8, record 1"):
        walk_messages(bytes(raw), 0, Messages(), magic=1, check_crcs=at < 26)


PLAIN = b"abc" * 100


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
def test_a_wrong_checksum_is_repaired(store_size: bool, checksum: bool) -> None:
    frame = lz4.frame.compress(PLAIN, store_size=store_size, content_checksum=checksum)
    assert repair_checksum(frame) == frame
    at = 14 if store_size else 6
    wrong = bytearray(frame)
    wrong[at] ^= 0xFF
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(bytes(wrong))
    assert lz4.frame.decompress(bytes(repair_checksum(memoryview(wrong)))) == PLAIN


def test_damaging_and_repairing_is_the_identity() -> None:
    frame = lz4.frame.compress(PLAIN, store_size=False)
    broken = break_checksum(frame)
    assert [at for at, (ours, theirs) in enumerate(zip(broken, frame, strict=True)) if ours != theirs] == [6]
    assert repair_checksum(broken) == frame


@pytest.mark.parametrize("end", range(7))
def test_a_frame_that_ends_in_its_header(end: int) -> None:
    with pytest.raises(CorruptBatch, match="cut off within its header"):
        repair_checksum(lz4.frame.compress(PLAIN, store_size=False)[:end])
