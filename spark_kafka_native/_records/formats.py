"""Batches of any format, known by their magic: record batches (v2, `batch`) and messages (v0 and v1, `legacy`).

The log of a broker that has been upgraded holds all of them, in any order; so may a Fetch response.
"""

from collections.abc import Iterator

from spark_kafka_native._records.batch import (
    LOG_OVERHEAD,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    Buffer,
    check_crc,
    read_header,
)
from spark_kafka_native._records.errors import IncompleteBatch
from spark_kafka_native._records.legacy import OVERHEADS, check_message_crc, is_message, read_message

MIN_HEADER_BYTES = RECORD_BATCH_OVERHEAD
"""With so many bytes ``read_any`` knows a header of any format; a message may be shorter as a whole."""
_LENGTH_AT = 8


def read_any(buffer: Buffer, position: int = 0, *, whole: bool = True) -> BatchHeader:
    """The header at ``position``: as ``batch.read_header`` or, of a message, ``legacy.read_message`` has it.

    Raises as they do: CorruptBatch, IncompleteBatch.
    """
    if is_message(buffer, position) and _has_length_of_message(buffer, position):
        return read_message(buffer, position, whole=whole)
    return read_header(buffer, position, whole=whole)


def _has_length_of_message(buffer: Buffer, position: int) -> bool:
    """A file's tail of zeroes has magic 0 too, and is no message."""
    length = int.from_bytes(buffer[position + _LENGTH_AT : position + LOG_OVERHEAD], "big", signed=True)
    return length >= min(OVERHEADS)


def check_any_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Compare the CRC in the header with that of the bytes, which must be in ``buffer``. Raises CorruptBatch."""
    if header.magic < 2:
        check_message_crc(buffer, position, header)
    else:
        check_crc(buffer, position, header)


def iter_any(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch or message from ``position`` on, as (its position, its header), CRCs not checked.

    Ends silently before a last one that is cut off, as the last one of a Fetch response may be.

    Raises CorruptBatch: as ``read_any``, after the batches before it were yielded.
    """
    while position < len(buffer):
        try:
            header = read_any(buffer, position)
        except IncompleteBatch:
            return
        yield position, header
        position += header.size_in_bytes
