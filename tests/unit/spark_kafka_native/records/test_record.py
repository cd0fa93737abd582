from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._records.batch import read_header
from spark_kafka_native._records.errors import CorruptBatch
from spark_kafka_native._records.record import (
    VARINT_BYTES,
    VARLONG_BYTES,
    LogRecord,
    encode_body,
    encode_headers,
    parse_records,
    read_headers,
    read_varint,
    varint,
)
from tests.support.records import reference
from tests.support.records.reference import Batch, Record, write_batch, write_record, write_varint
from tests.support.records.strategies import record_lists

BORDERS = [sign * (1 << bits) + step for bits in range(63) for sign in (1, -1) for step in (-1, 0, 1)]
int64s = st.integers(-(2**63), 2**63 - 1) | st.integers(-9000, 9000) | st.sampled_from(BORDERS)


@given(int64s)
def test_a_varint_is_read_as_written_and_no_part_of_it_is(number: int) -> None:
    raw = varint(number)
    assert raw == write_varint(number)
    assert read_varint(memoryview(b"x" + raw), 1, len(raw) + 1, 0, VARLONG_BYTES) == (number, len(raw) + 1)
    for end in range(len(raw)):
        with pytest.raises(CorruptBatch, match=r"a varint is cut off \(record 7\)"):
            read_varint(raw, 0, end, 7, VARLONG_BYTES)


@pytest.mark.parametrize(
    ("raw", "max_bytes"),
    [
        (b"\x80\x80\x80\x80\x80\x00", VARINT_BYTES),
        (b"\xff\xff\xff\xff\xff", VARINT_BYTES),
        (b"\x80\x80\x80\x80\x10", VARINT_BYTES),
        (b"\xff" * 10, VARLONG_BYTES),
        (b"\x80" * 9 + b"\x02", VARLONG_BYTES),
        (b"\x80" * 10 + b"\x00", VARLONG_BYTES),
    ],
)
@pytest.mark.parametrize("before", [0, 3])
def test_a_varint_that_is_too_long_or_too_large(raw: bytes, max_bytes: int, before: int) -> None:
    data = b"\x02" * before + raw + bytes(10)
    with pytest.raises(CorruptBatch, match=f"longer than {max_bytes} bytes or out of range"):
        read_varint(data, before, len(data), 0, max_bytes)


@pytest.mark.parametrize(
    ("raw", "max_bytes", "number"),
    [
        (b"\x80\x00", VARINT_BYTES, 0),  # padded: no writer does it, Java reads it
        (b"\x80\x80\x80\x80\x00", VARINT_BYTES, 0),
        (b"\xff\xff\xff\xff\x0f", VARINT_BYTES, -(2**31)),
        (b"\x80" * 9 + b"\x01", VARLONG_BYTES, 2**62),
    ],
)
def test_a_varint_as_long_as_can_be(raw: bytes, max_bytes: int, number: int) -> None:
    assert read_varint(raw, 0, len(raw), 0, max_bytes) == (number, len(raw))


def stored(record: Record) -> bytes:
    return encode_headers([(name.encode(), value) for name, value in record.headers])


@given(record_lists(min_size=1), st.integers(1, 5000))
def test_records_are_read_and_written_as_by_the_independent_implementation(
    records: tuple[Record, ...], piece: int
) -> None:
    raw = write_batch(Batch(records=records))
    pieces = [raw[start : start + piece] for start in range(61, len(raw), piece)]
    wanted = [
        LogRecord(record.offset, record.timestamp, record.key, record.value, stored(record)) for record in records
    ]
    assert list(parse_records(pieces, read_header(raw))) == wanted
    for record in records:
        body = encode_body(record.timestamp - 5, record.offset, record.key, record.value, stored(record))
        if record.timestamp - 5 >= -(2**63):
            assert varint(len(body)) + body == write_record(record, 0, 5)


def test_reading_from_a_later_record_on() -> None:
    records = reference.numbered([Record(value=b"a"), Record(value=b"b"), Record(value=b"c")])
    header = read_header(write_batch(Batch(records=records)))
    payload = b"".join(write_record(record, 0, 0) for record in records[1:])
    assert [record.value for record in parse_records([payload], header, 1)] == [b"b", b"c"]
    with pytest.raises(CorruptBatch, match=r"impossible record length 0, 0 bytes are left \(record 2\)"):
        list(parse_records([payload[:8] + b"\x00"], header, 1))


def test_times_beyond_an_int64_wrap_around() -> None:
    header = read_header(write_batch(Batch(records=(Record(),))))
    record = write_record(replace(Record(), timestamp=200), 0, 0)
    (found,) = parse_records([record], header._replace(base_timestamp=2**63 - 100))
    assert found.timestamp == -(2**63) + 100


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "the batch has fewer than 1 record"),
        (b"\x00", "impossible record length 0, 0 bytes are left"),
        (b"\x01", "impossible record length -1, 0 bytes are left"),
        (b"\x0e\x00\x00\x00\x01\x01\x00", "the batch ends 1 bytes before the record does"),
        (b"\x0c\x00\x00\x00\x03\x01\x00", "impossible offset delta 0 or key length -2, 2 bytes of the record are left"),
        (
            b"\x0c\x00\x00\x01\x01\x01\x00",
            "impossible offset delta -1 or key length -1, 2 bytes of the record are left",
        ),
        (b"\x0c\x00\x00\x00\x04\x01\x00", "impossible offset delta 0 or key length 2, 2 bytes of the record are left"),
        (b"\x0c\x00\x00\x00\x01\x03\x00", "impossible value length -2, 1 bytes of the record are left"),
        (b"\x0c\x00\x00\x00\x01\x06\x00", "impossible value length 3, 1 bytes of the record are left"),
        (b"\x0c\x00\x80\x80\x80\x80\x80", "a varint is cut off"),
    ],
)
def test_a_payload_that_is_no_record(payload: bytes, message: str) -> None:
    header = read_header(write_batch(Batch(records=(Record(),))))
    with pytest.raises(CorruptBatch) as caught:
        list(parse_records([payload], header))
    assert str(caught.value) == f"bad record: {message} (record 0)"


def test_headers_as_they_are_stored() -> None:
    assert read_headers(b"\x00") == []
    raw = b"\x06\x02a\x01\x00\x04xy\x04bc\x00"
    assert read_headers(raw) == [(b"a", None), (b"", b"xy"), (b"bc", b"")]
    assert encode_headers(read_headers(raw)) == raw


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (b"", "a varint is cut off"),
        (b"\x01", "impossible header count -1"),
        (b"\x00\x00", "1 bytes are left after the record's 0 headers"),
        (b"\x02", "a varint is cut off"),
        (b"\x02\x02a", "a varint is cut off"),
        (b"\x02\x01\x00", "header 0 has no key"),
        (b"\x04\x02a\x02b\x01\x01", "header 1 has no key"),
        (b"\x02\x06ab", "impossible length 3 of a header's key or value, 2 bytes are left"),
        (b"\x02\x02a\x03", "impossible length -2 of a header's key or value, 0 bytes are left"),
        (b"\x02\x02a\x04v", "impossible length 2 of a header's key or value, 1 bytes are left"),
        (b"\x02\x80\x80\x80\x80\x80\x00\x00", "a varint is longer than 5 bytes or out of range"),
        (b"\xfe\xff\xff\xff\x0f\x03", "impossible length -2 of a header's key or value, 0 bytes are left"),
    ],
)
def test_bytes_that_are_no_headers(headers: bytes, message: str) -> None:
    with pytest.raises(CorruptBatch) as caught:
        read_headers(headers, 3)
    assert str(caught.value) == f"bad record: {message} (record 3)"
