"""Rows that wait, as Arrow, until there are enough of them in a partition for a batch.

Pure: the time is passed in.
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from spark_kafka_native._protocol.topic import TopicPartition

_FULL: Final = 0.75
"""A batch that is as full as this does not wait for more."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Waiting:
    """Rows of one partition; ``parts`` have the same columns. ``since`` is when the first of them were added."""

    partition: TopicPartition
    parts: list[pa.RecordBatch]
    rows: int
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
        self._waiting: OrderedDict[TopicPartition, Waiting] = OrderedDict()
        """In the order of ``since``, because ``now`` never decreases."""

    def add(self, partition: TopicPartition, records: pa.RecordBatch, size_bytes: int, now: float) -> Iterator[Waiting]:
        """Add rows after those of their partition; yield rows that can leave now, in order.

        Rows that do not fit into one batch with the waiting ones push these out, and so do rows of other columns.
        """
        waiting = self._waiting.get(partition)
        if waiting is not None and (
            waiting.size_bytes + size_bytes > self._batch_bytes or waiting.parts[0].schema != records.schema
        ):
            yield self._pop(partition)
            waiting = None
        if waiting is None:
            waiting = self._waiting[partition] = Waiting(partition=partition, parts=[], rows=0, size_bytes=0, since=now)
        waiting.parts.append(records)
        waiting.rows += records.num_rows
        waiting.size_bytes += size_bytes
        self.size_bytes += size_bytes
        self.rows += records.num_rows
        if waiting.size_bytes >= self.full_bytes:
            yield self._pop(partition)

    def release(self, partitions: Iterable[TopicPartition]) -> Iterator[Waiting]:
        """The rows of partitions whose next rows do not wait."""
        for partition in partitions:
            if partition in self._waiting:
                yield self._pop(partition)

    def overdue(self, now: float) -> Iterator[Waiting]:
        """The rows of partitions that have waited for ``linger.ms``. Looks at one partition more than it yields."""
        while self._waiting:
            waiting = next(iter(self._waiting.values()))
            if now < waiting.since + self._linger_s:
                return
            yield self._pop(waiting.partition)

    def drain(self) -> Iterator[Waiting]:
        """All rows."""
        yield from self.release(list(self._waiting))

    def _pop(self, partition: TopicPartition) -> Waiting:
        waiting = self._waiting.pop(partition)
        self.size_bytes -= waiting.size_bytes
        self.rows -= waiting.rows
        return waiting


def group(waiting: Iterable[Waiting], most_bytes: int) -> Iterator[list[Waiting]]:
    """Rows of several partitions to encode together: they have the same columns, and about ``most_bytes``."""
    together: list[Waiting] = []
    size_bytes = 0
    for each in waiting:
        if together and (size_bytes >= most_bytes or each.parts[0].schema != together[0].parts[0].schema):
            yield together
            together, size_bytes = [], 0
        together.append(each)
        size_bytes += each.size_bytes
    if together:
        yield together
