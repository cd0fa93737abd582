"""The records of a batch for compaction: position, offset and key of each, and whether it has a value.

In plain Python, because the vectorised decoder's packages take ten times the memory of a broker. A record takes about a
microsecond. `spark_kafka_native._records.record` describes the format.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from spark_kafka_native._records.batch import BatchHeader, CorruptBatch
from spark_kafka_native._records.compression import Buffer
from spark_kafka_native._records.record import as_int64, record_blocks, varint

KeyedRecord: TypeAlias = tuple[int, int, int, bytes | None, bool]
"""Start and end in the block, offset delta, key, whether it has a value. A tuple for speed."""

_LAST_BYTE: Final = 0x7F
"""A byte of a number above this is not its last."""
_NEGATIVE: Final = 1
"""The sign bit of a zigzag number: 0, -1, 1, -2 are encoded as 0, 1, 2, 3. A negative length is null."""
_LONGEST_SHIFT: Final = 63


def keyed_blocks(pieces: Iterable[Buffer], header: BatchHeader) -> Iterator[tuple[bytes, list[KeyedRecord]]]:
    """Yield the records of a batch block by block; ``pieces`` are its decompressed payload (see `record_blocks`).

    Raises CorruptBatch: the payload does not fit the header.
    """
    first = 0
    for block, count in record_blocks(pieces, header.records_count):
        found: list[KeyedRecord] = []
        try:
            end = _walk(block, count, found.append)
        except IndexError:
            raise _corrupt(first + len(found), "it is incomplete, or a length in it is impossible", header) from None
        if end != len(block):
            raise _corrupt(first + len(found), f"{len(block) - end} bytes are left after the last", header)
        yield block, found
        first += count


def _walk(payload: bytes, count: int, append: Callable[[KeyedRecord], None]) -> int:
    """The position after the last of ``count`` records. Raises IndexError: a record is malformed."""
    end, size = 0, len(payload)
    for _ in range(count):
        start = end
        length, position = payload[start], start + 1
        if length > _LAST_BYTE:
            if payload[position] > _LAST_BYTE:
                length, position = _rest_of_number(payload, position, length)
            else:  # two bytes, as records mostly have
                length, position = length & _LAST_BYTE | payload[position] << 7, position + 1
        end = position + (length >> 1)
        position += 1  # skip the attributes
        while payload[position] > _LAST_BYTE:  # the timestamp
            position += 1
        delta, position = payload[position + 1], position + 2
        if delta > _LAST_BYTE:
            delta, position = _rest_of_number(payload, position, delta)
        key_length, position = payload[position], position + 1
        if key_length > _LAST_BYTE:
            key_length, position = _rest_of_number(payload, position, key_length)
        key = None
        if not key_length & _NEGATIVE:
            key = payload[position : position + (key_length >> 1)]
            position += key_length >> 1
        if (length | delta) & _NEGATIVE or not position + 1 < end <= size:
            raise IndexError  # a length of the value and a count of headers must follow, within the record
        append((start, end, delta >> 1, key, not payload[position] & _NEGATIVE))
    return end


def timestamp_delta(payload: bytes, record: KeyedRecord) -> int:
    """The timestamp delta of a record."""
    position = _after_number(payload, record[0]) + 1  # of the length, and the attributes
    number = payload[position]
    if number > _LAST_BYTE:
        number, _ = _rest_of_number(payload, position + 1, number)
    return (number >> 1) ^ -(number & _NEGATIVE)


def with_base_timestamp(payload: bytes, record: KeyedRecord, moved_ms: int) -> bytes:
    """A record's bytes for a batch whose base timestamp is ``moved_ms`` later."""
    body = _after_number(payload, record[0])  # of the length
    rest = _after_number(payload, body + 1)  # of attributes and timestamp
    delta = as_int64(timestamp_delta(payload, record) - moved_ms)
    moved = payload[body : body + 1] + varint(delta) + payload[rest : record[1]]
    return varint(len(moved)) + moved


def _after_number(payload: bytes, position: int) -> int:
    while payload[position] > _LAST_BYTE:
        position += 1
    return position + 1


def _rest_of_number(payload: bytes, position: int, value: int) -> tuple[int, int]:
    """The unsigned number whose first byte is ``value``, and the position after it."""
    value &= _LAST_BYTE
    for shift in range(7, _LONGEST_SHIFT + 7, 7):
        byte = payload[position]
        position += 1
        value |= (byte & _LAST_BYTE) << shift
        if byte <= _LAST_BYTE:
            return value, position
    raise IndexError


def _corrupt(index: int, detail: str, header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(f"a record cannot be decoded: {detail}", base_offset=header.base_offset, record_index=index)
