"""Stub data sources: what Spark itself takes for rows that cost nothing to make or to drop. The format is ``stub``.

The source yields one ready-made Arrow batch over and over, as a batch or as a stream that ends, or with option
``endless`` as one that has the same again in every micro-batch; the sinks drop the batches that they are given. No
connector that is written in Python can be faster than these.
"""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import numpy as np

MAX_ROWS: Final = 50_000
MAX_BYTES: Final = 1 << 22
"""Of one batch: about what our source yields."""
SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)


@functools.lru_cache(maxsize=1)
def ready_batch(key_bytes: int, shortest: int, longest: int) -> pa.RecordBatch:
    """A batch of the seven Kafka columns; a worker makes it once.

    Values are random bytes, of random sizes from ``shortest`` to ``longest``; keys are null if they have 0 bytes.
    """
    import numpy as np  # noqa: PLC0415  # the processes that plan a query do not need it

    random = np.random.default_rng(0)
    rows = max(min(MAX_ROWS, MAX_BYTES * 2 // (shortest + longest)), 1)
    values = _binary(random, random.integers(shortest, longest, rows, endpoint=True))
    return pa.record_batch(
        [
            _binary(random, np.full(rows, key_bytes)) if key_bytes else pa.nulls(rows, pa.binary()),
            values,
            pa.repeat(pa.scalar("topic"), rows),
            pa.repeat(pa.scalar(0, pa.int32()), rows),
            pa.array(np.arange(rows)),
            pa.array(np.arange(rows) * 1_000, pa.timestamp("us", tz="UTC")),
            pa.repeat(pa.scalar(0, pa.int32()), rows),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"],
    )


def _binary(random: "np.random.Generator", sizes: Any) -> "pa.Array[Any]":
    """Random values of these sizes."""
    ends = sizes.cumsum().astype("int32")
    offsets = pa.py_buffer(bytes(4) + ends.tobytes())
    values = pa.py_buffer(random.bytes(int(ends[-1])))
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, offsets, values])


class Slice(InputPartition):
    """So many rows for one task."""

    def __init__(self, rows: int) -> None:
        super().__init__(None)
        self.rows = rows


class Rows:
    """What both readers share: the options, the tasks and what they yield."""

    def __init__(self, options: Any, schema: StructType) -> None:
        self.columns = schema.names
        self.rows, self.slices = int(options["rows"]), int(options["partitions"])
        self.batch_options = tuple(int(options[name]) for name in ("keybytes", "shortest", "longest"))
        self.endless = options.get("endless") == "true"
        self.most_rows = int(options.get("maxrowspertrigger", "0"))

    def split(self, rows: int) -> list[InputPartition]:
        """Equal slices."""
        return [Slice(rows // self.slices) for _ in range(self.slices)]

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """A slice's rows."""
        batch = ready_batch(*self.batch_options).select(self.columns)
        yield from (batch.slice(0, min(len(batch), rows - start)) for start in range(0, rows, len(batch)))


def stub_options(rows: int, partitions: int, *, key_bytes: int = 0, sizes: tuple[int, int]) -> dict[str, str]:
    """The options of a source with so many rows in so many tasks."""
    shortest, longest = sizes
    options = {"rows": rows, "partitions": partitions, "keyBytes": key_bytes, "shortest": shortest, "longest": longest}
    return {name: str(value) for name, value in options.items()}


class StubReader(DataSourceReader):
    """Yields the same batch until the slice is full."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """One for each slice."""
        return self._rows.split(self._rows.rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The slice's rows."""
        assert isinstance(partition, Slice)
        return self._rows.batches(partition.rows)


class StubStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The same in micro-batches."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Before the first row."""
        return {"rows": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """All there is is available at all times."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """All of it, unless option ``maxRowsPerTrigger`` is given."""
        return ReadMaxRows(self._rows.most_rows) if self._rows.most_rows else ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802  # Spark's name
        """After the last row."""
        if self._rows.endless:
            return {"rows": start["rows"] + self._rows.rows}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._rows.rows
        return {"rows": min(start["rows"] + most, self._rows.rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One for each slice."""
        return self._rows.split(end["rows"] - start["rows"]) if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The slice's rows."""
        assert isinstance(partition, Slice)
        return self._rows.batches(partition.rows)


class StubSource(DataSource):
    """Options: those of `stub_options`, ``endless``, ``maxRowsPerTrigger``."""

    @classmethod
    def name(cls) -> str:
        """Its format."""
        return "stub"

    def schema(self) -> str:
        """The Kafka source's columns."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """The stub reader."""
        return StubReader(Rows(self.options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """The stub reader of streams."""
        return StubStreamReader(Rows(self.options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> "StubWriter":
        """The stub writer."""
        return StubWriter()

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StubStreamWriter":  # noqa: N802  # Spark's name
        """The stub writer of streams."""
        return StubStreamWriter()


class StubWriter(DataSourceArrowWriter):
    """Drops what it is given."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Consume the iterator."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


class StubStreamWriter(DataSourceStreamArrowWriter):
    """Drops what it is given, too."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Consume the iterator."""
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Nothing is to be done."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Nothing is to be undone."""
