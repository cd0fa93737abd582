"""Records into the codec and the message format that a topic stores them in.

What is stored as it was sent does not come here, or comes to have its records checked and goes back untouched.
"""

from collections.abc import Sequence
from itertools import accumulate

from broker_embedded.log.incoming import Append, IncomingBatch, Validated, as_one_batch, refuse
from broker_embedded.log.record_checks import check_records
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.records.batch import (
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    CompressionType,
    CorruptBatch,
    read_header,
)
from spark_kafka_native.records.conversion import batch_of, parse_records, payload_of, write_batch
from spark_kafka_native.records.legacy import NO_HEADERS, Message, read_message
from spark_kafka_native.records.legacy_write import entry_sizes, write_message_set


def convert_batch(records: memoryview, batch: IncomingBatch, append: Append) -> Validated:
    """Check every record of a record batch; what to store of it, in the format and codec that the topic asks for.

    A control batch that came uncompressed stays so.

    Raises KafkaError: CORRUPT_MESSAGE, it does not decompress. INVALID_RECORD, the records are not what the header
    says. MESSAGE_TOO_LARGE, it grew. As ``check_records`` and ``write_records``.
    """
    position, header = batch.position, batch.header
    try:
        payload = payload_of(records, position, header)
    except CorruptBatch as error:
        refuse(ErrorCode.CORRUPT_MESSAGE, append.partition, str(error.placed(start=position)))
    try:
        found = parse_records(payload, header)
    except CorruptBatch as error:
        refuse(ErrorCode.INVALID_RECORD, append.partition, str(error.placed(start=position)))
    check_records(found, append)
    codec = append.config.stored_codec(header.compression)
    if header.is_control and not header.compression:
        codec = header.compression
    in_order = all(record.offset == header.base_offset + index for index, record in enumerate(found))
    largest = max((NO_TIMESTAMP, *(record.timestamp for record in found)))
    sound = in_order and largest == header.max_timestamp
    if append.config.record_magic < MAGIC or not sound:
        return write_records(found, append, codec=codec, like=header)
    if codec is header.compression:
        return Validated(records[position : position + header.size_in_bytes], [IncomingBatch(0, header)])
    stored = batch_of(
        payload,
        header,
        compression=codec,
        level=append.config.compression_level(codec),
        timestamp_type=header.timestamp_type,
    )
    return _stored_batch(stored, append)


def write_records(
    records: Sequence[Message], append: Append, *, codec: CompressionType, like: BatchHeader | None = None
) -> Validated:
    """The records, in the order given, as the topic stores them: one record batch, or a message set.

    Offsets go on from the append's. ``like`` is the header of the record batch that they came in.

    Raises KafkaError: UNSUPPORTED_FOR_MESSAGE_FORMAT, a producer id, a transaction or headers in a message set.
    UNSUPPORTED_COMPRESSION_TYPE: zstd there. INVALID_TIMESTAMP: a negative one.
    """
    magic, partition = append.config.record_magic, append.partition
    for record in records:
        if record.timestamp < NO_TIMESTAMP:
            refuse(ErrorCode.INVALID_TIMESTAMP, partition, f"timestamp {record.timestamp} is before 1970")
    placed = [record._replace(offset=append.base_offset + index) for index, record in enumerate(records)]
    level = append.config.compression_level(codec)
    if magic == MAGIC:
        batch = write_batch(placed, base_offset=append.base_offset, compression=codec, level=level, like=like)
        return _stored_batch(batch, append)
    trouble = _trouble_in_message_set(records, like)
    if trouble:
        refuse(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            partition,
            f"{trouble}, which message format v{magic} has no place for; see message.format.version",
        )
    if codec is CompressionType.ZSTD:
        refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, partition, f"there is no zstd in message format v{magic}")
    stored = write_message_set(placed, magic=magic, compression=codec, level=level)
    sizes = [len(stored)] if codec else entry_sizes(placed, magic)
    _check_size(max(sizes), append)
    positions = list(accumulate(sizes[:-1], initial=0))
    return Validated(memoryview(stored), [as_one_batch(read_message(stored), positions, len(stored), placed)])


def _stored_batch(batch: bytearray, append: Append) -> Validated:
    _check_size(len(batch), append)
    return Validated(memoryview(batch), [IncomingBatch(0, read_header(batch))])


def _check_size(size: int, append: Append) -> None:
    limit = append.config.max_message_bytes
    if size > limit:
        why = f"stored as the topic asks for it takes {size} bytes, max.message.bytes is {limit}"
        refuse(ErrorCode.MESSAGE_TOO_LARGE, append.partition, why)


def _trouble_in_message_set(records: Sequence[Message], like: BatchHeader | None) -> str | None:
    if like is not None and like.is_transactional:
        return "records of a transaction"
    if like is not None and like.has_producer_id:
        return f"records of producer id {like.producer_id}"
    if any(record.headers != NO_HEADERS for record in records):
        return "records with headers"
    return None
