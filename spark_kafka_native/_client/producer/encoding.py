"""Rows to record batches and, when a broker finds one too large, one batch to several."""

from typing import Final

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._records.arrow.column_reader import COLUMNS
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.arrow.encode import EncodedBatch, MeasuredRows
from spark_kafka_native._records.arrow.schema import I64
from spark_kafka_native._records.batch import RECORD_BATCH_OVERHEAD, read_header

NO_TIMESTAMP: Final = -1
"""The default of rows that all have a timestamp."""


def encode_rows(
    measured: MeasuredRows,
    config: ClientConfig,
    *,
    rows: I64 | None = None,
    max_batch_bytes: int,
    starts: I64 | None = None,
) -> list[EncodedBatch]:
    """As ``MeasuredRows.encode``. With idempotence batches have no CRC until they are stamped."""
    return measured.encode(
        rows,
        compression=config.compression_type,
        level=config.compression_level,
        max_batch_bytes=max_batch_bytes,
        starts=starts,
        sealed=not config.enable_idempotence,
    )


def split_batch(batch: EncodedBatch, config: ClientConfig, max_bytes: int) -> list[EncodedBatch]:
    """The records of ``batch``, which has several, as batches of about ``max_bytes``, at most half of its size.

    There are at least two. A batch may be larger if its records compress less, or if it has one record.
    """
    header = read_header(batch.buffer)
    decoded = decode(
        batch.buffer,
        from_offset=header.base_offset,
        until_offset=header.next_offset,
        columns=COLUMNS,
        check_crcs=False,
    )
    measured = MeasuredRows(decoded.records, NO_TIMESTAMP)
    payload_share = max(max_bytes - RECORD_BATCH_OVERHEAD, 0) / (len(batch.buffer) - RECORD_BATCH_OVERHEAD)
    plain_bytes = int(measured.fixed_sizes.sum() * payload_share)
    return encode_rows(measured, config, max_batch_bytes=RECORD_BATCH_OVERHEAD + plain_bytes)
