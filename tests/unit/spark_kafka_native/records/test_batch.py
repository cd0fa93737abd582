from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._records.batch import (
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionType,
    CorruptBatch,
    IncompleteBatch,
    OldFormatBatch,
    TimestampType,
    UnreadableBatch,
    check_crc,
    increment_sequence,
    iter_batches,
    read_header,
    seal,
    set_log_append_time,
    set_offsets,
    set_producer,
    write_header,
)
from tests.support.records.reference import Batch, Record, crc32c, numbered, read_batch, write_batch

RECORDS = numbered([Record(b"k", b"v", (("h", b"x"),), 1000), Record(None, b"w", (), 1010)], 100)
BATCH = Batch(records=RECORDS, base_offset=100, producer_id=7, producer_epoch=3, base_sequence=2**31 - 1)
BYTES = write_batch(BATCH)


def patched(offset: int, value: int, size: int) -> bytes:
    """BYTES with one field changed and the CRC renewed where that is possible."""
    buffer = bytearray(BYTES)
    buffer[offset : offset + size] = value.to_bytes(size, "big", signed=True)
    return bytes(buffer)


def test_every_field_of_a_batch_header() -> None:
    header = read_header(BYTES)
    assert header == BatchHeader(
        base_offset=100,
        batch_length=len(BYTES) - 12,
        partition_leader_epoch=-1,
        magic=2,
        crc=crc32c(BYTES[21:]),
        attributes=0,
        last_offset_delta=1,
        base_timestamp=1000,
        max_timestamp=1010,
        producer_id=7,
        producer_epoch=3,
        base_sequence=2**31 - 1,
        records_count=2,
    )
    assert (header.size_in_bytes, header.last_offset, header.next_offset) == (len(BYTES), 101, 102)
    assert header.has_producer_id
    assert header.last_sequence == 0  # 0 comes after the largest sequence
    assert header.delete_horizon_ms is None
    check_crc(BYTES, 0, header)


@given(st.integers(0, 0x7F))
def test_attributes_of_a_batch_header(attributes: int) -> None:
    buffer = patched(21, attributes, 2)
    if attributes & 7 > 4:
        with pytest.raises(CorruptBatch, match=f"unknown compression codec {attributes & 7}"):
            read_header(buffer)
        return
    header = read_header(buffer)
    assert header.compression is CompressionType(attributes & 7)
    assert header.timestamp_type is (TimestampType.LOG_APPEND_TIME if attributes & 8 else TimestampType.CREATE_TIME)
    assert (header.is_transactional, header.is_control) == (bool(attributes & 16), bool(attributes & 32))
    assert header.delete_horizon_ms == (1000 if attributes & 64 else None)


@pytest.mark.parametrize(("start", "added", "end"), [(0, 1, 1), (2**31 - 1, 1, 0), (2**31 - 2, 5, 3), (7, 0, 7)])
def test_sequences_wrap_around(start: int, added: int, end: int) -> None:
    assert increment_sequence(start, added) == end


def test_a_batch_without_sequence_has_no_last_one() -> None:
    assert read_header(write_batch(Batch(records=RECORDS, base_offset=100))).last_sequence == -1


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_cut_is_incomplete(kind: type[bytes]) -> None:
    for end in range(len(BYTES)):
        with pytest.raises(IncompleteBatch, match="position 0"):
            read_header(kind(BYTES[:end]))
        if end >= RECORD_BATCH_OVERHEAD:
            assert read_header(kind(BYTES[:end]), whole=False).size_in_bytes == len(BYTES)
    assert read_header(kind(b"xyz" + BYTES + b"xyz"), 3) == read_header(BYTES)


@pytest.mark.parametrize(
    ("buffer", "error", "message"),
    [
        (bytes(200), CorruptBatch, "impossible record batch length 0"),  # what a crash may leave after a file's end
        (bytes(14), CorruptBatch, "impossible record batch length 0"),
        (patched(8, -1, 4), CorruptBatch, "impossible record batch length -1"),
        (patched(8, 48, 4), CorruptBatch, "impossible record batch length 48"),
        (patched(16, 0, 1), OldFormatBatch, "message format v0 is not read here"),
        (patched(16, 1, 1), OldFormatBatch, "message format v1 is not read here"),
        (patched(16, 1, 1)[:30], OldFormatBatch, "message format v1 is not read here"),
        (patched(16, 3, 1), CorruptBatch, "unknown magic 3"),
        (patched(16, -1, 1)[:20], CorruptBatch, "unknown magic -1"),
        (patched(23, -1, 4), CorruptBatch, "negative last offset delta -1"),
        (patched(57, -1, 4), CorruptBatch, "-1 records cannot have 2 offsets"),
        (patched(57, 3, 4), CorruptBatch, "3 records cannot have 2 offsets"),
        (patched(0, 2**63 - 2, 8), CorruptBatch, "offsets beyond the largest int64"),
        (patched(8, 2**31 - 1, 4), IncompleteBatch, f"of {2**31 + 11} bytes is cut off after {len(BYTES)}"),
    ],
)
def test_headers_that_no_writer_writes(buffer: bytes, error: type[UnreadableBatch], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        read_header(b"??" + buffer, 2)
    assert type(raised.value) is error
    assert raised.value.position == 2


def test_an_old_format_is_not_taken_for_corruption() -> None:
    assert not issubclass(OldFormatBatch, CorruptBatch)


def test_iterating_stops_before_a_batch_that_is_cut_off() -> None:
    for cut in range(len(BYTES)):
        found = list(iter_batches(BYTES + BYTES + BYTES[:cut]))
        assert [position for position, _ in found] == [0, len(BYTES)]
        assert {header for _, header in found} == {read_header(BYTES)}
    assert list(iter_batches(b"")) == []
    assert [position for position, _ in iter_batches(BYTES * 3, len(BYTES))] == [len(BYTES), 2 * len(BYTES)]


def test_iterating_raises_at_what_is_corrupt() -> None:
    batches = iter_batches(BYTES + bytes(100))
    assert next(batches)[0] == 0
    with pytest.raises(CorruptBatch, match=f"position {len(BYTES)}"):
        next(batches)


def test_every_byte_after_the_crc_is_covered_by_it() -> None:
    header = read_header(BYTES)
    for position in range(17, len(BYTES)):
        broken = bytearray(BYTES)
        broken[position] ^= 1
        crc = int.from_bytes(broken[17:21], "big")
        with pytest.raises(CorruptBatch, match=r"CRC-32C .*position 3, base offset 100"):
            check_crc(b"abc" + broken, 3, header._replace(crc=crc))


def test_offsets_are_set_in_place_outside_the_crc() -> None:
    buffer = bytearray(b"abc" + BYTES)
    set_offsets(memoryview(buffer), 3, base_offset=2**40, partition_leader_epoch=5)
    header = read_header(buffer, 3)
    check_crc(buffer, 3, header)
    assert header == read_header(BYTES)._replace(base_offset=2**40, partition_leader_epoch=5)
    assert buffer[:3] == b"abc"


def test_log_append_time_is_the_time_of_every_record() -> None:
    buffer = bytearray(b"abc" + BYTES + b"xyz")
    set_log_append_time(buffer, 3, 5555)
    assert buffer[:3] + buffer[-3:] == b"abcxyz"
    found = read_batch(bytes(buffer[3:-3]))
    assert [record.timestamp for record in found.records] == [5555, 5555]
    assert (found.base_timestamp, found.max_timestamp) == (1000, 5555)


def test_the_producer_may_be_set_again() -> None:
    buffer = bytearray(BYTES)
    set_producer(buffer, 0, producer_id=9, producer_epoch=1, base_sequence=5, transactional=True)
    wanted = replace(BATCH, producer_id=9, producer_epoch=1, base_sequence=5, transactional=True)
    assert read_batch(bytes(buffer)).records == RECORDS
    assert buffer == write_batch(wanted)
    set_producer(buffer, 0, producer_id=7, producer_epoch=3, base_sequence=2**31 - 1)
    assert buffer == BYTES


def test_writing_a_header() -> None:
    buffer = bytearray(BYTES)
    buffer[:RECORD_BATCH_OVERHEAD] = bytes(RECORD_BATCH_OVERHEAD)
    write_header(
        buffer,
        size_in_bytes=len(BYTES),
        last_offset_delta=1,
        base_timestamp=1000,
        max_timestamp=1010,
        records_count=2,
        base_offset=100,
        producer_id=7,
        producer_epoch=3,
        base_sequence=2**31 - 1,
    )
    seal(buffer)
    assert buffer == BYTES


def test_every_attribute_is_written() -> None:
    buffer = bytearray(RECORD_BATCH_OVERHEAD)
    write_header(
        buffer,
        size_in_bytes=RECORD_BATCH_OVERHEAD,
        last_offset_delta=0,
        base_timestamp=-1,
        max_timestamp=-1,
        records_count=0,
        compression=CompressionType.LZ4,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        transactional=True,
        control=True,
    )
    header = read_header(buffer)
    assert header.attributes == 3 | 8 | 16 | 32
    assert (header.base_offset, header.producer_id, header.producer_epoch, header.base_sequence) == (0, -1, -1, -1)
