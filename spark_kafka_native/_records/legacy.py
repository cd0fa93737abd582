"""Message sets, formats v0 and v1: how Kafka stored and sent records before record batches (format v2, Kafka 0.11).

A message set is a sequence of messages, without a count or a length of its own, big-endian::

    message_set = (offset       int64   of the message, or of the last one inside; a producer may write anything
                   message_size int32   bytes of the message, so the whole entry is 12 more
                   message)*
    message     = crc           uint32  CRC-32 (zlib's) of everything from magic to the end
                  magic         int8    0; or 1, which Kafka 0.10 brought (KIP-32)
                  attributes    int8    bits 0-2 codec: none, gzip, snappy, lz4; v1, bit 3: LogAppendTime
                  timestamp     int64   v1 alone: ms, -1 for none
                  key           int32 length, -1 for null, and so many bytes
                  value         the same

A message with a codec is a wrapper. It has no key, and its value is a message set, compressed; the messages in there
have the wrapper's magic and no codec of their own, so nothing nests deeper. Inside a v0 wrapper offsets are absolute,
which is why a broker has to rewrite such a set to assign offsets (KAFKA-527). Inside a v1 wrapper they count from
the first message, and the wrapper's own is the last one's, so that a broker sets one number (KIP-31); a wrapper at
offset 0 is taken to begin at 0, as some producers leave it there. The timestamp of a v1 wrapper is the largest inside;
under LogAppendTime it is that of every message inside, and their own are ignored.

Lz4 frames in v0 have a wrong header checksum (`lz4_header`).

A message's ``crc``, ``magic`` and ``attributes`` read as a batch's do, so that a log of all formats can be stepped
through with one kind of header: see ``read_message``.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from zlib import crc32

from spark_kafka_native._protocol.producer_id import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from spark_kafka_native._records.batch import (
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    CompressionType,
    TimestampType,
    WritableBuffer,
)
from spark_kafka_native._records.decompression import MAX_DECOMPRESSED_BYTES, decompress
from spark_kafka_native._records.errors import CorruptBatch, IncompleteBatch, InvalidMessageSet
from spark_kafka_native._records.lz4_header import repair_checksum
from spark_kafka_native._records.record import LogRecord

UNKNOWN_COUNT = -1
"""``records_count`` of a wrapper, which is known only when it has been decompressed."""
MESSAGE_HEADER_BYTES = 26
"""Bytes that ``read_message`` looks at; no message is shorter."""
CODECS = (CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4)

_MAGIC_AT = 16
_CRC_FROM = 16
_CRC_AT = 12
_ATTRIBUTES_AT = 17
_TIMESTAMP_AT = 18
_NULL = -1
_OFFSETS_END = 2**63
_MAX_MESSAGES = 2**31
_CODEC_MASK = 0x07
_LOG_APPEND_TIME_BIT = 0x08

OVERHEADS = (14, 22)
"""By magic: bytes of a message with neither key nor value."""
KEYS_AT = (18, 26)
"""By magic: the position of an entry's key length."""

_OFFSET = struct.Struct(">q")
_CRC = struct.Struct(">I")
_LENGTH = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")
_HEAD = struct.Struct(">qiIbb")
_HEAD_AND_KEY = (struct.Struct(">qiIHi"), struct.Struct(">qiIHqi"))
"""By magic: an entry up to its key length; magic and attributes are one number."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages by column, because an object for each takes longer than reading it. Positions are those in the bytes."""

    positions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)

    def rows(self) -> list[LogRecord]:
        """The same as objects."""
        return list(map(LogRecord, self.offsets, self.timestamps, self.keys, self.values))


def is_message(buffer: Buffer, position: int = 0) -> bool:
    """Whether the bytes at ``position`` have the magic of a message, not of a record batch."""
    return len(buffer) > position + _MAGIC_AT and buffer[position + _MAGIC_AT] in {0, 1}


def read_message(buffer: Buffer, position: int = 0, *, whole: bool = True) -> BatchHeader:
    """The header of the message at ``position``, in the shape of a batch's; the CRC is not checked.

    ``batch_length`` is the message's size and ``base_offset`` its offset, so that of a wrapper's last message; a
    wrapper's ``records_count`` is UNKNOWN_COUNT. Without a timestamp (v0) both are NO_TIMESTAMP. There is no leader
    epoch and no producer. With ``whole=False`` the message's end need not be in the buffer.

    Raises CorruptBatch: an impossible size, another magic, a codec that messages cannot have. IncompleteBatch: the
    buffer ends before the message does.
    """
    available = len(buffer) - position
    if available < _HEAD.size:
        raise IncompleteBatch(
            f"a message is cut off after {max(available, 0)} bytes, before its size is known", position=position
        )
    offset, size, crc, magic, attributes = _HEAD.unpack_from(buffer, position)
    if magic not in {0, 1}:
        raise CorruptBatch(f"unknown magic {magic} of a message", position=position)
    if size < OVERHEADS[magic]:
        raise CorruptBatch(f"impossible message size {size} in format v{magic}", position=position)
    if available < MESSAGE_HEADER_BYTES or (whole and available < LOG_OVERHEAD + size):
        raise IncompleteBatch(
            f"a message of {LOG_OVERHEAD + size} bytes is cut off after {available}",
            position=position,
            base_offset=offset,
        )
    codec = attributes & _CODEC_MASK
    if codec >= len(CODECS):
        raise InvalidMessageSet(
            f"compression codec {codec} in a message of format v{magic}", position=position, base_offset=offset
        )
    timestamp = _TIMESTAMP.unpack_from(buffer, position + _TIMESTAMP_AT)[0] if magic else NO_TIMESTAMP
    return BatchHeader(
        offset,
        size,
        NO_PARTITION_LEADER_EPOCH,
        magic,
        crc,
        attributes & (_CODEC_MASK | _LOG_APPEND_TIME_BIT if magic else _CODEC_MASK),
        0,
        timestamp,
        timestamp,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        UNKNOWN_COUNT if codec else 1,
    )


def _wrong_crc(actual: int, crc: int) -> str:
    return f"CRC-32 of the message is {actual:#010x}, its header says {crc:#010x}"


def check_message_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Compare the CRC of the message at ``position`` with that of its bytes, all of which must be in ``buffer``.

    Raises CorruptBatch: they differ.
    """
    actual = crc32(memoryview(buffer)[position + _CRC_FROM : position + header.size_in_bytes])
    if actual != header.crc:
        raise CorruptBatch(
            _wrong_crc(actual, header.crc),
            position=position,
            base_offset=header.base_offset,
        )


def read_messages(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    *,
    check_crcs: bool = True,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[LogRecord]:
    """The message at ``position``, or those inside if it is a wrapper, at their absolute offsets.

    ``header`` is the one ``read_message`` found there. With ``check_crcs`` the CRCs of messages inside are checked; the
    outer one is the caller's.

    Raises CorruptBatch: no sound message, no sound compressed data, more than ``max_bytes`` of it. InvalidMessageSet:
    sound bytes that no wrapper may hold.
    """
    try:
        if header.compression:
            plain = open_wrapper(buffer, position, header, max_bytes=max_bytes)
            return read_wrapped(plain, header, check_crcs=check_crcs).rows()
        return [_read_one(buffer, position, header)]
    except CorruptBatch as error:
        raise _placed(error, position, header) from error


def _placed(error: CorruptBatch, position: int, header: BatchHeader) -> CorruptBatch:
    """The same error at the message at ``position``, which has this header."""
    return type(error)(error.detail, position=position, base_offset=header.base_offset, record_index=error.record_index)


def _read_one(buffer: Buffer, position: int, header: BatchHeader) -> LogRecord:
    """The message at ``position``; if it is a wrapper, the compressed messages are its value."""
    raw = bytes(memoryview(buffer)[position : position + header.size_in_bytes])
    attributes = raw[_ATTRIBUTES_AT]
    found = Messages()
    walk_messages(raw, 0, found, magic=header.magic, attributes=attributes, check_crcs=False)
    return found.rows()[0]


def open_wrapper(
    buffer: Buffer, position: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes:
    """The message set inside the wrapper at ``position``.

    Raises CorruptBatch, its position not known: no sound message, not what the codec writes, more than ``max_bytes``.
    InvalidMessageSet: there is no value.
    """
    stored: Buffer | None = _read_one(buffer, position, header).value
    if stored is None:
        raise InvalidMessageSet(f"a compressed message of format v{header.magic} without a value")
    if header.compression is CompressionType.LZ4 and header.magic == 0:
        stored = repair_checksum(stored)
    return bytes(decompress(header.compression, stored, max_bytes=max_bytes))


def read_wrapped(plain: bytes, wrapper: BatchHeader, *, check_crcs: bool = True) -> Messages:
    """The messages of ``plain``, which was inside ``wrapper``, at absolute offsets.

    Raises CorruptBatch, its position not known: no whole messages. InvalidMessageSet: what no wrapper may hold.
    """
    found = Messages()
    at = 0
    while at < len(plain):
        end = walk_messages(plain, at, found, magic=wrapper.magic, check_crcs=check_crcs)
        if end == at:
            raise _inner_fault(plain, at, wrapper, len(found.offsets))
        at = end
    if not found.offsets:
        raise InvalidMessageSet("a compressed message with no message inside")
    last_offset = found.offsets[-1]
    shift = wrapper.base_offset - last_offset if wrapper.magic and wrapper.base_offset else 0
    if shift < 0:
        raise InvalidMessageSet(
            f"the last offset inside a compressed message is {last_offset}, its own is {wrapper.base_offset}"
        )
    if shift:
        found.offsets[:] = [offset + shift for offset in found.offsets]
    if wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME:
        found.timestamps[:] = [wrapper.max_timestamp] * len(found.timestamps)
    return found


def _inner_fault(plain: bytes, at: int, wrapper: BatchHeader, index: int) -> CorruptBatch:
    """The reason why the bytes at ``at`` inside ``wrapper`` are no message that may be there."""
    if len(plain) - at < _HEAD_AND_KEY[wrapper.magic].size:
        return CorruptBatch("a message inside is cut off", record_index=index)
    _, size, _, magic, attributes = _HEAD.unpack_from(plain, at)
    if attributes & _CODEC_MASK:
        return InvalidMessageSet("a compressed message inside a compressed message", record_index=index)
    if magic != wrapper.magic:
        return InvalidMessageSet(
            f"a message of magic {magic} inside one of format v{wrapper.magic}", record_index=index
        )
    return CorruptBatch(f"impossible size {size} of a message inside", record_index=index)


def message_crcs(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[tuple[int, bool]]:
    """The CRC in the message at ``position``, or in each of those inside if it is a wrapper, and whether it is right.

    Raises CorruptBatch: no sound compressed data, or a message inside is cut off.
    """
    if header.compression:
        data = open_wrapper(buffer, position, header)
        positions = read_wrapped(data, header, check_crcs=False).positions
    else:
        data, positions = bytes(memoryview(buffer)[position : position + header.size_in_bytes]), [0]
    for at, following in pairwise([*positions, len(data)]):
        (crc,) = _CRC.unpack_from(data, at + _CRC_AT)
        yield crc, crc32(data[at + _CRC_FROM : following]) == crc


def read_plain_messages(
    data: bytes, magic: int, position: int, *, most: int
) -> tuple[list[int], list[LogRecord], int] | None:
    """As ``walk_messages``; None unless all are valid messages of ``magic`` without a codec and LogAppendTime."""
    found = Messages()
    try:
        end = walk_messages(data, position, found, magic=magic, attributes=0, most=most)
    except CorruptBatch:
        return None
    return (found.positions, found.rows(), end) if len(found.offsets) == most or end == len(data) else None


def walk_messages(
    data: bytes,
    position: int,
    found: Messages,
    *,
    magic: int,
    attributes: int | None = None,
    most: int = _MAX_MESSAGES,
    until_offset: int = _OFFSETS_END,
    check_crcs: bool = True,
) -> int:
    """Add the messages of ``magic`` from ``position`` on to ``found``, ``most`` at most; the position after them.

    They have the same ``attributes``, by default the first one's, which then must have no codec. The walk ends before
    any other bytes: another kind of message, one that is cut off or has an impossible size, or ``until_offset``.

    Raises CorruptBatch: a wrong CRC, or lengths of key and value that do not fill the message. Its ``position`` and
    ``base_offset`` are the message's, its ``record_index`` counts from the first of ``found``.
    """
    positions, offsets, timestamps = found.positions, found.offsets, found.timestamps
    keys, values = found.keys, found.values
    view, at, end = memoryview(data), position, len(data)
    unpack, head_bytes = _HEAD_AND_KEY[magic].unpack_from, _HEAD_AND_KEY[magic].size
    overhead, key_offset = OVERHEADS[magic], KEYS_AT[magic] + _LENGTH.size
    if attributes is None and end - at >= head_bytes:
        attributes = data[at + _ATTRIBUTES_AT] & ~_CODEC_MASK
    kind = magic << 8 | (attributes or 0)
    unpack_length, time = _LENGTH.unpack_from, NO_TIMESTAMP
    for _ in range(most):
        if end - at < head_bytes:
            break
        if magic:
            offset, size, crc, found_kind, time, key_length = unpack(data, at)
        else:
            offset, size, crc, found_kind, key_length = unpack(data, at)
        following = at + LOG_OVERHEAD + size
        if found_kind != kind or size < overhead or following > end or offset >= until_offset:
            break
        if check_crcs and (actual := crc32(view[at + _CRC_FROM : following])) != crc:
            raise _corrupt(_wrong_crc(actual, crc), at, offset, len(offsets))
        key_at = at + key_offset
        value_at = key_at + key_length if key_length > 0 else key_at
        if key_length < _NULL or value_at + 4 > following:
            raise _corrupt(f"impossible length {key_length} of the message's key", at, offset, len(offsets))
        (value_length,) = unpack_length(data, value_at)
        left = following - value_at - 4
        if value_length != left and (value_length != _NULL or left):
            what = f"impossible length {value_length} of the message's value, {left} bytes are left"
            raise _corrupt(what, at, offset, len(offsets))
        positions.append(at)
        offsets.append(offset)
        timestamps.append(time)
        keys.append(None if key_length == _NULL else data[key_at:value_at])
        values.append(None if value_length == _NULL else data[value_at + 4 : following])
        at = following
    return at


def _corrupt(detail: str, position: int, offset: int, index: int) -> CorruptBatch:
    return CorruptBatch(detail, position=position, base_offset=offset, record_index=index)


# --- changing in place -----------------------------------------------------------------------------------------------


def set_message_offset(buffer: WritableBuffer, position: int, offset: int) -> None:
    """Give the message at ``position`` its offset, of a wrapper the last one inside; it is not under the CRC."""
    _OFFSET.pack_into(buffer, position, offset)


def set_message_timestamp(
    buffer: WritableBuffer, position: int, header: BatchHeader, timestamp_ms: int, timestamp_type: TimestampType
) -> None:
    """Write timestamp and timestamp type of the v1 message at ``position``, and renew its CRC.

    Raises ValueError: a message of format v0, which has neither.
    """
    if header.magic == 0:
        raise ValueError("a message of format v0 has no timestamp")
    attributes = buffer[position + _ATTRIBUTES_AT] & ~_LOG_APPEND_TIME_BIT
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= _LOG_APPEND_TIME_BIT
    buffer[position + _ATTRIBUTES_AT] = attributes
    _TIMESTAMP.pack_into(buffer, position + _TIMESTAMP_AT, timestamp_ms)
    crc = crc32(memoryview(buffer)[position + _CRC_FROM : position + header.size_in_bytes])
    _CRC.pack_into(buffer, position + _CRC_AT, crc)
