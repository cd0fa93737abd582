"""One record in plain Python, for the few that are handled singly: control records, and whatever is being blamed.

A record of format v2 (KIP-82, KIP-98)::

    record = length           varint   of everything behind it
             attributes       int8     no bit is in use
             timestamp_delta  varlong  to the batch's base_timestamp
             offset_delta     varint   to the batch's base_offset
             key              varint length, -1 for null, and so many bytes
             value            the same
             headers          varint count, then (key, value)*; a header's key is never null

All integers are zig-zag varints: seven bits a byte, lowest first, the high bit set on all bytes but the last, and
0, -1, 1, -2 mapped to 0, 1, 2, 3.
"""

from typing import NamedTuple

from spark_kafka_native.records.errors import BadRecord, CorruptBatch

VARINT_BYTES = 5
VARLONG_BYTES = 10
MIN_BODY_BYTES = 6
MIN_RECORD_BYTES = 7
"""Bytes of a record without key, value and headers, and of its body, which is all but its length field."""


def as_int64(number: int) -> int:
    """The int64 that Java has for a sum or difference of int64s, which wraps around."""
    return (number + 2**63 & 2**64 - 1) - 2**63


class Record(NamedTuple):
    """Key and value of a record; None is null."""

    key: bytes | None
    value: bytes | None


def read_varint(
    view: memoryview, position: int, end: int, index: int, max_bytes: int = VARINT_BYTES
) -> tuple[int, int]:
    """The varint at ``position`` and the position behind it; ``index`` is its record's, for the error.

    Raises BadRecord: not over before ``end``, longer than ``max_bytes``, or beyond int32 (int64 with VARLONG_BYTES).
    """
    value = 0
    for shift in range(0, 7 * max_bytes, 7):
        if position >= end:
            raise BadRecord(index, "a varint is cut off")
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 and value < 1 << (32 if max_bytes == VARINT_BYTES else 64):
            return (value >> 1) ^ -(value & 1), position
    raise BadRecord(index, f"a varint is longer than {max_bytes} bytes or out of range")


def varint(value: int) -> bytes:
    """The varint of ``value``, an int64."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_first_record(payload: memoryview) -> Record:
    """Key and value of the first record of an uncompressed payload; its headers and what follows are not looked at.

    Raises BadRecord: a varint or a length that is impossible.
    """
    length, position = read_varint(payload, 0, len(payload), 0)
    end = position + length
    if not position < end <= len(payload):
        raise BadRecord(0, f"impossible record length {length}, {len(payload) - position} bytes are left")
    _, position = read_varint(payload, position + 1, end, 0, VARLONG_BYTES)
    _, position = read_varint(payload, position, end, 0)
    key, position = _read_bytes(payload, position, end)
    value, _ = _read_bytes(payload, position, end)
    return Record(key, value)


def read_header_keys(headers: bytes) -> list[bytes]:
    """The keys of a record's headers, from their count to the end of the record.

    Raises CorruptBatch: a varint or a length that is impossible, a null key, bytes after the last header.
    """
    view, end = memoryview(headers), len(headers)
    keys: list[bytes] = []
    try:
        count, position = read_varint(view, 0, end, 0)
        for _ in range(count):  # of at least two bytes each: an impossible count ends at the end of the bytes
            key, position = _read_bytes(view, position, end)
            if key is None:
                raise BadRecord(0, "a header without a key")
            keys.append(key)
            _, position = _read_bytes(view, position, end)
        if count < 0 or position != end:
            raise BadRecord(0, "its headers do not end where it ends")
    except BadRecord as error:
        raise CorruptBatch(f"bad record: {error.detail}") from None
    return keys


def encode_first_record(key: bytes | None, value: bytes | None) -> bytes:
    """A payload of one record without headers, its timestamp and offset the batch's base."""
    body = b"\x00" + varint(0) + varint(0) + _bytes(key) + _bytes(value) + varint(0)
    return varint(len(body)) + body


def _read_bytes(view: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(view, position, end, 0)
    if not -1 <= length <= end - position:
        raise BadRecord(0, f"impossible length {length} of a key or value, {end - position} bytes are left")
    if length < 0:
        return None, position
    return bytes(view[position : position + length]), position + length


def _bytes(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content
