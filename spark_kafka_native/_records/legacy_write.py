"""Message sets written, formats v0 and v1 (grammar: `legacy`): message by message, or all in one compressed wrapper."""

import struct
import zlib
from collections.abc import Iterable

from spark_kafka_native._records.batch import LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, CompressionType, TimestampType
from spark_kafka_native._records.compression import compressor
from spark_kafka_native._records.decompression import SMALL_PIECES
from spark_kafka_native._records.errors import check_written
from spark_kafka_native._records.legacy import CODECS, OVERHEADS, open_wrapper, set_message_offset
from spark_kafka_native._records.lz4_header import break_checksum
from spark_kafka_native._records.record import LogRecord

_ENTRY = struct.Struct(">qiI")
_BODY = (struct.Struct(">bbi"), struct.Struct(">bbqi"))
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)
_LOG_APPEND_TIME_BIT = 0x08
_CODEC_MASK = 0x07
_SIZE_AT = 8
_MAX_MESSAGE_BYTES = 2**31 - 1


def write_message_set(
    messages: Iterable[LogRecord],
    *,
    magic: int,
    compression: CompressionType = CompressionType.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_bytes: int | None = None,
) -> bytearray:
    """The messages as a set: each by itself, or with a codec all of them in one wrapper; no bytes if there are none.

    The messages are compressed as they come, so that only compressed bytes are held.

    Offsets must ascend. With LOG_APPEND_TIME each message keeps the time it has, which should be the same for all.
    Headers do not fit into these formats and are left out; nor does the time into v0.

    Raises ValueError: zstd, which these formats do not have, a level the codec does not have, or a message of more than
    2 GiB. OversizedBatch: the set has more than ``max_bytes``.
    """
    if compression not in CODECS:
        raise ValueError(f"there is no {compression.label} in message format v{magic}")
    by_broker = _LOG_APPEND_TIME_BIT if magic and timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    out = bytearray()
    if compression is CompressionType.NONE:
        for message in messages:
            _append(out, message, magic, by_broker)
            check_written(len(out), max_bytes)
        return out
    return _write_wrapper(messages, magic, compression, level, by_broker, max_bytes)


def _write_wrapper(
    messages: Iterable[LogRecord],
    magic: int,
    compression: CompressionType,
    level: int | None,
    by_broker: int,
    max_bytes: int | None,
) -> bytearray:
    out = bytearray()
    compressed = compressor(compression, level)
    payload, plain = bytearray(), bytearray()
    base = last_offset = largest = None
    for message in messages:
        if base is None or largest is None:
            base, largest = message.offset if magic else 0, message.timestamp
        last_offset, largest = message.offset, max(largest, message.timestamp)
        _append(plain, message, magic, by_broker, base)
        if len(plain) >= SMALL_PIECES:
            payload += compressed.compress(plain)
            plain.clear()
            check_written(len(payload), max_bytes)
    if last_offset is None or largest is None:
        return out
    payload += compressed.compress(plain)
    payload += compressed.flush()
    _append_wrapper(out, payload, last_offset, largest, magic, by_broker | compression)
    check_written(len(out), max_bytes)
    return out


def _append_wrapper(
    out: bytearray, payload: bytearray, last_offset: int, largest: int, magic: int, attributes: int
) -> None:
    if attributes & _CODEC_MASK == CompressionType.LZ4 and magic == 0:
        payload = break_checksum(payload)
    _append(out, LogRecord(last_offset, largest, None, bytes(payload)), magic, attributes)


def renumber_wrapper(wrapper: memoryview, header: BatchHeader, base_offset: int, level: int | None = None) -> bytearray:
    """A wrapper of format v0 with the offsets inside counted from ``base_offset``; ``header`` is its header.

    The messages inside are not looked at: they were checked before. Raises CorruptBatch: not what the codec writes.
    """
    plain = bytearray(open_wrapper(wrapper, 0, header))
    at, offset = 0, base_offset
    while at < len(plain):
        set_message_offset(plain, at, offset)
        at += LOG_OVERHEAD + _LENGTH.unpack_from(plain, at + _SIZE_AT)[0]
        offset += 1
    compressed = compressor(header.compression, level)
    payload = bytearray(compressed.compress(plain))
    payload += compressed.flush()
    out = bytearray()
    _append_wrapper(out, payload, offset - 1, NO_TIMESTAMP, 0, header.compression)
    return out


def _append(out: bytearray, message: LogRecord, magic: int, attributes: int, base: int = 0) -> None:
    offset, timestamp, key, value, _ = message
    key_length = -1 if key is None else len(key)
    times = (timestamp,) if magic else ()
    body = _BODY[magic].pack(magic, attributes, *times, key_length)
    body += (key or b"") + (_NULL if value is None else _LENGTH.pack(len(value)) + value)
    size = len(body) + _ENTRY.size - LOG_OVERHEAD
    if size > _MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {size} bytes is more than format v{magic} can hold")
    out += _ENTRY.pack(offset - base, size, zlib.crc32(body))
    out += body


def entry_size(message: LogRecord, magic: int) -> int:
    """Bytes that a message takes in a set, without compression."""
    return LOG_OVERHEAD + OVERHEADS[magic] + len(message.key or b"") + len(message.value or b"")
