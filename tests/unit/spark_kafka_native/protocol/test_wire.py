import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._protocol import wire
from spark_kafka_native._protocol.errors import RemoteProtocolError


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varint_round_trip(value: int) -> None:
    out = bytearray()
    wire.put_unsigned_varint(out, value)
    assert len(out) == max(1, -(-value.bit_length() // 7))
    assert wire.read_unsigned_varint(memoryview(out), 0) == (value, len(out))


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x1f"])
def test_malformed_varints(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="malformed varint at position 0"):
        wire.read_unsigned_varint(memoryview(raw), 0)


@given(st.none() | st.text(st.characters(codec="utf-8"), max_size=200))
def test_string_round_trip_in_both_forms(text: str | None) -> None:
    for put, read in (
        (wire.put_string, wire.read_nullable_string),
        (wire.put_compact_string, wire.read_compact_nullable_string),
    ):
        out = bytearray(b"?")
        put(out, text)
        assert read(memoryview(out), 1) == (text, len(out))


@pytest.mark.parametrize(
    ("read", "raw", "problem"),
    [
        (wire.read_string, b"\xff\xff", "null string at position 0"),
        (wire.read_compact_string, b"\x00", "null string at position 0"),
        (wire.read_string, b"\xff\xfe", "string length -2"),
        (wire.read_string, b"\x00\x05abc", "string needs 5 bytes at position 2, 3 are left"),
        (wire.read_string, b"\x00\x02\xc3\x28", "not UTF-8"),
        (wire.read_bytes, b"\xff\xff\xff\xff", "null records at position 0"),
        (wire.read_bytes, b"\xff\xff\xff\xf0", "bytes length -16"),
        (wire.read_compact_bytes, b"\x00", "null records at position 0"),
        (wire.read_count, b"\xff\xff\xff\xff", "null array at position 0"),
        (wire.read_count, b"\xff\xff\xff\xf0", "array length -16"),
        (wire.read_compact_count, b"\x00", "null array at position 0"),
        (wire.read_presence, b"", "struct needs 1 bytes"),
        (wire.read_uuid, b"\x00" * 15, "uuid needs 16 bytes"),
        (wire.read_tag, b"\x01\x09abc", "tagged field 1 needs 9 bytes"),
    ],
)
def test_malformed_values_name_their_position(read: object, raw: bytes, problem: str) -> None:
    assert callable(read)
    with pytest.raises(RemoteProtocolError, match=problem):
        read(memoryview(raw), 0)


def test_presence_byte_is_signed() -> None:
    assert wire.read_presence(memoryview(b"\xff"), 0) == (False, 1)
    assert wire.read_presence(memoryview(b"\x01"), 0) == (True, 1)


def compact(count: int) -> bytes:
    out = bytearray()
    wire.put_unsigned_varint(out, count + 1)
    return bytes(out)


@pytest.mark.parametrize(
    ("read", "write"),
    [
        (wire.read_count, lambda count: count.to_bytes(4, "big")),
        (wire.read_nullable_count, lambda count: count.to_bytes(4, "big")),
        (wire.read_compact_count, compact),
        (wire.read_compact_nullable_count, compact),
    ],
)
def test_arrays_have_a_million_elements_at_most(read: object, write: object) -> None:
    assert callable(read)
    assert callable(write)
    rest = bytes(1_000_001)
    assert read(memoryview(write(1_000_000) + rest), 0)[0] == 1_000_000
    with pytest.raises(RemoteProtocolError, match=r"array of 1000001 elements at position \d; the limit is 1000000"):
        read(memoryview(write(1_000_001) + rest), 0)
    with pytest.raises(RemoteProtocolError, match="array of 1000000 elements needs 1000000 bytes"):
        read(memoryview(write(1_000_000) + bytes(999_999)), 0)


def test_a_struct_has_ten_thousand_tagged_fields_at_most() -> None:
    out = bytearray()
    for count in (10_000, 10_001):
        out.clear()
        wire.put_unsigned_varint(out, count)
        if count == 10_000:
            assert wire.read_tag_count(memoryview(out), 0)[0] == count
        else:
            with pytest.raises(RemoteProtocolError, match="10001 tagged fields at position 0; the limit is 10000"):
                wire.read_tag_count(memoryview(out), 0)
