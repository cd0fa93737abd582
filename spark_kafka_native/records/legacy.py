"""Message sets, formats v0 and v1: what Kafka stored and sent before record batches came (format v2, Kafka 0.11).

A message set is messages one behind the other, without a count or a length of its own, big-endian::

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
which is why a broker has to write such a set anew to assign offsets (KAFKA-527). Inside a v1 wrapper they count from
the first message, and the wrapper's own is the last one's, so that a broker sets one number (KIP-31); a wrapper at
offset 0 is taken to begin at 0, as some producers leave it there. The timestamp of a v1 wrapper is the largest inside;
under LogAppendTime it is that of every message inside, whatever these say.

Lz4 frames in v0 have a wrong header checksum (`lz4_header`).

A message's ``crc``, ``magic`` and ``attributes`` read as a batch's do, so that a log of all formats can be stepped
through with one kind of header: see ``read_message``.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from spark_kafka_native.records.batch import (
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    CompressionType,
    TimestampType,
    WritableBuffer,
)
from spark_kafka_native.records.compression import MAX_DECOMPRESSED_BYTES, decompress
from spark_kafka_native.records.errors import CorruptBatch, IncompleteBatch, InvalidMessageSet
from spark_kafka_native.records.lz4_header import mend_checksum

NO_HEADERS = b"\x00"
UNKNOWN_COUNT = -1
"""``records_count`` of a wrapper: nobody knows before it is decompressed."""
MESSAGE_HEADER_BYTES = 26
"""Bytes that ``read_message`` looks at; no message is shorter."""
CODECS = (CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4)

_MAGIC_AT = 16
_CRC_FROM = 16
_CRC_AT = 12
_ATTRIBUTES_AT = 17
_TIMESTAMP_AT = 18
_NULL = -1
_CODEC_MASK = 0x07
_LOG_APPEND_TIME_BIT = 0x08

OVERHEADS = (14, 22)
"""By magic: bytes of a message with neither key nor value."""
KEYS_AT = (18, 26)
"""By magic: where an entry's key length stands."""

_OFFSET = struct.Struct(">q")
_CRC = struct.Struct(">I")
_LENGTH = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")
_HEAD = struct.Struct(">qiIbb")
_HEAD_AND_KEY = (struct.Struct(">qiIbbi"), struct.Struct(">qiIbbqi"))


class Message(NamedTuple):
    """One record of any format, singly: its offset in the log, its time (-1: none), key and value (None is null).

    ``headers`` are a v2 record's, as they stand there: a varint count and what it counts.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: bytes = NO_HEADERS


def is_message(buffer: Buffer, position: int = 0) -> bool:
    """Whether what stands at ``position`` has the magic of a message, not of a record batch."""
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


def check_message_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Compare the CRC of the message at ``position`` with that of its bytes, all of which must be in ``buffer``.

    Raises CorruptBatch: they differ.
    """
    actual = zlib.crc32(memoryview(buffer)[position + _CRC_FROM : position + header.size_in_bytes])
    if actual != header.crc:
        raise CorruptBatch(
            f"CRC-32 of the message is {actual:#010x}, its header says {header.crc:#010x}",
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
) -> list[Message]:
    """The message at ``position``, or those inside if it is a wrapper, at their absolute offsets.

    ``header`` is the one ``read_message`` found there. The CRCs of messages inside are checked unless told otherwise;
    the outer one is the caller's.

    Raises CorruptBatch: no sound message, no sound compressed data, more than ``max_bytes`` of it. InvalidMessageSet:
    sound bytes that no wrapper may hold.
    """
    view = memoryview(buffer)
    if not header.compression:
        try:
            key, value = _key_and_value(view, position + KEYS_AT[header.magic], position + header.size_in_bytes)
        except CorruptBatch as error:
            raise error.placed(start=position, base_offset=header.base_offset, record_index=0) from None
        return [Message(header.base_offset, header.max_timestamp, key, value)]
    try:
        plain = open_wrapper(view, position, header, max_bytes=max_bytes)
        found = read_plain_set(plain, header.magic)
        inner = _read_inner(plain, header, check_crcs=check_crcs) if found is None else found[1]
        shift = base_of_wrapper(header, inner[-1].offset if inner else None)
    except CorruptBatch as error:
        raise type(error)(
            error.detail, position=position, base_offset=header.base_offset, record_index=error.record_index
        ) from error
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        time = header.max_timestamp
        return [message._replace(offset=message.offset + shift, timestamp=time) for message in inner]
    return [message._replace(offset=message.offset + shift) for message in inner] if shift else inner


def message_crcs(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[tuple[int, bool]]:
    """The CRC in the message at ``position``, or in each of those inside if it is a wrapper, and whether it is right.

    Raises CorruptBatch: no sound compressed data, or a message inside is cut off.
    """
    view, end = memoryview(buffer), position + header.size_in_bytes
    if header.compression:
        view, position = memoryview(open_wrapper(view, position, header)), 0
        end = len(view)
    while position < end:
        try:
            _, size, crc, *_ = _HEAD.unpack_from(view, position)
        except struct.error as error:
            raise CorruptBatch("a message inside is cut off") from error
        if size < OVERHEADS[header.magic]:
            raise CorruptBatch(f"impossible size {size} of a message inside")
        following = position + LOG_OVERHEAD + size
        yield crc, zlib.crc32(view[position + _CRC_FROM : following]) == crc
        position = following


def read_plain_set(data: bytes, magic: int) -> tuple[list[int], list[Message]] | None:
    """Positions of the messages that ``data`` is made of, and the messages. None as ``read_plain_messages``."""
    found = read_plain_messages(data, magic, 0, most=len(data))
    return None if found is None else found[:2]


def read_plain_messages(
    data: bytes, magic: int, position: int, *, most: int
) -> tuple[list[int], list[Message], int] | None:
    """The messages from ``position`` on, ``most`` at most: their positions, the messages, CRCs checked, and their end.

    It reads as fast as can be. None if that is not all there is: whole messages of format ``magic``, none compressed
    nor with LogAppendTime. Who reads one by one finds out what else there is, or what is wrong.
    """
    head, key_at = _HEAD_AND_KEY[magic], KEYS_AT[magic] + _LENGTH.size
    view, at, end = memoryview(data), position, len(data)
    positions: list[int] = []
    messages: list[Message] = []
    try:
        while at < end and len(positions) < most:
            offset, size, crc, *rest, key_length = head.unpack_from(data, at)
            following = at + LOG_OVERHEAD + size
            start = at + key_at
            value_at = start if key_length == _NULL else start + key_length
            (value_length,) = _LENGTH.unpack_from(data, value_at)
            value_at += _LENGTH.size
            if (
                rest[0] != magic
                or rest[1]
                or key_length < _NULL
                or following > end
                or value_at + (0 if value_length == _NULL else value_length) != following
                or zlib.crc32(view[at + _CRC_FROM : following]) != crc
            ):
                return None
            positions.append(at)
            messages.append(
                Message(
                    offset,
                    rest[2] if magic else NO_TIMESTAMP,
                    None if key_length == _NULL else data[start : start + key_length],
                    None if value_length == _NULL else data[value_at:following],
                )
            )
            at = following
    except struct.error:
        return None
    return positions, messages, at


def open_wrapper(
    view: memoryview, position: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes:
    """The message set inside the wrapper at ``position``.

    Raises CorruptBatch, its position not known: no sound message, not what the codec writes, more than ``max_bytes``.
    InvalidMessageSet: there is no value.
    """
    end = position + header.size_in_bytes
    _, length = _spans(view, position + KEYS_AT[header.magic], end)
    if length < 0:
        raise InvalidMessageSet(f"a compressed message of format v{header.magic} without a value")
    codec, payload = header.compression, view[end - length : end]
    stored: Buffer = payload
    if codec is CompressionType.LZ4 and header.magic == 0:
        stored = mend_checksum(payload)
    return bytes(decompress(codec, stored, max_bytes=max_bytes))


def base_of_wrapper(header: BatchHeader, last_inner_offset: int | None) -> int:
    """What to add to offsets inside a wrapper, given the last of them, None if there is none.

    Raises InvalidMessageSet: nothing is inside, or more than the wrapper's offset allows.
    """
    if last_inner_offset is None:
        raise InvalidMessageSet("a compressed message with no message inside")
    if header.magic == 0 or header.base_offset == 0:
        return 0
    if header.base_offset < last_inner_offset:
        raise InvalidMessageSet(
            f"the last offset inside a compressed message is {last_inner_offset}, that of the message itself is before"
        )
    return header.base_offset - last_inner_offset


def inner_fault(magic: int, attributes: int, wrapper: BatchHeader, index: int) -> InvalidMessageSet:
    """What is wrong with a message number ``index`` inside ``wrapper`` that has a codec or another magic."""
    if attributes & _CODEC_MASK:
        return InvalidMessageSet("a compressed message inside a compressed message", record_index=index)
    return InvalidMessageSet(f"a message of magic {magic} inside one of format v{wrapper.magic}", record_index=index)


def _read_inner(plain: bytes, wrapper: BatchHeader, *, check_crcs: bool) -> list[Message]:
    """The messages inside, at the offsets and with the timestamps that stand there."""
    head, keys_at, overhead = _HEAD_AND_KEY[wrapper.magic], KEYS_AT[wrapper.magic], OVERHEADS[wrapper.magic]
    view = memoryview(plain)
    found: list[Message] = []
    position = 0
    while position < len(plain):
        if len(plain) - position < head.size:
            raise CorruptBatch("a message inside is cut off", record_index=len(found))
        offset, size, crc, magic, attributes, *_ = fields = head.unpack_from(plain, position)
        if attributes & _CODEC_MASK or magic != wrapper.magic:
            raise inner_fault(magic, attributes, wrapper, len(found))
        end = position + LOG_OVERHEAD + size
        if size < overhead or end > len(plain):
            raise CorruptBatch(f"impossible size {size} of a message inside", record_index=len(found))
        if check_crcs and (actual := zlib.crc32(view[position + _CRC_FROM : end])) != crc:
            raise CorruptBatch(
                f"CRC-32 of a message inside is {actual:#010x}, its header says {crc:#010x}", record_index=len(found)
            )
        try:
            key, value = _key_and_value(view, position + keys_at, end)
        except CorruptBatch as error:
            raise error.placed(record_index=len(found)) from None
        found.append(Message(offset, fields[5] if magic else NO_TIMESTAMP, key, value))
        position = end
    return found


def _spans(view: memoryview, keys_at: int, end: int) -> tuple[int, int]:
    """The lengths of key and value, -1 for null. Raises CorruptBatch: they do not fill the message."""
    (key_length,) = _LENGTH.unpack_from(view, keys_at)
    value_at = keys_at + _LENGTH.size + max(0, key_length)
    if key_length < -1 or value_at + _LENGTH.size > end:
        raise CorruptBatch(f"impossible length {key_length} of a message's key")
    (value_length,) = _LENGTH.unpack_from(view, value_at)
    left = end - value_at - _LENGTH.size
    if value_length != left and (value_length != -1 or left):
        raise CorruptBatch(f"impossible length {value_length} of a message's value, {left} bytes are left")
    return key_length, value_length


def _key_and_value(view: memoryview, keys_at: int, end: int) -> tuple[bytes | None, bytes | None]:
    key_length, value_length = _spans(view, keys_at, end)
    key_at = keys_at + _LENGTH.size
    key = None if key_length < 0 else bytes(view[key_at : key_at + key_length])
    return key, None if value_length < 0 else bytes(view[end - value_length : end])


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
    crc = zlib.crc32(memoryview(buffer)[position + _CRC_FROM : position + header.size_in_bytes])
    _CRC.pack_into(buffer, position + _CRC_AT, crc)
