"""Record batches for tests of the log, made and read back in plain Python."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spark_kafka_native._protocol.producer_id import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from spark_kafka_native._records.batch import (
    NO_SEQUENCE,
    RECORD_BATCH_OVERHEAD,
    Buffer,
    CompressionType,
    TimestampType,
    iter_batches,
    seal,
    write_header,
)
from spark_kafka_native._records.compression import compress
from spark_kafka_native._records.decompression import decompress
from spark_kafka_native._records.record import VARLONG_BYTES, read_varint, varint

NOW_MS = 1_700_000_000_000
"""The time at which clocks of tests start."""


class Row(NamedTuple):
    """A record as read back."""

    offset: int
    timestamp: int
    value: bytes


def batch(
    *values: bytes,
    timestamps: Sequence[int] | int = NOW_MS,
    compression: CompressionType = CompressionType.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    records_count: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """A sealed batch of these values, one if none is given, with a timestamp each or one for all."""
    values = values or (b"value",)
    times = [timestamps] * len(values) if isinstance(timestamps, int) else list(timestamps)
    records = bytearray()
    for index, (value, timestamp) in enumerate(zip(values, times, strict=True)):
        body = b"\x00" + varint(timestamp - times[0]) + varint(index) + varint(-1)
        body += varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    whole = bytearray(RECORD_BATCH_OVERHEAD) + compress(compression, bytes(records))
    write_header(
        whole,
        size_in_bytes=len(whole),
        last_offset_delta=len(values) - 1,
        base_timestamp=times[0],
        max_timestamp=max(times),
        records_count=len(values) if records_count is None else records_count,
        compression=compression,
        timestamp_type=timestamp_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
    )
    seal(whole)
    return whole


def joined(batches: Iterable[bytearray]) -> bytearray:
    """Concatenated batches, as in one request."""
    return bytearray(b"".join(batches))


def rows(records: Buffer) -> list[Row]:
    """The records of every whole batch, CRCs not checked; a last batch that is cut off is left out."""
    found = []
    for position, header in iter_batches(records):
        payload = records[position + RECORD_BATCH_OVERHEAD : position + header.size_in_bytes]
        plain = memoryview(decompress(header.compression, payload))
        at = 0
        for index in range(header.records_count):
            length, body = read_varint(plain, at, len(plain), index)
            end = body + length
            timestamp_delta, at = read_varint(plain, body + 1, end, index, VARLONG_BYTES)
            offset_delta, at = read_varint(plain, at, end, index)
            key_length, at = read_varint(plain, at, end, index)
            value_length, at = read_varint(plain, at + max(key_length, 0), end, index)
            stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
            timestamp = header.max_timestamp if stamped else header.base_timestamp + timestamp_delta
            found.append(Row(header.base_offset + offset_delta, timestamp, bytes(plain[at : at + value_length])))
            at = end
    return found
