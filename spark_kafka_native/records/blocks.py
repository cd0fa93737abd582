"""The payload of a v2 batch in blocks of complete records, so that a reader holds a part of the records at a time."""

from collections.abc import Iterable, Iterator
from typing import Final

from spark_kafka_native.records.codec import Buffer
from spark_kafka_native.records.errors import BadRecord
from spark_kafka_native.records.record import VARINT_BYTES, read_varint

_BLOCK_BYTES: Final = 1024 * 1024


def record_blocks(pieces: Iterable[Buffer], count: int) -> Iterator[tuple[bytes, int]]:
    """Blocks, and how many of the ``count`` records each has; ``pieces`` are the decompressed payload.

    A block has about a MiB, or one larger record. Only the lengths of records are read. If one is impossible, or the
    payload ends too early or too late, the last block does not hold its number of records, and its decoder raises the
    error.
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
    """Where a block of complete records ends, their number, and the bytes needed for the next block.

    The number is 0 if the first record is not complete, and the bytes are 0, too, if there is none.
    """
    view = memoryview(buffer)
    end = found = 0
    while found < count and end < _BLOCK_BYTES and len(view) - end >= VARINT_BYTES:
        try:
            length, body = read_varint(view, end, len(view), found)
        except BadRecord:
            length, body = 0, end
        if length <= 0 or body + length > len(view):
            return end, found, _BLOCK_BYTES if found else max(body + length, _BLOCK_BYTES) if length > 0 else 0
        end = body + length
        found += 1
    return end, found, _BLOCK_BYTES if found else 0
