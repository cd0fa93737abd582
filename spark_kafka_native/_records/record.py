"""Records of format v2 in plain Python: the reference reader and writer.

The compiled kernel is tested against the reader. When the kernel refuses a payload, the reader reads it again and
raises the error, so that each error has one wording. Without the kernel, the reader reads everything.

A record of format v2 (KIP-82, KIP-98)::

    record = length           varint   bytes after this field
             attributes       int8     no bit is in use
             timestamp_delta  varlong  to the batch's base_timestamp
             offset_delta     varint   to the batch's base_offset
             key              varint length, -1 for null, and so many bytes
             value            the same
             headers          varint count, then (key, value)*; a header's key is never null

All integers are zig-zag varints: seven bits a byte, lowest first, the high bit set on all bytes but the last, and
0, -1, 1, -2 mapped to 0, 1, 2, 3.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from spark_kafka_native._protocol.errors import counted
from spark_kafka_native._records.batch import BatchHeader, Buffer, TimestampType
from spark_kafka_native._records.errors import CorruptBatch

VARINT_BYTES: Final = 5
VARLONG_BYTES: Final = 10
MIN_BODY_BYTES: Final = 6
MIN_RECORD_BYTES: Final = 7
"""Bytes of a record without key, value and headers, and of its body, which is all but its length field."""
NO_HEADERS: Final = b"\x00"

_BLOCK_BYTES: Final = 1024 * 1024
_LAST_BYTE: Final = 0x7F
"""A byte of a varint above this is not its last."""
_SMALL: Final = tuple((number >> 1) ^ -(number & 1) for number in range(_LAST_BYTE + 1))
"""The integers of varints of one byte."""
_KEPT_BYTES: Final = 2


class LogRecord(NamedTuple):
    """One record of any format: its offset in the log, its timestamp (-1: none), key and value (None is null).

    ``headers`` are a v2 record's as they are stored: a varint count and the headers.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: bytes = NO_HEADERS


def as_int64(number: int) -> int:
    """The int64 that Java has for a sum or difference of int64s, which wraps around."""
    return (number + 2**63 & 2**64 - 1) - 2**63


def bad_record(index: int, detail: str) -> CorruptBatch:
    """The error for record ``index`` of a batch."""
    return CorruptBatch(f"bad record: {detail}", record_index=index)


def bad_value(index: int, length: int, left: int) -> CorruptBatch:
    """The error for a value of ``length`` bytes where the record has ``left``, headers included."""
    return bad_record(index, f"impossible value length {length}, {left} bytes of the record are left")


# --- reading ---------------------------------------------------------------------------------------------------------


def read_varint(data: Buffer, position: int, end: int, index: int, max_bytes: int = VARINT_BYTES) -> tuple[int, int]:
    """The varint at ``position`` and the position after it; ``index`` is its record's, for the error.

    Raises CorruptBatch: it does not end before ``end``, is longer than ``max_bytes``, or is no int32 (no int64 with
    VARLONG_BYTES).
    """
    if position + 1 < end and data[position] > _LAST_BYTE and data[position + 1] <= _LAST_BYTE:  # the most frequent
        value = data[position] & _LAST_BYTE | data[position + 1] << 7
        return (value >> 1) ^ -(value & 1), position + 2
    value = 0
    for shift in range(0, 7 * max_bytes, 7):
        if position >= end:
            raise bad_record(index, "a varint is cut off")
        byte = data[position]
        position += 1
        value |= (byte & _LAST_BYTE) << shift
        if byte <= _LAST_BYTE and value < 1 << (32 if max_bytes == VARINT_BYTES else 64):
            return (value >> 1) ^ -(value & 1), position
    raise bad_record(index, f"a varint is longer than {max_bytes} bytes or out of range")


def parse_records(pieces: Iterable[Buffer], header: BatchHeader, first: int = 0) -> Iterator[LogRecord]:
    """The records of a batch from record ``first`` on; ``pieces`` are its decompressed payload from there on.

    Each record is checked when it is read. Neither the order of offsets nor the content of headers is checked.

    Raises CorruptBatch: they are not what the format allows, or not as many as ``header`` says.
    """
    for block, count in record_blocks(pieces, header.records_count - first):
        yield from _parse_block(block, header, range(first, first + count))
        first += count


def _parse_block(  # noqa: C901, PLR0912 -- a call for a varint of one byte would take as long as the rest of its field
    block: bytes, header: BatchHeader, indexes: range
) -> Iterator[LogRecord]:
    is_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    base_offset, base_time, max_time = header.base_offset, header.base_timestamp, header.max_timestamp
    index, at, size = indexes.start, 0, len(block)
    try:
        for index in indexes:
            if at == size:
                raise bad_record(index, f"the batch has fewer than {counted(header.records_count, 'record')}")
            length = block[at]
            if length <= _LAST_BYTE:
                length, at = _SMALL[length], at + 1
            else:
                length, at = read_varint(block, at, size, index)
            stop = at + length
            if length < MIN_BODY_BYTES:
                raise bad_record(index, f"impossible record length {length}, {size - at} bytes are left")
            if stop > size:
                raise bad_record(index, f"the batch ends {stop - size} bytes before the record does")
            time = block[at + 1]  # after the attributes
            if time <= _LAST_BYTE:
                time, at = _SMALL[time], at + 2
            else:
                time, at = read_varint(block, at + 1, stop, index, VARLONG_BYTES)
            delta = block[at]
            if delta <= _LAST_BYTE:
                delta, at = _SMALL[delta], at + 1
            else:
                delta, at = read_varint(block, at, stop, index)
            key_length = block[at]
            if key_length <= _LAST_BYTE:
                key_length, key_at = _SMALL[key_length], at + 1
            else:
                key_length, key_at = read_varint(block, at, stop, index)
            at = key_at + key_length if key_length > 0 else key_at
            if delta < 0 or key_length < -1 or at >= stop:
                what = f"impossible offset delta {delta} or key length {key_length}"
                raise bad_record(index, f"{what}, {max(stop - key_at, 0)} bytes of the record are left")
            value_length = block[at]
            if value_length <= _LAST_BYTE:
                value_length, value_at = _SMALL[value_length], at + 1
            else:
                value_length, value_at = read_varint(block, at, stop, index)
            value_end = value_at + value_length if value_length > 0 else value_at
            if value_length < -1 or value_end >= stop:
                raise bad_value(index, value_length, stop - value_at)
            time = max_time if is_stamped else base_time + time
            yield LogRecord(
                base_offset + delta,
                time if -(2**63) <= time < 2**63 else as_int64(time),
                None if key_length < 0 else block[key_at:at],
                None if value_length < 0 else block[value_at:value_end],
                block[value_end:stop],
            )
            at = stop
    except IndexError:
        raise bad_record(index, "a varint is cut off") from None
    if at != size:
        raise CorruptBatch(f"{size - at} bytes are left after the batch's last record")


def read_headers(headers: bytes, index: int = 0) -> list[tuple[bytes, bytes | None]]:
    """The headers of record ``index``, from their count to the end of the record.

    Raises CorruptBatch: a varint or a length that is impossible, a null key, bytes after the last header.
    """
    return list(iter_headers(headers, index))


def iter_headers(headers: bytes, index: int = 0) -> Iterator[tuple[bytes, bytes | None]]:
    """As ``read_headers``, header by header."""
    count, position = read_varint(headers, 0, len(headers), index)
    if count < 0:
        raise bad_record(index, f"impossible header count {count}")
    for number in range(count):  # of at least two bytes each: an impossible count ends at the end of the bytes
        key, position = _read_bytes(headers, position, index)
        if key is None:
            raise bad_record(index, f"header {number} has no key")
        value, position = _read_bytes(headers, position, index)
        yield key, value
    if position != len(headers):
        raise bad_record(index, f"{len(headers) - position} bytes are left after the record's {count} headers")


def _read_bytes(headers: bytes, position: int, index: int) -> tuple[bytes | None, int]:
    length, position = read_varint(headers, position, len(headers), index)
    left = len(headers) - position
    if not -1 <= length <= left:
        raise bad_record(index, f"impossible length {length} of a header's key or value, {left} bytes are left")
    if length < 0:
        return None, position
    return headers[position : position + length], position + length


def record_blocks(pieces: Iterable[Buffer], count: int) -> Iterator[tuple[bytes, int]]:
    """Blocks of complete records, and how many of the ``count`` records each has.

    ``pieces`` are the decompressed payload. A block has about a MiB, or one larger record, so that a reader holds a
    part of the records at a time. Only the lengths of records are read. If one is impossible, or the payload ends too
    early or too late, the last block does not hold its number of records, and its reader raises the error.
    """
    buffer = bytearray()
    needed = _BLOCK_BYTES
    for piece in pieces:
        buffer += piece
        while len(buffer) >= needed:
            end, found, needed = _complete_records(buffer, count)
            if found:
                with memoryview(buffer) as view:
                    block = bytes(view[:end])
                del buffer[:end]
                count -= found
                yield block, found
            elif not needed:
                break
        if not needed:
            break
    if buffer or count:
        block, buffer = bytes(buffer), bytearray()  # a record may be large: it is held once
        yield block, count


def _complete_records(buffer: bytearray, count: int) -> tuple[int, int, int]:
    """The end of a block of complete records, their number, and the bytes needed for the next block.

    The number is 0 if the first record is not complete, and the bytes are 0, too, if there is none.
    """
    view = memoryview(buffer)
    end = found = 0
    while found < count and end < _BLOCK_BYTES and len(view) - end >= VARINT_BYTES:
        try:
            length, body = read_varint(view, end, len(view), found)
        except CorruptBatch:
            length, body = 0, end
        if length <= 0 or body + length > len(view):
            return end, found, _BLOCK_BYTES if found else max(body + length, _BLOCK_BYTES) if length > 0 else 0
        end = body + length
        found += 1
    return end, found, _BLOCK_BYTES if found else 0


# --- writing ---------------------------------------------------------------------------------------------------------


class _Varints(dict[int, bytes]):
    """Varints by their numbers; those of one or two bytes are kept after their first use."""

    def __missing__(self, number: int) -> bytes:
        rest = (number << 1) ^ (number >> 63)
        out = bytearray()
        while rest > _LAST_BYTE:
            out.append(rest & _LAST_BYTE | 0x80)
            rest >>= 7
        out.append(rest)
        made = bytes(out)
        if len(made) <= _KEPT_BYTES:
            self[number] = made
        return made


varint: Final = _Varints().__getitem__
"""The varint of an int64."""
_NULL: Final = varint(-1)


def encode_body(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: bytes = NO_HEADERS
) -> bytes:
    """A record without its length; ``headers`` are its count of headers and the headers as they are stored."""
    return (
        b"\x00"
        + varint(timestamp_delta)
        + varint(offset_delta)
        + (_NULL if key is None else varint(len(key)) + key)
        + (_NULL if value is None else varint(len(value)) + value)
        + headers
    )


def encode_headers(headers: Collection[tuple[bytes, bytes | None]]) -> bytes:
    """The headers of a record as they are stored."""
    return varint(len(headers)) + b"".join(
        varint(len(key)) + key + (_NULL if value is None else varint(len(value)) + value) for key, value in headers
    )
