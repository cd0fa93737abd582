"""Rows to write: their columns, their sizes and their partitions.

Everything works on whole columns. Pure: no socket, no clock.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafka_native._client.errors import NoSuchPartition, RecordTooLarge
from spark_kafka_native._client.partitioning.key_hashes import I32, I64
from spark_kafka_native._client.partitioning.partitioners import Partitioner, Unassigned
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.encode import MeasuredRows
from spark_kafka_native._records.arrow.views import array_of, integers, nulls
from spark_kafka_native._records.batch import RECORD_BATCH_OVERHEAD

PARTITION: Final = "partition"
TIMESTAMP: Final = "timestamp"

_DELTA_BYTES: Final = 20
"""The longest varints of a record's length, timestamp and offset."""
_LONG_RUN_BYTES: Final = 1 << 16
"""Runs of rows of one partition that are longer on average are not worth to be copied together."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows to send: ``records`` are the columns to encode, ``sizes`` int64[n] their bytes at most.

    ``records`` has a timestamp in each row. ``given`` is the partition column, if there is one.
    """

    records: pa.RecordBatch
    measured: MeasuredRows
    sizes: I64
    given: "pa.Array[Any] | None"

    @classmethod
    def of(cls, rows: pa.RecordBatch, timestamp_ms: int) -> Self:
        """Check columns and measure records. ``timestamp_ms`` is the timestamp of rows without one.

        Raises ValueError: a column that records do not have or of a type that cannot be sent, a header without a key,
        a negative timestamp; rows are named by number.
        """
        names = [name for name in rows.schema.names if name not in {PARTITION, TIMESTAMP}]
        measured = MeasuredRows(
            rows.drop_columns([PARTITION]) if PARTITION in rows.schema.names else rows, timestamp_ms
        )
        timestamps = measured.columns.timestamps
        negative = np.flatnonzero(timestamps < 0)
        if len(negative):
            row = int(negative[0])
            raise ValueError(f"row {row} has the timestamp {timestamps[row]} ms; it must not be negative")
        given = rows.column(PARTITION) if PARTITION in rows.schema.names else None
        if given is not None and not (pa.types.is_integer(given.type) or pa.types.is_null(given.type)):
            raise ValueError(f"column {PARTITION!r} must be integers, it is {given.type}")
        return cls(
            records=rows.select(names).append_column(TIMESTAMP, array_of(timestamps, pa.int64())),
            measured=measured,
            sizes=measured.fixed_sizes + _DELTA_BYTES,
            given=given,
        )


def check_sizes(topic: str, rows: Rows, max_request_size: int, *, option_prefix: str = "") -> None:
    """Raise RecordTooLarge for the first row that could not be sent, alone in its batch."""
    too_large = np.flatnonzero(rows.sizes + RECORD_BATCH_OVERHEAD > max_request_size)
    if len(too_large):
        row = int(too_large[0])
        keys, values = rows.measured.columns.keys, rows.measured.columns.values
        raise RecordTooLarge(
            topic,
            row,
            int(rows.sizes[row]) + RECORD_BATCH_OVERHEAD,
            max_request_size,
            key_bytes=0 if keys is None else int(keys.sizes[row]),
            value_bytes=0 if values is None else int(values.sizes[row]),
            option=f"{option_prefix}max.request.size",
        )


def partition_ids(
    topic: str, rows: Rows, *, partitions: int, available: Sequence[int], partitioner: Partitioner
) -> I32:
    """Each row's partition: int32[n]. The partition column if not null, else the partitioner's choice.

    ``partitions`` is how many the topic has; rows that do not go by their keys go to ``available`` ones only.
    Raises NoSuchPartition: the partition column names one beyond the last. PartitionerError: as ``partitioner`` does.
    """
    spans = rows.measured.columns.keys
    keys = None if spans is None else spans.content
    everything = Unassigned(keys=keys, sizes=rows.sizes, partitions=partitions, available=available)
    if rows.given is None:
        return partitioner.assign(everything)
    given, absent = integers(rows.given, missing=-1), nulls(rows.given)
    is_wrong = (given < 0) | (given >= partitions)
    if absent is not None:
        is_wrong &= ~absent
    wrong = np.flatnonzero(is_wrong)
    if len(wrong):
        raise NoSuchPartition(TopicPartition(topic, int(given[wrong[0]])), partitions)
    ids: I32 = given.astype(np.int32)
    if absent is not None:
        rest = np.flatnonzero(absent)
        some_keys = None if keys is None else keys.take(array_of(rest, pa.int64()))
        ids[rest] = partitioner.assign(dataclasses.replace(everything, keys=some_keys, sizes=rows.sizes[rest]))
    return ids


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """Runs of rows of one partition each; either all of them are batches by themselves (``fills_batches``), or none is.

    ``rows`` are the numbers of the rows, int64[n]; ``is_range``: they ascend by one. ``starts``, ``partitions`` and
    ``sizes`` have an item for each run: its index in ``rows``, the number of its partition, and its bytes.
    """

    rows: I64
    is_range: bool
    starts: I64
    partitions: list[int]
    sizes: list[int]
    fills_batches: bool

    def take(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """These rows of ``records``, copied unless they are a range."""
        if self.is_range:
            return records.slice(int(self.rows[0]), len(self.rows))
        return records.take(array_of(self.rows, pa.int64()))


def group_by_partition(sizes: I64, ids: I32, first_row: int, full_bytes: int) -> Iterator[Runs]:
    """All rows, of which ``first_row`` is the first; those of a partition in their order.

    Where neighbours mostly go to the same partition, as with the sticky partitioner, rows stay where they are, and a
    partition has several runs. Otherwise they are sorted. Runs of ``full_bytes`` are batches by themselves.
    """
    if not len(ids):
        return
    order, starts = np.arange(len(ids)), _run_starts(ids)
    is_range = len(starts) == 1 or int(sizes.sum()) >= len(starts) * _LONG_RUN_BYTES
    if not is_range:
        # Numpy sorts 16-bit integers stably in linear time.
        order = np.argsort(ids.astype(np.uint16) if ids.max() < 1 << 16 else ids, kind="stable")
        ids, sizes = ids[order], sizes[order]
        starts = _run_starts(ids)
    run_bytes = np.add.reduceat(sizes, starts)
    full = run_bytes >= full_bytes
    for first, end in pairwise([*_run_starts(full).tolist(), len(starts)]):
        start, stop = int(starts[first]), int(starts[end]) if end < len(starts) else len(ids)
        yield Runs(
            rows=order[start:stop] + first_row,
            is_range=is_range,
            starts=starts[first:end] - start,
            partitions=ids[starts[first:end]].tolist(),
            sizes=run_bytes[first:end].tolist(),
            fills_batches=bool(full[first]),
        )


def _run_starts(values: "I32 | npt.NDArray[np.bool_]") -> I64:
    """The indexes of values that are not equal to the one before: int64[n]."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1]))


def pieces(sizes: I64, piece_bytes: int) -> Iterator[slice]:
    """Ranges of rows, in order, of about ``piece_bytes`` each, at least one row."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        end = max(int(np.searchsorted(ends, before + piece_bytes, side="right")), start + 1)
        yield slice(start, end)
        start = end
