"""The steps that take time for each record or batch: compiled where the kernel has been built, else in plain Python.

Both do the same. `reference` reads again what the compiled kernel refuses, and raises the error.
``SPARK_KAFKA_NATIVE_KERNEL`` decides when this is imported: ``off`` is plain Python, ``required`` is an error without
the kernel, and ``auto``, the default, is the kernel where it has been built.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafka_native._records._kernel import VARIABLE, if_wanted
from spark_kafka_native._records.arrow import reference
from spark_kafka_native._records.arrow.columns import Columns, Payload
from spark_kafka_native._records.arrow.schema import I64, U8
from spark_kafka_native._records.arrow.selected import Limits, Part
from spark_kafka_native._records.batch import Buffer
from spark_kafka_native._records.scratch import Scratch

if TYPE_CHECKING:
    from spark_kafka_native._records._kernel.batch_headers import BatchHeaders


class MeasuredRecords(Protocol):
    """Records with known sizes apart from their deltas and their own length, which depend on their batch."""

    @property
    def fixed_sizes(self) -> I64:
        """Bytes of each record that are the same in every batch, from the attributes to the last header: int64[n]."""
        ...

    def payload(self, rows: I64, firsts: I64, header_bytes: int) -> Payload:
        """The records of ``rows``, in that order, in batches that begin at the indexes ``firsts`` of it.

        There are ``header_bytes`` zeroes before each batch.
        """
        ...


def _load() -> ModuleType:
    from spark_kafka_native._records.arrow import compiled  # noqa: PLC0415  # it is there or it is not

    return compiled


def choose(wish: str) -> ModuleType | None:
    """The module ``compiled``, None for plain Python. Raises as ``if_wanted``."""
    return if_wanted(wish, _load)


_compiled = choose(os.environ.get(VARIABLE, ""))


@contextmanager
def using(wish: str) -> Iterator[None]:
    """Another choice within this process, for as long as a test or a measurement takes; raises as ``choose``."""
    global _compiled  # noqa: PLW0603  # the one choice there is
    before, _compiled = _compiled, choose(wish)
    try:
        yield
    finally:
        _compiled = before


def is_compiled() -> bool:
    """Whether records go through the compiled kernel."""
    return _compiled is not None


def read_headers(buffer: Buffer) -> "BatchHeaders | None":
    """The headers of the batches that ``buffer`` begins with; None where that is not compiled."""
    if _compiled is None:
        return None
    headers: BatchHeaders = _compiled.BatchHeaders(buffer)
    return headers


def select(view: memoryview, headers: "BatchHeaders", position: int, *arguments: Any) -> tuple[int, bytes]:
    """As the kernel's ``selection.select``: where it ends, and the batches taken; none where that is not compiled."""
    if _compiled is None:
        return position, b""
    chosen: tuple[int, bytes] = _compiled.select(view, headers, position, *arguments)
    return chosen


def read_batches(view: memoryview, memory: Scratch, part: Part, limits: Limits, schema: pa.Schema) -> pa.RecordBatch:
    """The wanted records of a ``part``. Raises CorruptBatch: anything no writer would write."""
    if _compiled is not None:
        found: pa.RecordBatch | None = _compiled.read_batches(view, memory, part, limits, schema)
        if found is not None:
            return found
    return reference.read_batches(view, memory, part, limits, schema)


def measure(columns: Columns) -> MeasuredRecords:
    """Measure the records of ``columns``, before it is known where batches begin."""
    if _compiled is None:
        return reference.Measured(columns)
    measured: MeasuredRecords = _compiled.Measured(columns)
    return measured


def murmur2(data: U8, starts: I64, lengths: I64) -> npt.NDArray[np.int32] | None:
    """murmur2 of each span of ``data``, int32[n]; None where that is not compiled."""
    if _compiled is None:
        return None
    hashes: npt.NDArray[np.int32] = _compiled.murmur2(data, starts, lengths)
    return hashes
