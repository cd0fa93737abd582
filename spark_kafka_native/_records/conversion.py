"""Records converted from one message format to another, in plain Python: a broker does it for older and newer clients.

Up (v0, v1 to v2) nothing is lost. Down (v2 to v1, v1 to v0) headers are lost, and in v0 timestamps. Control batches do
not exist in the old formats and are dropped. A compressed batch becomes one wrapper of the same codec; zstd does not
exist there.
"""

from collections.abc import Callable, Iterable, Iterator

from spark_kafka_native._protocol.producer_id import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from spark_kafka_native._records.batch import (
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionType,
    TimestampType,
    seal,
    write_header,
)
from spark_kafka_native._records.compression import Buffer, compressor
from spark_kafka_native._records.decompression import MAX_DECOMPRESSED_BYTES, SMALL_PIECES, decompressed_pieces
from spark_kafka_native._records.errors import CorruptBatch, check_written
from spark_kafka_native._records.legacy import read_messages
from spark_kafka_native._records.legacy_write import write_message_set
from spark_kafka_native._records.record import LogRecord, encode_body, parse_records, varint

_LONG_MAX = 2**63 - 1
_NOBODYS = BatchHeader(
    0, 0, NO_PARTITION_LEADER_EPOCH, MAGIC, 0, 0, 0, 0, 0, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, 0
)


def read_records(
    buffer: memoryview, position: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[LogRecord]:
    """Each record of the batch, message or wrapper at ``position``, of any format; the outer CRC is the caller's.

    Of a record batch, about a MiB of records is held at a time.

    Raises CorruptBatch: the payload is not what the header says, or decompresses to more than ``max_bytes``.
    """
    if header.magic < MAGIC:
        yield from read_messages(buffer, position, header, max_bytes=max_bytes)
        return
    try:
        yield from parse_records(payload_pieces(buffer, position, header, max_bytes=max_bytes), header)
    except CorruptBatch as error:
        raise error.placed(start=position, base_offset=header.base_offset) from error


def payload_pieces(
    buffer: memoryview, position: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Buffer]:
    """The payload of the record batch at ``position``, decompressed, in pieces. Raises CorruptBatch."""
    stored = buffer[position + RECORD_BATCH_OVERHEAD : position + header.size_in_bytes]
    return decompressed_pieces(header.compression, stored, max_bytes=max_bytes)


def write_batch(
    records: Iterable[LogRecord],
    *,
    base_offset: int,
    compression: CompressionType = CompressionType.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    like: BatchHeader | None = None,
    max_bytes: int | None = None,
) -> bytearray:
    """The records, at least one, as one sealed batch of format v2; offsets ascend from ``base_offset`` or later.

    The batch has the producer, transaction and kind of the header ``like``, or none. The records are compressed as they
    come, so that only compressed bytes are held.

    Raises ValueError: a level the codec does not have, or times too far apart for an int64 to hold the distance.
    OversizedBatch: the batch has more than ``max_bytes``.
    """
    compressed = compressor(compression, level)
    batch, plain = bytearray(RECORD_BATCH_OVERHEAD), bytearray()
    count = last_offset = base_timestamp = smallest = largest = 0
    for offset, timestamp, key, value, headers in records:
        if not count:
            base_timestamp = smallest = largest = timestamp
        elif timestamp > largest:
            largest = timestamp
        elif timestamp < smallest:
            smallest = timestamp
        count, last_offset = count + 1, offset
        body = encode_body(timestamp - base_timestamp, offset - base_offset, key, value, headers)
        plain += varint(len(body))
        plain += body
        if len(plain) >= SMALL_PIECES:
            batch += compressed.compress(plain)
            plain.clear()
            check_written(len(batch), max_bytes)
    if max(largest - base_timestamp, base_timestamp - smallest) > _LONG_MAX:
        raise ValueError("timestamps of the records are too far apart for one int64 to hold the distance")
    batch += compressed.compress(plain)
    batch += compressed.flush()
    check_written(len(batch), max_bytes)
    header = (like or _NOBODYS)._replace(
        base_offset=base_offset,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max(NO_TIMESTAMP, largest),
        records_count=count,
    )
    return write_header_like(batch, header, compression, timestamp_type)


def recompress(
    pieces: Iterable[Buffer], header: BatchHeader, *, compression: CompressionType, level: int | None, max_bytes: int
) -> bytearray:
    """A sealed batch with the payload ``pieces`` compressed by another codec; all else is as ``header`` has it.

    Raises ValueError: a level the codec does not have. OversizedBatch: the batch has more than ``max_bytes``. The
    errors of ``pieces``.
    """
    compressed = compressor(compression, level)
    batch = bytearray(RECORD_BATCH_OVERHEAD)
    for piece in pieces:
        batch += compressed.compress(piece)
        check_written(len(batch), max_bytes)
    batch += compressed.flush()
    check_written(len(batch), max_bytes)
    return write_header_like(batch, header, compression, header.timestamp_type)


def write_header_like(
    batch: bytearray,
    header: BatchHeader,
    compression: CompressionType,
    timestamp_type: TimestampType,
    *,
    delete_horizon: bool = False,
) -> bytearray:
    """Write ``header`` and the CRC into the space before the payload of ``batch``, which is returned."""
    write_header(
        batch,
        size_in_bytes=len(batch),
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        records_count=header.records_count,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        compression=compression,
        timestamp_type=timestamp_type,
        transactional=header.is_transactional,
        control=header.is_control,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        delete_horizon=delete_horizon,
    )
    seal(batch)
    return batch


def convert_down(
    buffer: memoryview,
    position: int,
    header: BatchHeader,
    *,
    magic: int,
    from_offset: int,
    each: Callable[[Iterable[LogRecord]], Iterator[LogRecord]] = iter,
) -> bytes:
    """The batch or message at ``position`` as a message set of format v0 or v1; as it is if it is no newer than that.

    Records before ``from_offset`` are left out of an uncompressed batch: they become single messages, and some clients
    expect the first message of a response to have the requested offset. A control batch, or one that compaction has
    emptied, becomes no bytes. ``each`` is given the records and yields them: it may raise to stop the conversion.

    Raises CorruptBatch: the payload is not what the header says. ValueError: it is compressed with zstd.
    """
    if header.magic <= magic:
        return bytes(buffer[position : position + header.size_in_bytes])
    if header.is_control:
        return b""
    records = each(read_records(buffer, position, header))
    if not header.compression:
        records = (record for record in records if record.offset >= from_offset)
    return bytes(
        write_message_set(records, magic=magic, compression=header.compression, timestamp_type=header.timestamp_type)
    )
