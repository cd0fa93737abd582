"""Appends of message sets, formats v0 and v1: their validation, and assigning offsets and timestamps.

Sets in the topic's format and codec are stored as they were sent: only the header of each message changes, in place.
Exceptions are compressed v0 sets, inside which offsets are absolute, and v1 sets whose inner offsets do not start at 0.
"""

import itertools
import struct
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from broker_embedded._log.append.conversion import check_size, max_payload_bytes, write_records
from broker_embedded._log.append.incoming import AppendContext, ValidatedBatch, as_one_batch, refuse
from broker_embedded._log.append.record_checks import check_records, time_bounds
from broker_embedded._log.segment import PlacedBatch
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._records.batch import (
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    CompressionType,
    CorruptBatch,
    TimestampType,
)
from spark_kafka_native._records.errors import InvalidMessageSet, OversizedBatch
from spark_kafka_native._records.formats import iter_any
from spark_kafka_native._records.legacy import (
    check_message_crc,
    read_message,
    read_messages,
    read_plain_messages,
    set_message_offset,
    set_message_timestamp,
)
from spark_kafka_native._records.legacy_write import renumber_wrapper
from spark_kafka_native._records.record import LogRecord

_MAGIC_AT: Final = 16
_SHARE: Final = 4
"""The limit of a decompressed message set is this share of a record batch's, because all messages are in memory."""
_SIZE_AT: Final = 8
_SIZE_AND_CRC: Final = struct.Struct(">iI")
_OFFSET_SIZE_AND_TIME: Final = struct.Struct(">qi6xq")  # before the time, v1's, are CRC, magic and attributes
_AT_ONCE: Final = 4096
"""Uncompressed messages that are decoded at a time."""


def validate_message_set(records: memoryview, append: AppendContext) -> ValidatedBatch:
    """Check a message set, and convert it to the format and codec of the topic if necessary.

    An incomplete last message is dropped, as in Apache Kafka. Uncompressed messages are read some thousand at a time,
    so that a set takes little more memory than its bytes.

    Raises KafkaError, naming the partition: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP,
    RECORD_LIST_TOO_LARGE, UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE. WorkCancelled.
    """
    found = _read_plain(records, append) or _read_any(records, append)
    first, seen = found.first, found.seen
    if seen.may_be_refused:
        check_records(found.messages(), append)
    if _keeps_format(first, append) and (not first.compression or (first.magic and seen.in_order)):
        return as_one_batch(records[: found.size], first, found.positions, count=seen.count, largest=seen.largest)
    return write_records(found.messages(), append, codec=append.config.stored_codec(first.compression))


class _Seen:
    """Counts of the records that have been read. ``in_order``: their offsets count from 0."""

    def __init__(self, append: AppendContext) -> None:
        self._earliest, self._latest = time_bounds(append)
        self._needs_key = append.config.compacts
        self.count = 0
        self.largest = NO_TIMESTAMP
        self.in_order = True
        self.may_be_refused = False
        """Whether a record has a timestamp out of range, or lacks a required key."""

    def add(self, messages: Iterable[LogRecord]) -> None:
        earliest, latest, needs_key = self._earliest, self._latest, self._needs_key
        for index, (offset, timestamp, key, _, _) in enumerate(messages, self.count):
            self.count = index + 1
            self.largest = max(self.largest, timestamp)
            if offset != index:
                self.in_order = False
            if (timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest) or (needs_key and key is None):
                self.may_be_refused = True


class _Found(NamedTuple):
    """The complete messages of a request, ``size`` bytes.

    ``first`` is the header of the first one, ``positions`` are their positions. ``messages`` reads the records again.
    """

    first: BatchHeader
    positions: "array[int]"
    size: int
    seen: _Seen
    messages: Callable[[], Iterable[LogRecord]]


def _read_plain(records: memoryview, append: AppendContext) -> _Found | None:
    """Fast path: the messages of an uncompressed set; None if the set contains anything else."""
    data, magic = bytes(records), records[_MAGIC_AT]
    positions, seen, end = array("q"), _Seen(append), 0
    while end < len(data):
        append.cancellation.check()
        part = read_plain_messages(data, magic, end, most=_AT_ONCE)
        if part is None:
            return None
        starts, messages, end = part
        largest = max(after - before for before, after in itertools.pairwise([*starts, end]))
        if largest > append.config.max_message_bytes:
            return None
        positions.extend(starts)
        seen.add(messages)
        _check_segment(end, read_message(records), append)

    def again() -> Iterator[LogRecord]:
        at = 0
        while at < len(data):
            append.cancellation.check()
            part = read_plain_messages(data, magic, at, most=_AT_ONCE)
            assert part is not None, "these bytes have been read before"
            yield from part[1]
            at = part[2]

    return _Found(read_message(records), positions, end, seen, again)


def _read_any(records: memoryview, append: AppendContext) -> _Found:
    """The messages of any set, or its wrapper message."""
    first: BatchHeader | None = None
    positions, size = array("q"), 0
    for position, header in append.cancellation.between(_outer_messages(records, append)):
        first = first or header
        positions.append(position)
        size = position + header.size_in_bytes
        _check_segment(size, first, append)
    if first is None:
        refuse(ErrorCode.INVALID_RECORD, append.partition, "the request contains no complete message")
    wrapped = _inner_messages(records, 0, first, append) if first.compression else None

    def again() -> Iterable[LogRecord]:
        if wrapped is not None:
            return wrapped
        return (
            message
            for position in append.cancellation.between(positions)
            for message in _inner_messages(records, position, read_message(records, position), append)
        )

    seen = _Seen(append)
    seen.add(again())
    return _Found(first, positions, size, seen, again)


def _keeps_format(first: BatchHeader, append: AppendContext) -> bool:
    """Whether the topic stores the format and the codec of a set whose first message has this header."""
    codec = append.config.stored_codec(first.compression)
    return append.config.record_magic == first.magic and codec is first.compression


def _check_segment(size: int, first: BatchHeader, append: AppendContext) -> None:
    """Raise RECORD_LIST_TOO_LARGE if messages that are stored as they were sent exceed segment.bytes."""
    limit = append.config.segment_bytes
    if size > limit and not first.compression and _keeps_format(first, append):
        why = f"the messages of the request exceed segment.bytes = {limit}"
        refuse(ErrorCode.RECORD_LIST_TOO_LARGE, append.partition, why)


def _outer_messages(records: memoryview, append: AppendContext) -> Iterator[tuple[int, BatchHeader]]:
    """Each complete message of the request. Raises KafkaError: two formats, or a wrapper and other messages."""
    first: BatchHeader | None = None
    limit = append.config.max_message_bytes
    for position, header in _messages(records, append):
        first = first or header
        if header.size_in_bytes > limit:
            why = f"a message has {header.size_in_bytes} bytes, max.message.bytes is {limit}"
            refuse(ErrorCode.MESSAGE_TOO_LARGE, append.partition, why)
        if header.magic != first.magic:
            why = f"a message of format v{header.magic} follows one of format v{first.magic}"
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


def _messages(records: memoryview, append: AppendContext) -> Iterator[tuple[int, BatchHeader]]:
    try:
        yield from iter_any(records)
    except InvalidMessageSet as error:
        meant = error.position is not None and _crc_is_right(records, error.position)
        code = ErrorCode.INVALID_RECORD if meant else ErrorCode.CORRUPT_MESSAGE
        refuse(code, append.partition, str(error))
    except CorruptBatch as error:
        refuse(ErrorCode.CORRUPT_MESSAGE, append.partition, str(error))


def _crc_is_right(records: memoryview, position: int) -> bool:
    """Whether the message is complete and its CRC is correct, so that its fields are no corruption."""
    size, crc = _SIZE_AND_CRC.unpack_from(records, position + _SIZE_AT)
    return bool(zlib.crc32(records[position + 16 : position + LOG_OVERHEAD + size]) == crc)


def _inner_messages(records: memoryview, position: int, header: BatchHeader, append: AppendContext) -> list[LogRecord]:
    """The message at ``position``, or all messages that are compressed in it."""
    try:
        return read_messages(records, position, header, max_bytes=max_payload_bytes(append.config) // _SHARE)
    except InvalidMessageSet as error:
        refuse(ErrorCode.INVALID_RECORD, append.partition, str(error))
    except CorruptBatch as error:
        is_large = isinstance(error, OversizedBatch)
        code = ErrorCode.MESSAGE_TOO_LARGE if is_large else ErrorCode.CORRUPT_MESSAGE
        refuse(code, append.partition, str(error))


def renumbered(validated: ValidatedBatch, append: AppendContext) -> ValidatedBatch:
    """The same batch with offsets that continue from the append's, inside a compressed message of format v0 too.

    Necessary if the log has grown since the records were validated.

    Raises KafkaError MESSAGE_TOO_LARGE: with these offsets the message compresses to more than max.message.bytes.
    """
    if not validated.holds_absolute_offsets:
        return validated
    header = validated.header
    level = append.config.compression_level(header.compression)
    raw = renumber_wrapper(validated.records, header, append.base_offset, level)
    check_size(len(raw), append)
    return as_one_batch(
        memoryview(raw), read_message(raw), [0], count=header.records_count, largest=header.max_timestamp
    )


def assign_messages(validated: ValidatedBatch, *, base_offset: int, log_append_time_ms: int) -> Iterator[PlacedBatch]:
    """Write offsets from ``base_offset`` on, and in v1 the timestamp, into the messages, in place.

    A wrapper gets its last record's offset, and the append time or, if that is -1, the largest timestamp of its
    records. All is written when this returns. The positions are read while the result is iterated.
    """
    records, shared, messages = validated
    compressed = shared.compression is not CompressionType.NONE
    if not compressed and log_append_time_ms == NO_TIMESTAMP:
        for offset, position in enumerate(messages, base_offset):
            set_message_offset(records, position, offset)
        return _placed(validated)
    by_broker = log_append_time_ms != NO_TIMESTAMP
    wanted = TimestampType.LOG_APPEND_TIME if by_broker else TimestampType.CREATE_TIME
    for index, position in enumerate(messages):
        header = read_message(records, position)
        last_offset = base_offset + (shared.last_offset_delta if compressed else index)
        timestamp = log_append_time_ms if by_broker else shared.max_timestamp
        set_message_offset(records, position, last_offset)
        if header.magic and (header.max_timestamp, header.timestamp_type) != (timestamp, wanted):
            set_message_timestamp(records, position, header, timestamp, wanted)
    return _placed(validated)


def _placed(validated: ValidatedBatch) -> Iterator[PlacedBatch]:
    """The messages with their final offsets and timestamps."""
    has_time = validated.header.magic > 0
    for position in validated.messages:
        offset, size, timestamp = _OFFSET_SIZE_AND_TIME.unpack_from(validated.records, position)
        yield PlacedBatch(position, LOG_OVERHEAD + size, offset, timestamp if has_time else NO_TIMESTAMP)
