"""A user's columns as the encoders take them: spans of bytes, counts, milliseconds."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_kafka_native._records.arrow.schema import I64


@dataclass(frozen=True, slots=True)
class Spans:
    """A column of byte strings: ``content`` is large_binary, ``lengths`` int64[n] with -1 for null."""

    content: pa.LargeBinaryArray
    lengths: I64

    @property
    def sizes(self) -> I64:
        """Bytes of each, int64[n]; a null has none."""
        return np.maximum(self.lengths, 0)


@dataclass(frozen=True, slots=True)
class Headers:
    """All headers of all records, in order; ``counts``: int64[n] is how many each record has."""

    counts: I64
    keys: Spans
    values: Spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The records to encode. None for a column that is null throughout; ``timestamps``: int64[n] in ms."""

    keys: Spans | None
    values: Spans | None
    headers: Headers | None
    timestamps: I64


@dataclass(frozen=True, slots=True)
class Payload:
    """The records' bytes, with space for a header before each batch, and where each record begins.

    ``begins`` is int64[n + 1]; the last one is the end.

    ``data`` may be read-only.
    """

    data: memoryview
    begins: I64
