"""Rows to record batches and, when a broker finds one too large, one batch to several."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.column_reader import COLUMNS
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.arrow.encode import EncodedBatch, MeasuredRows
from spark_kafka_native._records.arrow.schema import I64
from spark_kafka_native._records.batch import read_header

NO_TIMESTAMP: Final = -1
"""The default of rows that all have a timestamp."""
REQUEST_OVERHEAD_BYTES: Final = 512
"""Bytes of a request for its header and the names of its topics."""
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


def encode_runs(
    measured: MeasuredRows,
    config: ClientConfig,
    partitions: Sequence[TopicPartition],
    *,
    rows: I64 | None,
    starts: I64,
) -> Iterator[tuple[TopicPartition, EncodedBatch]]:
    """Encode rows of several partitions at once: those from ``starts[0]`` on are ``partitions[0]``'s, and so on."""
    encoded = encode_rows(measured, config, rows=rows, max_batch_bytes=max_batch_bytes(config), starts=starts)
    runs = starts.searchsorted([batch.first_row for batch in encoded], side="right") - 1
    return zip((partitions[run] for run in runs.tolist()), encoded, strict=True)


def max_batch_bytes(config: ClientConfig) -> int:
    """The bytes of a batch at most: ``batch.size``, but not more than fits into a request."""
    return max(min(config.batch_size, config.max_request_size - REQUEST_OVERHEAD_BYTES), 1)


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
