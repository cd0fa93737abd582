"""Validation of a batch before its append, and assigning offsets, leader epoch and timestamps.

If a record batch is stored as it was sent, only its header and its CRC are checked. The records' own offsets and
timestamps are not read; Apache Kafka, which reads every record, checks those too. An invalid header is refused with
Kafka's error code, also a count of records that is impossible for the batch's size. Each record is read in these cases:
a compacted topic, where records need a key; a lower bound of timestamps; another codec or format of the topic, see
`conversion`; and message sets, formats v0 and v1.
"""

import struct
from collections.abc import Iterable
from typing import Final

from crc32c import crc32c

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.append.conversion import convert_batch
from broker_embedded._log.append.incoming import AppendContext, AppendOrigin, ValidatedBatch, refuse
from broker_embedded._log.append.message_sets import assign_messages, validate_message_set
from broker_embedded._log.segment import PlacedBatch
from spark_kafka_native._protocol.errors import ErrorCode, counted
from spark_kafka_native._records.batch import (
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionType,
    CorruptBatch,
    TimestampType,
    check_crc,
    read_header,
    set_log_append_time,
    set_offsets,
)
from spark_kafka_native._records.decompression import MAX_DECOMPRESSED_BYTES
from spark_kafka_native._records.legacy import is_message
from spark_kafka_native._records.record import MIN_RECORD_BYTES

_FRAME: Final = struct.Struct(">i4xbIh")  # batch_length, (leader epoch), magic, crc, attributes: from byte 8 on
_CRC_FROM: Final = 21
_CODEC_MASK: Final = 0x07


def validate(records: memoryview, append: AppendContext) -> ValidatedBatch:
    """Validate the batch, or the message set, of an append. The buffer is not changed.

    The result is to be stored: the same bytes, or converted ones if the topic has another codec or format.

    Raises KafkaError, naming the partition: INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP,
    RECORD_LIST_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE, UNSUPPORTED_FOR_MESSAGE_FORMAT. InvalidRecords for
    errors of single records. WorkCancelled.
    """
    config, partition = append.config, append.partition
    if is_message(records):
        validated = validate_message_set(records, append)
    else:
        header = _read(records, partition)
        _check_batch(records, header, config, partition)
        if append.origin is AppendOrigin.CLIENT:
            _check_client_batch(header, partition)
        validated = ValidatedBatch(records, header)
        if inspects_records(header, config, append.now_ms):
            validated = convert_batch(validated, append)
    if len(validated.records) > config.segment_bytes and not validated.header.is_control:
        refuse(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            partition,
            f"a batch of {len(validated.records)} bytes exceeds segment.bytes = {config.segment_bytes}",
        )
    return validated


def inspects_records(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether an append reads each record of a record batch, which it must decompress for that."""
    return not config.stores_as_sent or not _timestamps_are_valid(header, config, now_ms)


def assign(
    validated: ValidatedBatch, *, base_offset: int, leader_epoch: int, log_append_time_ms: int
) -> Iterable[PlacedBatch]:
    """Write offsets from ``base_offset`` on, the leader epoch and, unless it is -1, the append time into the headers.

    The records are changed in place before this returns. Returns the position of the batch, or of each message of a
    message set.
    """
    records, header, messages = validated
    if messages:
        return assign_messages(validated, base_offset=base_offset, log_append_time_ms=log_append_time_ms)
    set_offsets(records, 0, base_offset=base_offset, partition_leader_epoch=leader_epoch)
    max_timestamp = header.max_timestamp
    if log_append_time_ms != NO_TIMESTAMP:
        set_log_append_time(records, 0, log_append_time_ms)
        max_timestamp = log_append_time_ms
    return (PlacedBatch(0, len(records), base_offset + header.last_offset_delta, max_timestamp),)


def _read(records: memoryview, partition: str) -> BatchHeader:
    """The header of the batch; bytes after it are refused."""
    try:
        header = read_header(records)
    except CorruptBatch as error:
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if _has_unknown_codec(records) else ErrorCode.CORRUPT_MESSAGE
        refuse(code, partition, str(error))
    if header.size_in_bytes < len(records):
        extra = len(records) - header.size_in_bytes
        refuse(ErrorCode.INVALID_RECORD, partition, f"{extra} bytes after the record batch; an append has one batch")
    return header


def _has_unknown_codec(records: memoryview) -> bool:
    """Whether the batch is complete and its CRC is correct, so that its unknown codec is no corruption."""
    if len(records) < RECORD_BATCH_OVERHEAD:
        return False
    batch_length, magic, crc, attributes = _FRAME.unpack_from(records, 8)
    if magic != MAGIC or attributes & _CODEC_MASK <= max(CompressionType):
        return False
    return bool(crc32c(records[_CRC_FROM : LOG_OVERHEAD + batch_length]) == crc)


def _check_batch(records: memoryview, header: BatchHeader, config: LogConfig, partition: str) -> None:
    if header.size_in_bytes > config.max_message_bytes and not header.is_control:
        refuse(
            ErrorCode.MESSAGE_TOO_LARGE,
            partition,
            f"a record batch has {header.size_in_bytes} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    try:
        check_crc(records, 0, header)
    except CorruptBatch as error:
        refuse(ErrorCode.CORRUPT_MESSAGE, partition, str(error))


def _check_client_batch(header: BatchHeader, partition: str) -> None:
    if header.base_offset != 0:
        problem = f"the base offset of a batch to append must be 0, not {header.base_offset}"
    elif header.is_control:
        problem = "clients may not write control batches"
    elif header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        why = "a producer may not set the timestamp type LogAppendTime"
        refuse(ErrorCode.INVALID_TIMESTAMP, partition, why)
    elif header.is_transactional and not header.has_producer_id:
        problem = "a transactional batch has no producer id"
    elif header.records_count <= 0:
        problem = "the batch has no records"
    elif header.records_count > max_records(header):
        stored = header.size_in_bytes - RECORD_BATCH_OVERHEAD
        problem = f"{header.records_count} records do not fit into {stored} bytes of {header.compression.label}"
    elif header.records_count != header.last_offset_delta + 1:
        delta = header.last_offset_delta
        problem = f"the batch has {counted(header.records_count, 'record')}, but a last offset delta of {delta}"
    elif header.has_producer_id and header.base_sequence < 0:
        problem = f"the batch has producer id {header.producer_id}, but the sequence number {header.base_sequence}"
    elif header.has_producer_id and header.producer_epoch < 0:
        problem = f"the batch has producer id {header.producer_id}, but the epoch {header.producer_epoch}"
    else:
        return
    refuse(ErrorCode.INVALID_RECORD, partition, problem)


def max_records(header: BatchHeader) -> int:
    """Upper bound of the records in a batch of this size and codec; a record has at least `MIN_RECORD_BYTES`."""
    stored = header.size_in_bytes - RECORD_BATCH_OVERHEAD
    return min(header.compression.max_ratio * stored, MAX_DECOMPRESSED_BYTES) // MIN_RECORD_BYTES


def _timestamps_are_valid(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether the header alone shows that every record's timestamp is in range."""
    if config.log_append_time:
        return True
    if config.bounds_age and header.records_count > 1:
        return False  # any record may be older than the first
    before = config.timestamp_before_max_ms
    first, largest, latest = header.base_timestamp, header.max_timestamp, now_ms + config.timestamp_after_max_ms
    return (first == NO_TIMESTAMP or now_ms - before <= first <= latest) and (
        largest == NO_TIMESTAMP or now_ms - before <= largest <= latest
    )
