"""Message sets written, formats v0 and v1 (grammar: `legacy`): message by message, or all in one compressed wrapper."""

import struct
import zlib
from collections.abc import Sequence

from spark_kafka_native.records.batch import LOG_OVERHEAD, CompressionType, TimestampType
from spark_kafka_native.records.compression import compress
from spark_kafka_native.records.legacy import CODECS, OVERHEADS, Message
from spark_kafka_native.records.lz4_header import break_checksum

_ENTRY = struct.Struct(">qiI")
_BODY = (struct.Struct(">bbi"), struct.Struct(">bbqi"))
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)
_LOG_APPEND_TIME_BIT = 0x08
_MAX_MESSAGE_BYTES = 2**31 - 1


def write_message_set(
    messages: Sequence[Message],
    *,
    magic: int,
    compression: CompressionType = CompressionType.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytearray:
    """The messages, at least one, as a set: each by itself, or with a codec all of them in one wrapper.

    Offsets must ascend. With LOG_APPEND_TIME each message keeps the time it has, which should be the same for all.
    Headers do not fit into these formats and are left out; nor does the time into v0.

    Raises ValueError: zstd, which these formats do not have, a level the codec does not have, or a message of more than
    2 GiB.
    """
    if compression not in CODECS:
        raise ValueError(f"there is no {compression.label} in message format v{magic}")
    by_broker = _LOG_APPEND_TIME_BIT if magic and timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    out = bytearray()
    if compression is CompressionType.NONE:
        for message in messages:
            _append(out, message, magic, by_broker)
        return out
    base = messages[0].offset if magic else 0
    inner = bytearray()
    for message in messages:
        _append(inner, message, magic, by_broker, base)
    payload: bytes | bytearray = compress(compression, inner, level)
    if compression is CompressionType.LZ4 and magic == 0:
        payload = break_checksum(payload)
    largest = max(message.timestamp for message in messages)
    _append(out, Message(messages[-1].offset, largest, None, bytes(payload)), magic, by_broker | compression)
    return out


def _append(out: bytearray, message: Message, magic: int, attributes: int, base: int = 0) -> None:
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


def entry_sizes(messages: Sequence[Message], magic: int) -> list[int]:
    """Bytes that each of the messages takes in a set, without compression."""
    overhead = LOG_OVERHEAD + OVERHEADS[magic]
    return [overhead + len(key or b"") + len(value or b"") for _, _, key, value, _ in messages]
