"""Reading offset ranges of partitions as Arrow record batches."""

import functools
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.fetcher import Fetcher
from spark_kafka_native._client.consumer.sources import Wakeup
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.arrow.schema import ALL
from spark_kafka_native._records.decompression import MAX_DECOMPRESSED_BYTES

TARGET_ROWS: Final = 50_000
TARGET_BYTES: Final = 1 << 22
"""Decoded bytes after which a record batch is yielded, whatever its number of rows."""


def row_fetcher(
    cluster: Cluster,
    ranges: Iterable[PartitionRange],
    *,
    columns: Sequence[str] = ALL,
    isolation: int | None = None,
    target_rows: int = TARGET_ROWS,
    timeout_ms: float | None = None,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    wakeup: Wakeup | None = None,
) -> Fetcher[pa.RecordBatch]:
    """A fetcher of rows. ``columns`` are those of ``records.arrow.decode``; the others are those of `Fetcher`.

    A batch of more than ``max_decompressed_bytes`` raises BatchTooLarge.
    """
    return Fetcher(
        cluster,
        ranges,
        decode=functools.partial(
            decode,
            columns=tuple(columns),
            check_crcs=cluster.config.check_crcs,
            max_decompressed_bytes=max_decompressed_bytes,
            target_rows=target_rows,
            target_bytes=TARGET_BYTES,
        ),
        isolation=isolation,
        timeout_ms=timeout_ms,
        max_decompressed_bytes=max_decompressed_bytes,
        wakeup=wakeup,
    )
