"""Message sets, formats v0 and v1, for tests of the log: made in one line each, and read back from any format."""

import zlib
from collections.abc import Sequence

from spark_kafka_native._records.batch import Buffer, CompressionType, TimestampType
from spark_kafka_native._records.conversion import read_records
from spark_kafka_native._records.formats import check_any_crc, iter_any
from spark_kafka_native._records.legacy_write import write_message_set
from spark_kafka_native._records.record import LogRecord
from tests.support.records.log_batches import NOW_MS


def message_set(
    *values: bytes | None,
    magic: int = 1,
    compression: CompressionType = CompressionType.NONE,
    timestamps: Sequence[int] | int = NOW_MS,
    keys: Sequence[bytes | None] | None = None,
    first_offset: int = 0,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytearray:
    """A message set of these values, one if none is given, as a producer sends it: offsets count from 0."""
    values = values or (b"value",)
    times = [timestamps] * len(values) if isinstance(timestamps, int) else list(timestamps)
    messages = [
        LogRecord(first_offset + index, time, None if keys is None else keys[index], value)
        for index, (value, time) in enumerate(zip(values, times, strict=True))
    ]
    return write_message_set(messages, magic=magic, compression=compression, timestamp_type=timestamp_type)


def entry(
    *,
    offset: int = 7,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = NOW_MS,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    crc: int | None = None,
) -> bytes:
    """One message of a set, formatted out."""

    def formatted(content: bytes | None) -> bytes:
        return (-1).to_bytes(4, "big", signed=True) if content is None else len(content).to_bytes(4, "big") + content

    body = bytes([magic, attributes])
    body += timestamp.to_bytes(8, "big", signed=True) if magic else b""
    body += formatted(key) + formatted(value)
    crc = zlib.crc32(body) if crc is None else crc
    return offset.to_bytes(8, "big", signed=True) + (4 + len(body)).to_bytes(4, "big") + crc.to_bytes(4, "big") + body


def messages_in(records: Buffer) -> list[LogRecord]:
    """Every record of every whole batch or message, of any format, all CRCs checked."""
    found: list[LogRecord] = []
    for position, header in iter_any(records):
        check_any_crc(records, position, header)
        found += read_records(memoryview(records), position, header)
    return found


def shapes(records: Buffer) -> list[tuple[int, CompressionType, int]]:
    """Magic, codec and last offset of every whole batch or message."""
    return [(header.magic, header.compression, header.last_offset) for _, header in iter_any(records)]
