"""Iterate over the batches of a segment file. Messages of the old formats v0 and v1 count as batches."""

import zlib
from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from broker_embedded._platform.platform import File
from spark_kafka_native._records.batch import MAGIC, BatchHeader, CorruptBatch, IncompleteBatch, UnreadableBatch
from spark_kafka_native._records.conversion import read_records
from spark_kafka_native._records.formats import MIN_HEADER_BYTES, check_any_crc, read_any
from spark_kafka_native._records.record import LogRecord

_HEADER_BLOCK: Final = 4096
"""Bytes read at once when only headers matter: many small batches, or the header of one large batch."""
_BODY_BLOCK: Final = 1024 * 1024
_CRC_FROM: Final = 21
_MESSAGE_CRC_FROM: Final = 16


def batch_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch between two positions of a file, as (its position, its header); payloads are not read.

    Raises OSError. CorruptBatch, naming file and position: the bytes are not a batch, or the batch ends after ``end``.
    """
    return _step(file, position, end, _HEADER_BLOCK, check=False)


def checked_batches(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """As ``batch_headers``, and every byte is read and checked against the CRCs."""
    return _step(file, position, end, _BODY_BLOCK, check=True)


def batch_bytes(file: File, position: int, header: BatchHeader) -> memoryview:
    """The whole batch at ``position``. Raises OSError. CorruptBatch: the file ends within it."""
    raw = file.read_at(position, header.size_in_bytes)
    if len(raw) < header.size_in_bytes:
        detail = "the file ends within a record batch"
        raise CorruptBatch(detail, position=position, file=file.path, base_offset=header.base_offset)
    return memoryview(raw)


def batch_records(file: File, position: int, header: BatchHeader) -> list[LogRecord]:
    """Every record of the batch at ``position``, a control record too. Raises OSError, CorruptBatch."""
    raw = batch_bytes(file, position, header)
    try:
        return list(read_records(raw, 0, header))
    except UnreadableBatch as error:
        raise error.placed(start=position, file=file.path, base_offset=header.base_offset) from None


def first_offset(file: File, position: int, header: BatchHeader) -> int:
    """The first offset of a batch, of a compressed message that of its inner ones. Raises OSError, CorruptBatch."""
    if header.magic == MAGIC or not header.compression:
        return header.base_offset
    return batch_records(file, position, header)[0].offset


def is_zeroes(file: File, position: int, end: int) -> bool:
    """Whether all bytes between two positions of a file are zero. Raises OSError."""
    while position < end:
        piece = file.read_at(position, min(_BODY_BLOCK, end - position))
        if not piece or piece.strip(b"\0"):
            return False
        position += len(piece)
    return True


def _step(file: File, position: int, end: int, block_size: int, *, check: bool) -> Iterator[tuple[int, BatchHeader]]:
    block, start = b"", position
    while position < end:
        if position + MIN_HEADER_BYTES > start + len(block) < end:
            block, start = file.read_at(position, min(block_size, end - position)), position
        try:
            header = read_any(block, position - start, whole=False)
            next_position = position + header.size_in_bytes
            if next_position > end:
                raise IncompleteBatch(
                    f"a record batch of {header.size_in_bytes} bytes is cut off after {end - position}",
                    position=position - start,
                    base_offset=header.base_offset,
                )
            if check:
                if next_position > start + len(block) and position > start:
                    block, start = file.read_at(position, min(block_size, end - position)), position
                if next_position <= start + len(block):
                    check_any_crc(block, position - start, header)
                else:
                    _check_long_crc(file, position, header)
        except UnreadableBatch as error:
            raise error.placed(start=start, file=file.path) from None
        yield position, header
        position = next_position


def _check_long_crc(file: File, position: int, header: BatchHeader) -> None:
    """Check a batch that is larger than a block, without holding all of it."""
    is_batch = header.magic == MAGIC
    update = crc32c if is_batch else zlib.crc32
    at, end, crc = position + (_CRC_FROM if is_batch else _MESSAGE_CRC_FROM), position + header.size_in_bytes, 0
    while at < end:
        piece = file.read_at(at, min(_BODY_BLOCK, end - at))
        if not piece:
            break
        crc = update(piece, crc)
        at += len(piece)
    if crc != header.crc:
        raise CorruptBatch(
            f"the CRC of the record batch is {crc:#010x}, its header says {header.crc:#010x}",
            position=0,  # the block was read from here
            base_offset=header.base_offset,
        )
