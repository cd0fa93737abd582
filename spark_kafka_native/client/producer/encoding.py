"""Rows to record batches and, when a broker finds one too large, one batch to two."""

import pyarrow as pa

from spark_kafka_native.client.config import ClientConfig
from spark_kafka_native.records.arrow.decode import decode
from spark_kafka_native.records.arrow.encode import EncodedBatch, encode
from spark_kafka_native.records.arrow.schema import I64
from spark_kafka_native.records.batch import read_header

_COLUMNS = ("key", "value", "headers", "timestamp")


def encode_rows(
    records: pa.RecordBatch,
    config: ClientConfig,
    *,
    timestamp_ms: int,
    max_batch_bytes: int,
    starts: I64 | None = None,
) -> list[EncodedBatch]:
    """Record batches of at most ``max_batch_bytes`` before compression; a larger record is alone in its batch.

    With each row of ``starts``, the first of which is 0, a new batch begins. ``timestamp_ms`` is the time of rows
    without one. With idempotence batches have no CRC until they are stamped.
    """
    return encode(
        records,
        default_timestamp_ms=timestamp_ms,
        compression=config.compression_type,
        level=config.compression_level,
        max_batch_bytes=max_batch_bytes,
        starts=starts,
        sealed=not config.enable_idempotence,
    )


def split_batch(batch: EncodedBatch, config: ClientConfig) -> list[EncodedBatch]:
    """The records of ``batch``, which has several, in smaller batches, in order."""
    header = read_header(batch.buffer)
    decoded = decode(
        batch.buffer,
        from_offset=header.base_offset,
        until_offset=header.next_offset,
        columns=_COLUMNS,
        check_crcs=False,
    )
    half = header.records_count // 2
    unlimited = 2**31 - 1
    return [
        encoded
        for part in (decoded.records.slice(0, half), decoded.records.slice(half))
        for encoded in encode_rows(part, config, timestamp_ms=header.base_timestamp, max_batch_bytes=unlimited)
    ]
