"""Arrow to record batches of bounded size, without a Python object per record.

The kernel writes the payloads of all batches at once, with space for their headers. Then each batch is cut, compressed,
and gets its header and CRC.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from spark_kafka_native._records.arrow.column_reader import read_columns
from spark_kafka_native._records.arrow.kernel import measure
from spark_kafka_native._records.arrow.schema import I64
from spark_kafka_native._records.batch import (
    RECORD_BATCH_OVERHEAD,
    CompressionType,
    WritableBuffer,
    seal,
    set_producer,
    write_header,
)
from spark_kafka_native._records.compression import compress
from spark_kafka_native._records.record import MIN_RECORD_BYTES

_MAX_BATCH_BYTES = 2**31 - 1
_SIZE_LIMITS = np.array([1 << bits for bits in range(6, 63, 7)])
"""A number below the first takes one byte as a varint, one below the second two."""
_BLANK_HEADER = bytearray(RECORD_BATCH_OVERHEAD)


@dataclass(slots=True, kw_only=True)
class EncodedBatch:
    """One batch, as yet of no producer, at offset 0. ``first_row`` is its first record's index in the encoded rows."""

    buffer: WritableBuffer
    records_count: int
    first_row: int

    def stamp(self, *, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool = False) -> None:
        """Name the producer and seal the batch again, in place; may be repeated, as after a new epoch."""
        set_producer(
            self.buffer,
            0,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )


class MeasuredRows:
    """Rows whose columns are read and whose records are measured, so that they can be encoded in any order.

    ``fixed_sizes``: int64[n], the bytes of each record without its length and its two deltas.
    """

    def __init__(self, records: pa.RecordBatch, default_timestamp_ms: int) -> None:
        """Read the columns of ``records``, each of which may be missing.

        ``key`` and ``value``: binary, string, their large and view forms. ``headers``: list<struct<key: string, value:
        binary>> or map<string, binary>; null is none. ``timestamp``: timestamp of any unit, rounded down, or integer
        milliseconds; null is ``default_timestamp_ms``.

        Raises ValueError: a column that cannot be sent, a header without a key (naming the row).
        """
        self.columns = read_columns(records, default_timestamp_ms)
        self._measured = measure(self.columns)
        self.fixed_sizes = self._measured.fixed_sizes

    def encode(
        self,
        rows: I64 | None = None,
        *,
        compression: CompressionType,
        level: int | None = None,
        max_batch_bytes: int,
        starts: I64 | None = None,
        sealed: bool = True,
    ) -> list[EncodedBatch]:
        """``rows``, in that order, by default all, as batches of at most ``max_batch_bytes`` before compression.

        A record too large for ``max_batch_bytes`` gets a batch of its own. A new batch begins at each index of
        ``starts``, which ascend from 0. As in Kafka's producer, compression is not anticipated: compressed batches are
        as much smaller as their records compress. What is not ``sealed`` has no CRC: it must be stamped. Batches that
        are not compressed share one piece of memory, which is freed with the last of them.

        Raises ValueError: a record too large for any batch, timestamps too far apart for an int64, a level the codec
        does not have.
        """
        if rows is None:
            rows = np.arange(len(self.fixed_sizes))
        if len(rows) == 0:
            return []
        timestamps = self.columns.timestamps[rows]
        max_payload_bytes = min(max_batch_bytes, _MAX_BATCH_BYTES) - RECORD_BATCH_OVERHEAD
        firsts = _split(
            self.fixed_sizes[rows], timestamps, max_payload_bytes, [0] if starts is None else starts.tolist()
        )
        counts = np.diff(firsts, append=len(rows))
        payload = self._measured.payload(rows, firsts, RECORD_BATCH_OVERHEAD)
        begins = payload.begins[firsts] - RECORD_BATCH_OVERHEAD
        encoded = [
            EncodedBatch(
                buffer=_batch(payload.data[begin:end], count, base_timestamp, max_timestamp, compression, level),
                records_count=count,
                first_row=first_row,
            )
            for begin, end, first_row, count, base_timestamp, max_timestamp in zip(
                begins.tolist(),
                np.append(begins[1:], payload.begins[-1]).tolist(),
                firsts.tolist(),
                counts.tolist(),
                timestamps[firsts].tolist(),
                np.maximum.reduceat(timestamps, firsts).tolist(),
                strict=True,
            )
        ]
        if sealed:
            for batch in encoded:
                seal(batch.buffer)
        return encoded


def _split(fixed_sizes: I64, timestamps: I64, max_payload_bytes: int, starts: Sequence[int]) -> I64:
    """First rows of batches whose records take at most ``max_payload_bytes``, or are alone; ``starts`` are among them.

    Goes by upper bounds of what deltas can take, as the deltas are not known before the batches are.
    """
    span = int(timestamps.max()) - int(timestamps.min())
    if span >= 2**63:
        raise ValueError("timestamps of the rows are too far apart for one int64 to hold the distance")
    rows = len(timestamps)
    most = min(rows, max(max_payload_bytes // MIN_RECORD_BYTES, 1))
    bodies = fixed_sizes + int(_varint_sizes(np.array([span, most])).sum())
    sizes = bodies + _varint_sizes(bodies)
    if sizes.max() > _MAX_BATCH_BYTES - RECORD_BATCH_OVERHEAD:
        raise ValueError(f"row {sizes.argmax()} makes a record of {sizes.max()} bytes, more than any batch can hold")
    ends = np.cumsum(sizes)
    firsts = []
    before = 0
    for start, stop in pairwise([*starts, rows]):
        first = start
        while first < stop:
            firsts.append(first)
            first = min(max(int(ends.searchsorted(before + max_payload_bytes, side="right")), first + 1), stop)
            before = int(ends[first - 1])
    return np.array(firsts, dtype=np.int64)


def _varint_sizes(values: I64) -> I64:
    """Bytes that each of ``values``, none of them negative, takes as a varint: int64[n]."""
    first, last = _SIZE_LIMITS.searchsorted([values.min(), values.max()], side="right")
    sizes = np.full(len(values), first + 1, dtype=np.int64)
    for limit in _SIZE_LIMITS[first:last]:
        sizes += values >= limit
    return sizes


def _batch(
    plain: memoryview,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    compression: CompressionType,
    level: int | None,
) -> WritableBuffer:
    """The batch of ``plain``, which is space for a header and a payload, in that memory if it can be."""
    buffer: WritableBuffer
    if compression is not CompressionType.NONE:
        buffer = _BLANK_HEADER + compress(compression, plain[RECORD_BATCH_OVERHEAD:], level)
    else:
        buffer = bytearray(plain) if plain.readonly else plain
    write_header(
        buffer,
        size_in_bytes=len(buffer),
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        records_count=count,
        compression=compression,
    )
    return buffer
