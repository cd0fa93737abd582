"""Rows that wait, as Arrow, until there are enough of them in a partition for a batch.

Pure: the time is passed in.
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from spark_kafka_native.protocol.topic import TopicPartition

_FULL: Final = 0.75
"""A batch that is as full as this does not wait for more."""


@dataclasses.dataclass(slots=True)
class _Waiting:
    parts: list[pa.RecordBatch]
    size_bytes: int
    since: float


class Accumulator:
    """Rows by partition. ``rows`` and ``size_bytes`` count what is here; ``full_bytes`` of rows do not wait."""

    def __init__(self, batch_bytes: int, linger_s: float) -> None:
        """``batch_bytes``: of the records of a batch. Rows leave once they nearly fill one, or have waited."""
        self.full_bytes = max(round(batch_bytes * _FULL), 1)
        self.rows = 0
        self.size_bytes = 0
        self._batch_bytes = batch_bytes
        self._linger_s = linger_s
        self._waiting: OrderedDict[TopicPartition, _Waiting] = OrderedDict()
        """In the order of ``since``, because ``now`` never decreases."""

    def add(
        self, partition: TopicPartition, records: pa.RecordBatch, size_bytes: int, now: float
    ) -> Iterator[pa.RecordBatch]:
        """Put rows behind those of their partition; rows that can leave now are yielded, in order.

        Rows that do not fit into one batch with the waiting ones push these out, and so do rows of other columns. To
        put rows together is to copy them.
        """
        waiting = self._waiting.get(partition)
        if waiting is not None and (
            waiting.size_bytes + size_bytes > self._batch_bytes or waiting.parts[0].schema != records.schema
        ):
            yield self._pop(partition)
            waiting = None
        if waiting is None:
            waiting = self._waiting[partition] = _Waiting([], 0, now)
        waiting.parts.append(records)
        waiting.size_bytes += size_bytes
        self.size_bytes += size_bytes
        self.rows += records.num_rows
        if waiting.size_bytes >= self.full_bytes:
            yield self._pop(partition)

    def release(self, partition: TopicPartition) -> Iterator[pa.RecordBatch]:
        """What waits in a partition: rows come that go past the accumulator."""
        if partition in self._waiting:
            yield self._pop(partition)

    def overdue(self, now: float) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """The rows of partitions that have waited for ``linger.ms``. Looks at one partition more than it yields."""
        while self._waiting:
            partition = next(iter(self._waiting))
            if now < self._waiting[partition].since + self._linger_s:
                return
            yield partition, self._pop(partition)

    def drain(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """All rows."""
        for partition in list(self._waiting):
            yield partition, self._pop(partition)

    def _pop(self, partition: TopicPartition) -> pa.RecordBatch:
        waiting = self._waiting.pop(partition)
        self.size_bytes -= waiting.size_bytes
        self.rows -= sum(part.num_rows for part in waiting.parts)
        if len(waiting.parts) == 1:
            return waiting.parts[0]
        (joined,) = pa.Table.from_batches(waiting.parts).combine_chunks().to_batches()
        return joined
