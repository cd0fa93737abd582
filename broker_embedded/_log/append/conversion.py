"""Conversion of records to the codec and the message format of their topic.

A batch that is stored as it was sent is not converted, but its records may be checked here. Records are read piece by
piece, because a batch of a few KiB can decompress to 512 MiB.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final, NoReturn

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.append.incoming import AppendContext, ValidatedBatch, as_one_batch, refuse
from broker_embedded._log.append.record_checks import RecordErrors, time_bounds
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._records.batch import (
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    CompressionType,
    CorruptBatch,
    read_header,
)
from spark_kafka_native._records.conversion import payload_pieces, read_records, recompress, write_batch
from spark_kafka_native._records.decompression import MAX_DECOMPRESSED_BYTES
from spark_kafka_native._records.errors import OversizedBatch
from spark_kafka_native._records.legacy import read_message
from spark_kafka_native._records.legacy_write import entry_size, write_message_set
from spark_kafka_native._records.record import NO_HEADERS, LogRecord
from spark_kafka_native._records.scan import RecordScan

_MIN_BOUND: Final = 64 * 1024 * 1024
_TIMES_LARGER: Final = 64


def max_payload_bytes(config: LogConfig) -> int:
    """Largest decompressed size of a batch that is inspected: the larger of 64 MiB and 64 times max.message.bytes."""
    return min(max(_MIN_BOUND, _TIMES_LARGER * config.max_message_bytes), MAX_DECOMPRESSED_BYTES)


def convert_batch(sent: ValidatedBatch, append: AppendContext) -> ValidatedBatch:
    """Check every record of a record batch, and convert it to the format and codec of the topic.

    A control batch that came uncompressed stays so.

    Raises KafkaError: CORRUPT_MESSAGE, it does not decompress. INVALID_RECORD, the records do not fit the
    header. MESSAGE_TOO_LARGE, it grew, or decompresses to more than ``max_payload_bytes``. As ``RecordErrors`` and
    ``write_records``.
    """
    records, header, config = sent.records, sent.header, append.config
    scan = _check_records(sent, append)
    codec = config.stored_codec(header.compression)
    if header.is_control and not header.compression:
        codec = header.compression
    if config.record_magic == MAGIC and scan.in_order and scan.largest == header.max_timestamp:
        if codec is header.compression:
            return sent
        try:
            stored = recompress(
                append.cancellation.between(payload_pieces(records, 0, header)),
                header,
                compression=codec,
                level=config.compression_level(codec),
                max_bytes=config.max_message_bytes,
            )
        except OversizedBatch as error:
            _refuse_size(error, append)
        return ValidatedBatch(memoryview(stored), read_header(stored))
    return write_records(read_records(records, 0, header), append, codec=codec, like=header)


def _check_records(sent: ValidatedBatch, append: AppendContext) -> RecordScan:
    """Check every record, and return the complete scan."""
    earliest, latest = time_bounds(append)
    scan = RecordScan(sent.header, earliest=earliest, latest=latest, needs_key=append.config.compacts)
    errors = RecordErrors(append)
    max_bytes = max_payload_bytes(append.config)
    pieces = _Pieces(payload_pieces(sent.records, 0, sent.header, max_bytes=max_bytes))
    try:
        for record in scan.found(append.cancellation.between(pieces)):
            errors.add(record.record_index, record.timestamp, has_key=record.has_key)
    except OversizedBatch as error:
        why = f"{error.detail}, the larger of 64 MiB and 64 times max.message.bytes"
        refuse(ErrorCode.MESSAGE_TOO_LARGE, append.partition, why)
    except CorruptBatch as error:
        code = ErrorCode.CORRUPT_MESSAGE if pieces.failed else ErrorCode.INVALID_RECORD
        refuse(code, append.partition, str(error))
    errors.check()
    return scan


class _Pieces:
    """A payload's pieces. ``failed``: decompression has raised CorruptBatch, not the decoding of a record."""

    def __init__(self, pieces: Iterator[bytes | bytearray | memoryview]) -> None:
        self._pieces = pieces
        self.failed = False

    def __iter__(self) -> Iterator[bytes | bytearray | memoryview]:
        try:
            yield from self._pieces
        except CorruptBatch:
            self.failed = True
            raise


def write_records(
    records: Iterable[LogRecord], append: AppendContext, *, codec: CompressionType, like: BatchHeader | None = None
) -> ValidatedBatch:
    """The records in the topic's format: one record batch, or a message set.

    Offsets continue from the append's. ``like`` is the header of the record batch that they came in.

    Raises KafkaError: UNSUPPORTED_FOR_MESSAGE_FORMAT, a producer id, a transaction or headers in a message set.
    UNSUPPORTED_COMPRESSION_TYPE: zstd there. INVALID_TIMESTAMP: a negative one. MESSAGE_TOO_LARGE.
    RECORD_LIST_TOO_LARGE: messages without a codec that are larger than a segment.
    """
    config, level = append.config, append.config.compression_level(codec)
    if config.record_magic == MAGIC:
        try:
            batch = write_batch(
                _Placed(records, append),
                base_offset=append.base_offset,
                compression=codec,
                level=level,
                like=like,
                max_bytes=config.max_message_bytes,
            )
        except ValueError as error:  # the level was validated with the topic's config
            refuse(ErrorCode.INVALID_TIMESTAMP, append.partition, str(error))
        except OversizedBatch as error:
            _refuse_size(error, append)
        return ValidatedBatch(memoryview(batch), read_header(batch))
    if like is not None and like.is_transactional:
        _refuse_format(append, "records of a transaction")
    if like is not None and like.has_producer_id:
        _refuse_format(append, f"records of producer id {like.producer_id}")
    if codec is CompressionType.ZSTD:
        why = f"message format v{config.record_magic} has no zstd"
        refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, append.partition, why)
    placed = _Placed(records, append, is_wrapped=codec is not CompressionType.NONE)
    try:
        stored = write_message_set(
            placed,
            magic=config.record_magic,
            compression=codec,
            level=level,
            max_bytes=config.max_message_bytes if codec else config.segment_bytes,
        )
    except OversizedBatch as error:
        if codec:
            _refuse_size(error, append)
        why = f"{error.detail} by segment.bytes = {config.segment_bytes}"
        refuse(ErrorCode.RECORD_LIST_TOO_LARGE, append.partition, why)
    first = read_message(stored)
    return as_one_batch(memoryview(stored), first, placed.positions, count=placed.count, largest=placed.largest)


class _Placed:
    """Records with offsets that continue from the append's, each checked when it is read.

    Of the records read so far, ``count`` is the number and ``largest`` the largest timestamp. ``positions`` are their
    positions in the message set; a wrapper has the position 0 only.
    """

    def __init__(self, records: Iterable[LogRecord], append: AppendContext, *, is_wrapped: bool = False) -> None:
        self._records = records
        self._append = append
        self._is_wrapped = is_wrapped
        self._end = 0
        self.count = 0
        self.largest = NO_TIMESTAMP
        self.positions = array("q", [0] if is_wrapped else [])

    def __iter__(self) -> Iterator[LogRecord]:
        magic = self._append.config.record_magic
        for offset, record in enumerate(self._append.cancellation.between(self._records), self._append.base_offset):
            if record.timestamp < NO_TIMESTAMP:
                why = f"timestamp {record.timestamp} is before 1970"
                refuse(ErrorCode.INVALID_TIMESTAMP, self._append.partition, why)
            if magic < MAGIC and record.headers != NO_HEADERS:
                _refuse_format(self._append, "records with headers")
            if magic < MAGIC and not self._is_wrapped:
                size = entry_size(record, magic)
                check_size(size, self._append)
                self.positions.append(self._end)
                self._end += size
            self.count += 1
            self.largest = max(self.largest, record.timestamp)
            yield record._replace(offset=offset)


def check_size(size: int, append: AppendContext) -> None:
    """Raise KafkaError MESSAGE_TOO_LARGE if the converted bytes, at least ``size``, exceed max.message.bytes."""
    limit = append.config.max_message_bytes
    if size > limit:
        why = f"converted to the topic's codec and format it has at least {size} bytes; max.message.bytes is {limit}"
        refuse(ErrorCode.MESSAGE_TOO_LARGE, append.partition, why)


def _refuse_size(error: OversizedBatch, append: AppendContext) -> NoReturn:
    why = f"converted to the topic's codec and format: {error.detail} by max.message.bytes"
    refuse(ErrorCode.MESSAGE_TOO_LARGE, append.partition, why)


def _refuse_format(append: AppendContext, what: str) -> NoReturn:
    why = f"message format v{append.config.record_magic} cannot store {what}; see message.format.version"
    refuse(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, append.partition, why)
