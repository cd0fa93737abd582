"""The header of a record batch, format v2 (KIP-98): reading, checking and changing it, without its payload.

A Fetch response, a Produce request and a segment file hold a sequence of batches, big-endian::

    batch                   = base_offset            int64
                              batch_length           int32   bytes after this field, so the whole batch is 12 more
                              partition_leader_epoch int32   set by the leader, -1 from a producer
                              magic                  int8    2
                              crc                    uint32  CRC-32C of everything from attributes to the end
                              attributes             int16   bits 0-2 codec, 3 LogAppendTime, 4 transactional,
                                                             5 control, 6 base_timestamp is a delete horizon
                              last_offset_delta      int32   compaction keeps it, even when the last record goes
                              base_timestamp         int64   ms; records hold deltas to it
                              max_timestamp          int64   ms; the time of every record under LogAppendTime
                              producer_id            int64   -1: neither idempotent nor transactional
                              producer_epoch         int16
                              base_sequence          int32
                              records_count          int32
                              payload                record*, compressed as a whole if a codec is set

The CRC does not cover ``base_offset`` and ``partition_leader_epoch``, so that a broker sets them in place. Formats v0
and v1 have their magic at the same byte.

The functions that change a batch do not check its header: read it first.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from spark_kafka_native._protocol.errors import counted
from spark_kafka_native._protocol.producer_id import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from spark_kafka_native._records.compression import Buffer, CompressionType
from spark_kafka_native._records.errors import CorruptBatch, IncompleteBatch, OldFormatBatch, UnreadableBatch

__all__ = [
    "LOG_OVERHEAD",
    "MAGIC",
    "NO_PARTITION_LEADER_EPOCH",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "RECORD_BATCH_OVERHEAD",
    "BatchHeader",
    "Buffer",
    "CompressionType",
    "CorruptBatch",
    "IncompleteBatch",
    "OldFormatBatch",
    "TimestampType",
    "UnreadableBatch",
    "WritableBuffer",
    "check_crc",
    "increment_sequence",
    "iter_batches",
    "read_header",
    "seal",
    "set_log_append_time",
    "set_offsets",
    "set_producer",
    "write_header",
]

WritableBuffer: TypeAlias = bytearray | memoryview
"""Bytes to patch in place."""

MAGIC = 2
LOG_OVERHEAD = 12
"""Bytes of ``base_offset`` and ``batch_length``, which ``batch_length`` does not count."""
RECORD_BATCH_OVERHEAD = 61
"""Bytes of the header, everything before the payload."""
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1
NO_TIMESTAMP = -1

_CODEC_MASK = 0x07
_CODECS = tuple(CompressionType)  # by id; looking up is three times as fast as calling the enum
_LOG_APPEND_TIME_BIT = 0x08
_TRANSACTIONAL_BIT = 0x10
_CONTROL_BIT = 0x20
_DELETE_HORIZON_BIT = 0x40

_MAGIC_AT = 16
_CRC_AT = 17
_CRC_FROM = 21
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_PRODUCER_ID_AT = 43
_SMALLEST_OLD_RECORD = 14  # crc, magic, attributes, key length and value length of format v0
_OFFSETS_END = 2**63 - 1  # a next offset must fit too
_SEQUENCE_MODULUS = 2**31

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")
_PRODUCER = struct.Struct(">qhi")


class TimestampType(IntEnum):
    """Who set a record's timestamp; the numbers are those of Kafka's clients and of Spark's ``timestampType``."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The fields of the 61 bytes before a batch's payload, in order (see the module's grammar).

    A named tuple, because a Fetch of small batches reads thousands and a frozen dataclass takes eight times as long.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the whole batch, header included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch ever had; compaction may have removed that record since."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch, at which a reader continues."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> CompressionType:
        """The codec of the payload."""
        return _CODECS[self.attributes & _CODEC_MASK]

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME or LOG_APPEND_TIME; under the latter ``max_timestamp`` is every record's time. None in v0."""
        if self.attributes & _LOG_APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME if self.magic else TimestampType.NO_TIMESTAMP_TYPE

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction, records or marker."""
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record (a transaction marker), which is never shown to users."""
        return bool(self.attributes & _CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones or marker, if a first pass has set it (KIP-534)."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, which is 0 after 2**31 - 1; NO_SEQUENCE if there is none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence number ``increment`` records after ``sequence``; 0 is the next one after 2**31 - 1."""
    return (sequence + increment) % _SEQUENCE_MODULUS


def read_header(buffer: Buffer, position: int = 0, *, whole: bool = True) -> BatchHeader:
    """The header of the batch at ``position``, its fields checked against each other but not the CRC.

    With ``whole=False`` only the 61 bytes of the header must be there, not the payload after them: enough to go from
    batch to batch of a file.

    Raises CorruptBatch: an impossible length or count, an unknown magic or codec. IncompleteBatch: the buffer ends
    before the batch does. OldFormatBatch: magic 0 or 1.
    """
    available = len(buffer) - position
    if available < RECORD_BATCH_OVERHEAD:
        _check_magic(buffer, position, available)
        raise IncompleteBatch(
            f"a record batch header needs {RECORD_BATCH_OVERHEAD} bytes, {max(available, 0)} are there",
            position=position,
        )
    fields = _HEADER.unpack_from(buffer, position)
    batch_length, magic = fields[1], fields[3]
    if magic != MAGIC or batch_length < RECORD_BATCH_OVERHEAD - LOG_OVERHEAD:
        _check_magic(buffer, position, available)
    header = BatchHeader._make(fields)
    _check_counts(header, position)
    if whole and available < LOG_OVERHEAD + batch_length:
        raise IncompleteBatch(
            f"a record batch of {LOG_OVERHEAD + batch_length} bytes is cut off after {available}",
            position=position,
            base_offset=header.base_offset,
        )
    return header


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch from ``position`` on, as (its position, its header), CRC not checked.

    Ends silently before a last batch that is cut off, as the last one of a Fetch response may be.

    Raises CorruptBatch, OldFormatBatch: as ``read_header``, once the batches before it were yielded.
    """
    while position < len(buffer):
        try:
            header = read_header(buffer, position)
        except IncompleteBatch:
            return
        yield position, header
        position += header.size_in_bytes


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Compare the CRC in the header with that of the bytes; the whole batch must be in ``buffer``.

    Raises CorruptBatch: they differ.
    """
    actual = crc32c(memoryview(buffer)[position + _CRC_FROM : position + header.size_in_bytes])
    if actual != header.crc:
        raise CorruptBatch(
            f"CRC-32C of the record batch is {actual:#010x}, its header says {header.crc:#010x}",
            position=position,
            base_offset=header.base_offset,
        )


def set_offsets(buffer: WritableBuffer, position: int, *, base_offset: int, partition_leader_epoch: int) -> None:
    """Set offset and leader epoch of the batch at ``position``, in place; the CRC covers neither field."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + LOG_OVERHEAD, partition_leader_epoch)


def set_log_append_time(buffer: WritableBuffer, position: int, timestamp_ms: int) -> None:
    """Set the timestamp of all records of the batch at ``position`` (LogAppendTime), in place, and the CRC."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_AT, attributes | _LOG_APPEND_TIME_BIT)
    _TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_AT, timestamp_ms)
    seal(buffer, position)


def set_producer(
    buffer: WritableBuffer,
    position: int,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool = False,
) -> None:
    """Set the producer of the batch at ``position``, in place, and the CRC. May be repeated, as after a new epoch."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + _ATTRIBUTES_AT)
    attributes = attributes | _TRANSACTIONAL_BIT if transactional else attributes & ~_TRANSACTIONAL_BIT
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_AT, attributes)
    _PRODUCER.pack_into(buffer, position + _PRODUCER_ID_AT, producer_id, producer_epoch, base_sequence)
    seal(buffer, position)


def seal(buffer: WritableBuffer, position: int = 0) -> None:
    """Write the CRC of the batch at ``position``, whose ``batch_length`` and payload are in place."""
    (batch_length,) = _LENGTH.unpack_from(buffer, position + 8)
    crc = crc32c(memoryview(buffer)[position + _CRC_FROM : position + LOG_OVERHEAD + batch_length])
    _CRC.pack_into(buffer, position + _CRC_AT, crc)


def write_header(
    buffer: WritableBuffer,
    position: int = 0,
    *,
    size_in_bytes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    records_count: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    compression: CompressionType = CompressionType.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    transactional: bool = False,
    control: bool = False,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    delete_horizon: bool = False,
) -> None:
    """Write the 61 bytes before a payload, CRC 0: call ``seal`` once the payload is in place.

    ``size_in_bytes`` counts the whole batch, header included. ``delete_horizon``: ``base_timestamp`` is one (KIP-534).
    """
    attributes = int(compression)
    attributes |= _LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    attributes |= _TRANSACTIONAL_BIT if transactional else 0
    attributes |= _CONTROL_BIT if control else 0
    attributes |= _DELETE_HORIZON_BIT if delete_horizon else 0
    _HEADER.pack_into(
        buffer,
        position,
        base_offset,
        size_in_bytes - LOG_OVERHEAD,
        partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    )


def _check_magic(buffer: Buffer, position: int, available: int) -> None:
    """Raise if a header, complete or cut off, has a wrong length or magic.

    The length comes first: a file's tail of zeroes has magic 0 too and is no message of format v0.
    """
    if available >= LOG_OVERHEAD:
        (length,) = _LENGTH.unpack_from(buffer, position + 8)
        if length < _SMALLEST_OLD_RECORD:
            raise CorruptBatch(f"impossible record batch length {length}", position=position)
    if available > _MAGIC_AT:
        (magic,) = struct.unpack_from(">b", buffer, position + _MAGIC_AT)
        if magic in {0, 1}:
            raise OldFormatBatch(
                f"message format v{magic} is not read here, only record batches of format v2", position=position
            )
        if magic != MAGIC:
            raise CorruptBatch(f"unknown magic {magic} of a record batch", position=position)
        if length < RECORD_BATCH_OVERHEAD - LOG_OVERHEAD:
            raise CorruptBatch(f"impossible record batch length {length}", position=position)


def _check_counts(header: BatchHeader, position: int) -> None:
    """Raise if a field of ``header`` has a value that no writer gives it."""
    if header.attributes & _CODEC_MASK >= len(_CODECS):
        what = f"unknown compression codec {header.attributes & _CODEC_MASK}"
    elif header.last_offset_delta < 0:
        what = f"negative last offset delta {header.last_offset_delta}"
    elif not 0 <= header.records_count <= header.last_offset_delta + 1:
        what = (
            f"{counted(header.records_count, 'record')} cannot have {counted(header.last_offset_delta + 1, 'offset')}"
        )
    elif header.base_offset + header.last_offset_delta >= _OFFSETS_END:
        what = "offsets beyond the largest int64"
    else:
        return
    raise CorruptBatch(what, position=position, base_offset=header.base_offset)
