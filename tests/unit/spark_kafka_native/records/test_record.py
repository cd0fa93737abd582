"""Single records in plain Python."""

import pytest

from spark_kafka_native.records.errors import BadRecord, CorruptBatch
from spark_kafka_native.records.record import encode_first_record, read_first_record, read_header_keys
from tests.support import reference_records as reference


@pytest.mark.parametrize("key", [None, b"", b"k" * 70])
@pytest.mark.parametrize("value", [None, b"", b"v" * 9000])
def test_a_payload_of_one_record(key: bytes | None, value: bytes | None) -> None:
    payload = encode_first_record(key, value)
    assert payload == reference.write_record(reference.Record(key, value), 0, 0)
    assert read_first_record(memoryview(payload + payload)) == (key, value)


def test_headers_and_deltas_are_passed_over() -> None:
    record = reference.Record(b"k", b"v", (("h", b"x"),), timestamp=-(2**62), offset=2**31 - 1)
    assert read_first_record(memoryview(reference.write_record(record, 0, 0))) == (b"k", b"v")


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "a varint is cut off"),
        (b"\x00", "impossible record length 0"),
        (b"\x01", "impossible record length -1"),
        (b"\x0e\x00\x00\x00\x01\x01\x00", "impossible record length 7, 6 bytes are left"),
        (b"\x0c\x00\x00\x00\x03\x01\x00", "impossible length -2 of a key or value"),
        (b"\x0c\x00\x00\x00\x01\x06\x00", "impossible length 3 of a key or value, 1 bytes are left"),
        (b"\x04\x00\x00\x00\x01\x01\x00", "a varint is cut off"),
        (b"\x0c\x00\x80\x80\x80\x80\x80", "a varint is cut off"),
    ],
)
def test_payloads_that_begin_with_no_record(payload: bytes, message: str) -> None:
    with pytest.raises(BadRecord, match=f"record 0: {message}"):
        read_first_record(memoryview(payload))


def test_the_keys_of_headers() -> None:
    assert read_header_keys(b"\x00") == []
    assert read_header_keys(b"\x06\x02a\x01\x00\x04xy\x04bc\x00") == [b"a", b"", b"bc"]


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (b"", "a varint is cut off"),
        (b"\x01", "its headers do not end where it ends"),
        (b"\x00\x00", "its headers do not end where it ends"),
        (b"\x02", "a varint is cut off"),
        (b"\x02\x02a", "a varint is cut off"),
        (b"\x02\x01\x00", "a header without a key"),
        (b"\x02\x06ab", "impossible length 3 of a key or value, 2 bytes are left"),
        (b"\x02\x02a\x03", "impossible length -2 of a key or value"),
        (b"\x02\x02a\x04v", "impossible length 2 of a key or value, 1 bytes are left"),
        (b"\xfe\xff\xff\xff\x0f\x03", "impossible length -2 of a key or value"),
    ],
)
def test_bytes_that_are_no_headers(headers: bytes, message: str) -> None:
    with pytest.raises(CorruptBatch, match=f"bad record: {message}"):
        read_header_keys(headers)
