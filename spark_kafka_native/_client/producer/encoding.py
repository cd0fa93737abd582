"""Rows to record batches and, when a broker finds one too large, one batch to several."""

from typing import Final

import numpy as np

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._records.arrow.column_reader import COLUMNS
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.arrow.encode import EncodedBatch, MeasuredRows
from spark_kafka_native._records.arrow.schema import I64
from spark_kafka_native._records.batch import read_header

NO_TIMESTAMP: Final = -1
"""The default of rows that all have a timestamp."""
_UNLIMITED: Final = 2**31 - 1


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


def split_batch(batch: EncodedBatch, config: ClientConfig, pieces: int) -> list[EncodedBatch]:
    """The records of ``batch``, which has several, as ``pieces`` batches of about the same size before compression.

    They are fewer, but at least two, if there are not enough records, or some are much larger than others.
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
    rows, count = header.records_count, min(pieces, header.records_count)
    ends, numbers = np.cumsum(measured.fixed_sizes), np.arange(1, count)
    # At least one record before each start, and after it.
    starts = ends.searchsorted(ends[-1] * numbers / count, side="right").clip(numbers, rows - count + numbers)
    return encode_rows(measured, config, max_batch_bytes=_UNLIMITED, starts=np.unique([0, *starts]))
