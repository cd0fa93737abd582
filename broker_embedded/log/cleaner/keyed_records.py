"""The records of a batch as compaction sees them: where each is, its offset, its key, and whether it has a value.

In plain Python, because the vectorised decoder's packages take ten times the memory of a broker; a record takes a good
microsecond. The format is told in `spark_kafka_native.records.record`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from spark_kafka_native.records.batch import BatchHeader, CorruptBatch
from spark_kafka_native.records.blocks import record_blocks
from spark_kafka_native.records.codec import Buffer
from spark_kafka_native.records.record import as_int64, varint

KeyedRecord: TypeAlias = tuple[int, int, int, bytes | None, bool]
"""Start and end in the block, offset delta, key, whether there is a value. A tuple for speed."""

_LAST_BYTE: Final = 0x7F
"""A byte of a number above this is not its last."""
_NEGATIVE: Final = 1
"""This bit of a number is its sign: 0, -1, 1, -2 stand there as 0, 1, 2, 3. A negative length is that of a null."""
_LONGEST_SHIFT: Final = 63


def keyed_blocks(pieces: Iterable[Buffer], header: BatchHeader) -> Iterator[tuple[bytes, list[KeyedRecord]]]:
    """Yield the records of a batch block by block; ``pieces`` are its decompressed payload (see `records.blocks`).

    Raises CorruptBatch: the payload does not hold what the header says.
    """
    first = 0
    for block, count in record_blocks(pieces, header.records_count):
        found: list[KeyedRecord] = []
        try:
            end = _walk(block, count, found.append)
        except IndexError:
            raise _corrupt(first + len(found), "it is cut off, or a length in it is impossible", header) from None
        if end != len(block):
            raise _corrupt(first + len(found), f"{len(block) - end} bytes are left after the last", header)
        yield block, found
        first += count


def _walk(payload: bytes, count: int, append: Callable[[KeyedRecord], None]) -> int:
    """Where the last of ``count`` records ends. Raises IndexError: a record is malformed."""
    end, size = 0, len(payload)
    for _ in range(count):
        start = end
        length, position = payload[start], start + 1
        if length > _LAST_BYTE:
            if payload[position] > _LAST_BYTE:
                length, position = _go_on(payload, position, length)
            else:  # two bytes, as records mostly have
                length, position = length & _LAST_BYTE | payload[position] << 7, position + 1
        end = position + (length >> 1)
        position += 1  # behind the attributes
        while payload[position] > _LAST_BYTE:  # the timestamp
            position += 1
        delta, position = payload[position + 1], position + 2
        if delta > _LAST_BYTE:
            delta, position = _go_on(payload, position, delta)
        key_length, position = payload[position], position + 1
        if key_length > _LAST_BYTE:
            key_length, position = _go_on(payload, position, key_length)
        key = None
        if not key_length & _NEGATIVE:
            key = payload[position : position + (key_length >> 1)]
            position += key_length >> 1
        if (length | delta) & _NEGATIVE or not position + 1 < end <= size:
            raise IndexError  # a length of the value and a count of headers must follow, within the record
        append((start, end, delta >> 1, key, not payload[position] & _NEGATIVE))
    return end


def timestamp_delta(payload: bytes, record: KeyedRecord) -> int:
    """How much later than the batch's base timestamp a record is."""
    position = _behind(payload, record[0]) + 1  # of the length, and the attributes
    number = payload[position]
    if number > _LAST_BYTE:
        number, _ = _go_on(payload, position + 1, number)
    return (number >> 1) ^ -(number & _NEGATIVE)


def with_base_timestamp(payload: bytes, record: KeyedRecord, moved_ms: int) -> bytes:
    """A record's bytes in a batch whose base timestamp is ``moved_ms`` later."""
    body = _behind(payload, record[0])  # of the length
    rest = _behind(payload, body + 1)  # of attributes and timestamp
    delta = as_int64(timestamp_delta(payload, record) - moved_ms)
    moved = payload[body : body + 1] + varint(delta) + payload[rest : record[1]]
    return varint(len(moved)) + moved


def _behind(payload: bytes, position: int) -> int:
    while payload[position] > _LAST_BYTE:
        position += 1
    return position + 1


def _go_on(payload: bytes, position: int, value: int) -> tuple[int, int]:
    """The unsigned number that goes on at ``position`` behind its first byte, and the position behind it."""
    value &= _LAST_BYTE
    for shift in range(7, _LONGEST_SHIFT + 7, 7):
        byte = payload[position]
        position += 1
        value |= (byte & _LAST_BYTE) << shift
        if byte <= _LAST_BYTE:
            return value, position
    raise IndexError


def _corrupt(index: int, detail: str, header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(f"a record does not read: {detail}", base_offset=header.base_offset, record_index=index)
