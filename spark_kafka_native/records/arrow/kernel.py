"""What goes record by record or batch by batch, compiled where the kernel has been built, else in numpy and pyarrow.

Both do the same: what the compiled kernel takes for damaged, numpy looks at again, and it alone says what is wrong.
``SPARK_KAFKA_NATIVE_KERNEL`` decides when this is imported: ``off`` is numpy, ``required`` is an error without the
kernel, and ``auto``, as without the variable, is whatever there is.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafka_native.records._kernel import VARIABLE, if_wanted
from spark_kafka_native.records.arrow import payload, vectorised
from spark_kafka_native.records.arrow.columns import Columns
from spark_kafka_native.records.arrow.payload import MeasuredRecords
from spark_kafka_native.records.arrow.scratch import Scratch
from spark_kafka_native.records.arrow.selected import Limits, Part
from spark_kafka_native.records.arrow.varint import I64, U8
from spark_kafka_native.records.batch import Buffer

if TYPE_CHECKING:
    from spark_kafka_native.records._kernel.batch_headers import BatchHeaders


def _load() -> ModuleType:
    from spark_kafka_native.records.arrow import compiled  # noqa: PLC0415  # it is there or it is not

    return compiled


def choose(wish: str) -> ModuleType | None:
    """The module ``compiled``, None for numpy. Raises as ``if_wanted``."""
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
    """The wanted records of a ``part``, as ``vectorised.read_batches`` has them and raises."""
    if _compiled is not None and not part.is_old:
        found: pa.RecordBatch | None = _compiled.read_batches(view, memory, part, limits, schema)
        if found is not None:
            return found
    return vectorised.read_batches(view, memory, part, limits, schema)


def measure(columns: Columns) -> MeasuredRecords:
    """The first pass over ``columns``: all lengths, before it is known where batches begin."""
    if _compiled is not None:
        measured: MeasuredRecords = _compiled.Measured(columns)
        return measured
    return payload.measure(columns)


def murmur2(data: U8, starts: I64, lengths: I64) -> npt.NDArray[np.int32] | None:
    """murmur2 of each span of ``data``, int32[n]; None where that is not compiled."""
    if _compiled is None:
        return None
    hashes: npt.NDArray[np.int32] = _compiled.murmur2(data, starts, lengths)
    return hashes
