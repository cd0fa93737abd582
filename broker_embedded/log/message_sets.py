"""Message sets, formats v0 and v1, on their way into a log: the checks, and the offsets and times that the log gives.

What may be stored as it was sent is changed in place, in the header of each message alone. That is everything in the
topic's format and codec but compressed v0 sets, inside which offsets are absolute, and v1 sets in which a producer did
not count offsets from 0.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from broker_embedded.log.conversion import max_payload_bytes, write_records
from broker_embedded.log.incoming import Append, IncomingBatch, Validated, as_one_batch, refuse
from broker_embedded.log.record_checks import check_records
from broker_embedded.log.segment import PlacedBatch
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.records.batch import (
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    CompressionType,
    CorruptBatch,
    TimestampType,
)
from spark_kafka_native.records.errors import InvalidMessageSet, OversizedBatch
from spark_kafka_native.records.formats import iter_any
from spark_kafka_native.records.legacy import (
    Message,
    check_message_crc,
    read_message,
    read_messages,
    read_plain_set,
    set_message_offset,
    set_message_timestamp,
)

_MAGIC_AT: Final = 16
_SHARE: Final = 4
"""A message set may decompress to so much less than a record batch: its messages are objects, all at a time."""
_SIZE_AT: Final = 8
_SIZE_AND_CRC: Final = struct.Struct(">iI")
_SIZE_AND_TIME: Final = struct.Struct(">i6xq")  # between them CRC, magic and attributes; the time is v1's


def validate_message_set(records: memoryview, append: Append) -> Validated:
    """Check a whole message set; what to store of it, in which format and codec the topic asks for.

    A last message that is cut off is left out, as in Apache Kafka.

    Raises KafkaError, naming the partition: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP,
    UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE.
    """
    first, positions, size, inner = _read(records, append)
    check_records(inner, append)
    codec = append.config.stored_codec(first.compression)
    same = append.config.record_magic == first.magic and codec is first.compression
    if same and _may_stay(first, inner):
        return Validated(
            records[:size],
            [as_one_batch(first, positions, size, len(inner), max(record.timestamp for record in inner))],
        )
    return write_records(inner, append, codec=codec)


def _read(records: memoryview, append: Append) -> tuple[BatchHeader, list[int], int, list[Message]]:
    """The header of the first message, where all are that are whole, how far they go, and the records in them."""
    magic = records[_MAGIC_AT]
    plain = read_plain_set(bytes(records), magic)
    if plain is not None:
        positions, inner = plain
        ends = [*positions[1:], len(records)]
        largest = max(end - position for position, end in zip(positions, ends, strict=True))
        if largest <= append.config.max_message_bytes:
            return read_message(records), positions, len(records), inner
    found = list(_outer_messages(records, append))
    if not found:
        refuse(ErrorCode.INVALID_RECORD, append.partition, "there is no whole message in the request")
    position, last = found[-1]
    inner = _inner_messages(records, found, append)
    return found[0][1], [at for at, _ in found], position + last.size_in_bytes, inner


def _may_stay(first: BatchHeader, inner: list[Message]) -> bool:
    """Whether offsets can be given by changing what is outside alone."""
    if not first.compression:
        return True
    return bool(first.magic) and all(record.offset == index for index, record in enumerate(inner))


def _outer_messages(records: memoryview, append: Append) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole message of the request, checked; all are of one format, and a wrapper is alone."""
    first: BatchHeader | None = None
    limit = append.config.max_message_bytes
    for position, header in _messages(records, append):
        first = first or header
        if header.size_in_bytes > limit:
            why = f"a message has {header.size_in_bytes} bytes, max.message.bytes is {limit}"
            refuse(ErrorCode.MESSAGE_TOO_LARGE, append.partition, why)
        if header.magic != first.magic:
            why = f"format v{header.magic} behind format v{first.magic}"
            refuse(ErrorCode.INVALID_RECORD, append.partition, why)
        try:
            check_message_crc(records, position, header)
        except CorruptBatch as error:
            refuse(ErrorCode.CORRUPT_MESSAGE, append.partition, str(error))
        if position and (header.compression or first.compression):
            refuse(ErrorCode.INVALID_RECORD, append.partition, "a compressed message must be alone")
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            why = "a producer may not set the timestamp type LogAppendTime"
            refuse(ErrorCode.INVALID_TIMESTAMP, append.partition, why)
        yield position, header


def _messages(records: memoryview, append: Append) -> Iterator[tuple[int, BatchHeader]]:
    try:
        yield from iter_any(records)
    except InvalidMessageSet as error:
        meant = error.position is not None and _crc_is_right(records, error.position)
        code = ErrorCode.INVALID_RECORD if meant else ErrorCode.CORRUPT_MESSAGE
        refuse(code, append.partition, str(error))
    except CorruptBatch as error:
        refuse(ErrorCode.CORRUPT_MESSAGE, append.partition, str(error))


def _crc_is_right(records: memoryview, position: int) -> bool:
    """Whether the CRC of a message whose end is there is right, so that what it says is meant, no flipped bit."""
    size, crc = _SIZE_AND_CRC.unpack_from(records, position + _SIZE_AT)
    return bool(zlib.crc32(records[position + 16 : position + LOG_OVERHEAD + size]) == crc)


def _inner_messages(records: memoryview, found: list[tuple[int, BatchHeader]], append: Append) -> list[Message]:
    inner: list[Message] = []
    max_bytes = max_payload_bytes(append.config) // _SHARE
    try:
        for position, header in found:
            inner += read_messages(records, position, header, max_bytes=max_bytes)
    except InvalidMessageSet as error:
        refuse(ErrorCode.INVALID_RECORD, append.partition, str(error))
    except CorruptBatch as error:
        is_large = isinstance(error, OversizedBatch)
        code = ErrorCode.MESSAGE_TOO_LARGE if is_large else ErrorCode.CORRUPT_MESSAGE
        refuse(code, append.partition, str(error))
    return inner


def assign_messages(
    records: memoryview, batch: IncomingBatch, *, base_offset: int, log_append_time_ms: int
) -> list[PlacedBatch]:
    """Write offsets from ``base_offset`` on and, into v1, the time into the messages of ``batch``, in place.

    A wrapper gets its last record's offset, and the append time or, where that is -1, the largest time of its records.
    """
    compressed = batch.header.compression is not CompressionType.NONE
    if not compressed and log_append_time_ms == NO_TIMESTAMP:
        return _number(records, batch, base_offset)
    placed = []
    by_broker = log_append_time_ms != NO_TIMESTAMP
    wanted = TimestampType.LOG_APPEND_TIME if by_broker else TimestampType.CREATE_TIME
    for index, position in enumerate(batch.messages):
        header = read_message(records, position)
        last_offset = base_offset + (batch.header.last_offset_delta if compressed else index)
        timestamp = log_append_time_ms if by_broker else batch.header.max_timestamp
        set_message_offset(records, position, last_offset)
        if not header.magic:
            timestamp = NO_TIMESTAMP
        elif (header.max_timestamp, header.timestamp_type) != (timestamp, wanted):
            set_message_timestamp(records, position, header, timestamp, wanted)
        placed.append(PlacedBatch(position, header.size_in_bytes, last_offset, timestamp))
    return placed


def _number(records: memoryview, batch: IncomingBatch, base_offset: int) -> list[PlacedBatch]:
    """Write offsets alone, into messages that are not compressed."""
    placed = []
    has_time = batch.header.magic > 0
    for offset, position in enumerate(batch.messages, base_offset):
        size, timestamp = _SIZE_AND_TIME.unpack_from(records, position + _SIZE_AT)
        set_message_offset(records, position, offset)
        placed.append(PlacedBatch(position, LOG_OVERHEAD + size, offset, timestamp if has_time else NO_TIMESTAMP))
    return placed
