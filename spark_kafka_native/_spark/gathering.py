"""Combine small record batches, because every batch costs Spark as much as thousands of rows.

Combining copies rows. So a batch of half the target size or more is passed on as it is, after the rows before it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

TARGET_BYTES: Final = 1 << 22
"""Ends a combined batch. A larger batch is not cut by its bytes."""


class Gathered:
    """Rows of several small batches that do not fill one yet."""

    def __init__(self, target_rows: int) -> None:
        self._target_rows = target_rows
        self._parts: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows; yield batches of about the target."""
        if 2 * records.num_rows >= self._target_rows or 2 * records.nbytes >= TARGET_BYTES:
            yield from self.rest()
            yield from self._pieces(records)
            return
        self._parts.append(records)
        self._rows += records.num_rows
        self._bytes += records.nbytes
        if self._rows >= self._target_rows or self._bytes >= TARGET_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows in batches of at most one and a half times the target."""
        parts, self._parts = self._parts, []
        self._rows = self._bytes = 0
        if len(parts) > 1:
            parts = pa.Table.from_batches(parts).combine_chunks().to_batches()
        for part in parts:
            yield from self._pieces(part)

    def _pieces(self, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        pieces = max(round(records.num_rows / self._target_rows), 1)
        step = -(-records.num_rows // pieces)
        for start in range(0, records.num_rows, step):
            yield records.slice(start, step)


def gathered(batches: Iterable[pa.RecordBatch], target_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of ``batches``, in order, in batches of about the target, none empty."""
    waiting = Gathered(target_rows)
    for batch in batches:
        if batch.num_rows:
            yield from waiting.add(batch)
    yield from waiting.rest()
