"""What ``decode`` was asked for, and the batches that have it: a row of numbers each, for those who read records."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spark_kafka_native.records.arrow.legacy_walk import Messages
from spark_kafka_native.records.arrow.varint import I64
from spark_kafka_native.records.batch import BatchHeader, CompressionType, TimestampType


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What ``decode`` was asked for, as far as it concerns whole batches; all counts are positive."""

    from_offset: int
    until_offset: int
    check_crcs: bool
    max_decompressed_bytes: int
    target_rows: int | None
    target_bytes: int


class SelectedBatch(NamedTuple):
    """A batch with records to show, at ``position`` in the buffer.

    Its payload is ``length`` bytes from ``start`` on: in the scratch if it was compressed, else in the buffer.
    ``base_time`` is what records' times count from; under LogAppendTime, ``time_type`` 1, it is the time of all.
    """

    is_in_scratch: int
    start: int
    length: int
    records: int
    base_offset: int
    last_offset_delta: int
    base_time: int
    time_type: int
    position: int


_WIDTH = len(SelectedBatch._fields)


class Columns(NamedTuple):
    """A ``SelectedBatch`` for each, by columns: int64[n] all."""

    is_in_scratch: I64
    start: I64
    length: I64
    records: I64
    base_offset: I64
    last_offset_delta: I64
    base_time: I64
    time_type: I64
    position: I64


class Part:
    """Batches in order, one behind the other: all of format v2, or all of older ones.

    ``numbers`` are int64s, those of a ``SelectedBatch`` for each. ``messages`` say of each batch of old formats, which
    is a wrapper or a run of messages, where these are in its payload; of v2 there are none.
    """

    def __init__(self, *, is_old: bool) -> None:
        self.is_old = is_old
        self.numbers = array("q")
        self.messages: list[Messages] = []

    def __len__(self) -> int:
        return len(self.numbers) // _WIDTH

    def __iter__(self) -> Iterator[SelectedBatch]:
        for at in range(0, len(self.numbers), _WIDTH):
            yield SelectedBatch._make(self.numbers[at : at + _WIDTH])

    def columns(self) -> Columns:
        """The same by columns."""
        return Columns._make(np.array(self.numbers, dtype=np.int64).reshape(-1, _WIDTH).T.copy())

    def add(self, header: BatchHeader, position: int, start: int, length: int) -> None:
        """One more batch, its messages excepted."""
        kind = header.timestamp_type
        self.numbers.extend(
            (
                header.compression is not CompressionType.NONE,
                start,
                length,
                header.records_count,
                header.base_offset,
                header.last_offset_delta,
                header.max_timestamp if kind is TimestampType.LOG_APPEND_TIME else header.base_timestamp,
                kind,
                position,
            )
        )
