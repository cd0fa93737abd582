"""The limits of one ``decode``, and the batches that it has selected: numbers for the kernel, or messages."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_kafka_native._records.batch import BatchHeader, CompressionType, TimestampType
from spark_kafka_native._records.legacy import Messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The arguments of ``decode`` that concern whole batches; all counts are positive."""

    from_offset: int
    until_offset: int
    check_crcs: bool
    max_decompressed_bytes: int
    target_rows: int | None
    target_bytes: int


class SelectedBatch(NamedTuple):
    """A batch with records to show, at ``position`` in the buffer.

    Its payload is ``length`` bytes from ``start`` on: in the scratch if it was compressed, else in the buffer.
    Records' timestamps are relative to ``base_time``; under LogAppendTime, ``time_type`` 1, it is the timestamp of all.
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


class Part:
    """Consecutive batches of format v2. ``numbers`` are int64s, those of a ``SelectedBatch`` for each."""

    def __init__(self) -> None:
        self.numbers = array("q")

    def __iter__(self) -> Iterator[SelectedBatch]:
        for at in range(0, len(self.numbers), _WIDTH):
            yield SelectedBatch._make(self.numbers[at : at + _WIDTH])

    def add(self, header: BatchHeader, position: int, start: int, length: int) -> None:
        """Append a batch."""
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


@dataclass(frozen=True, slots=True)
class MessagePart:
    """Consecutive messages of formats v0 and v1, and the timestamp type of each."""

    messages: Messages = field(default_factory=Messages)
    types: list[int] = field(default_factory=list)

    def add(self, messages: Messages, timestamp_type: TimestampType, limits: Limits) -> None:
        """Append those messages, in order of their offsets, that are within ``limits``."""
        first = bisect_left(messages.offsets, limits.from_offset)
        end = bisect_left(messages.offsets, limits.until_offset)
        self.messages.offsets.extend(messages.offsets[first:end])
        self.messages.timestamps.extend(messages.timestamps[first:end])
        self.messages.keys.extend(messages.keys[first:end])
        self.messages.values.extend(messages.values[first:end])
        self.types.extend([timestamp_type] * (end - first))
