"""Stub data sources: what Spark itself takes for rows that cost nothing to make or to drop. The format is ``stub``.

The source yields one ready-made Arrow batch over and over, as a batch or as a stream that ends, or with option
``endless`` as one that has the same again in every micro-batch; the sinks drop the batches that they are given. A
connector cannot be faster than these. With option ``sender`` the source receives, before each batch, as many bytes as
its rows take in a log without compression, from a `Sender`: a process that hands out a file with ``sendfile`` and does
nothing else. No client of a broker on this machine can be faster than that.
"""

import functools
import multiprocessing
import os
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
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
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from spark_kafka_native.records.batch import CompressionType
from spark_kafka_native.records.encode import encode

MOST_ROWS: Final = 50_000
MOST_BYTES: Final = 1 << 22
"""Of one batch: about what our source yields."""
SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_COUNT: Final = struct.Struct(">q")
_RECEIVED_BYTES: Final = 1 << 20
_FILE_BYTES: Final = 1 << 24


@functools.lru_cache(maxsize=1)
def ready_batch(value_bytes: int, most_rows: int = MOST_ROWS) -> pa.RecordBatch:
    """A batch of the seven Kafka columns with random values of ``value_bytes``; a worker makes it once."""
    rows = max(min(most_rows, MOST_BYTES // value_bytes), 1)
    random = np.random.default_rng(0).integers(0, 256, rows * value_bytes, dtype=np.uint8)
    offsets = np.arange(0, rows * value_bytes + 1, value_bytes, dtype=np.int32)
    values = pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets.data), pa.py_buffer(random.data)])
    return pa.record_batch(
        [
            pa.nulls(rows, pa.binary()),
            values,
            pa.repeat(pa.scalar("topic"), rows),
            pa.repeat(pa.scalar(0, pa.int32()), rows),
            pa.array(np.arange(rows)),
            pa.array(np.arange(rows) * 1_000, pa.timestamp("us", tz="UTC")),
            pa.repeat(pa.scalar(0, pa.int32()), rows),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"],
    )


@functools.cache
def log_bytes(value_bytes: int, batch_bytes: int) -> float:
    """What a row of such a batch takes in a log, in batches of ``batch_bytes`` without compression."""
    rows = ready_batch(value_bytes).select(["key", "value"])
    batches = encode(rows, default_timestamp_ms=0, compression=CompressionType.NONE, max_batch_bytes=batch_bytes)
    return sum(len(batch.buffer) for batch in batches) / rows.num_rows


class Slice(InputPartition):
    """So many rows for one task."""

    def __init__(self, rows: int) -> None:
        super().__init__(None)
        self.rows = rows


class Rows:
    """What both readers share: the options, the tasks and what they yield."""

    def __init__(self, options: Any) -> None:
        self.rows, self.slices = int(options["rows"]), int(options["partitions"])
        self.value_bytes = int(options["valuebytes"])
        self.sender: str | None = options.get("sender")
        self.row_bytes = float(options.get("rowbytes", "0"))
        self.endless = options.get("endless") == "true"

    def split(self) -> list[InputPartition]:
        """Equal slices."""
        return [Slice(self.rows // self.slices) for _ in range(self.slices)]

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """A slice's rows."""
        batch = ready_batch(self.value_bytes)
        sizes = [min(len(batch), rows - start) for start in range(0, rows, len(batch))]
        if self.sender is None:
            yield from (batch.slice(0, size) for size in sizes)
            return
        wanted = [round(size * self.row_bytes) for size in sizes]
        host, _, port = self.sender.rpartition(":")
        buffer = memoryview(bytearray(_RECEIVED_BYTES))
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(_COUNT.pack(sum(wanted)))
            for size, left in zip(sizes, wanted, strict=True):
                _receive(connection, left, buffer)
                yield batch.slice(0, size)


def _receive(connection: socket.socket, left: int, buffer: memoryview) -> None:
    while left > 0:
        received = connection.recv_into(buffer[: min(left, len(buffer))])
        if not received:
            raise ConnectionError("the sender is gone")
        left -= received


class StubReader(DataSourceReader):
    """Yields the same batch until the slice is full."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """One for each slice."""
        return self._rows.split()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The slice's rows."""
        assert isinstance(partition, Slice)
        return self._rows.batches(partition.rows)


class StubStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The same as one micro-batch, after which there is nothing more, or the next."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Before the first row."""
        return {"rows": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """All there is is available at all times."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """All of it."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Behind the last row."""
        return {"rows": self._rows.rows + (start["rows"] if self._rows.endless else 0)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One for each slice, once."""
        return self._rows.split() if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The slice's rows."""
        assert isinstance(partition, Slice)
        return self._rows.batches(partition.rows)


class StubSource(DataSource):
    """Options: ``rows``, ``partitions``, ``valueBytes``; ``sender`` and ``rowBytes`` to receive them; ``endless``."""

    @classmethod
    def name(cls) -> str:
        """Its format."""
        return "stub"

    def schema(self) -> str:
        """The Kafka source's columns."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """The stub reader."""
        return StubReader(Rows(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """The stub reader of streams."""
        return StubStreamReader(Rows(self.options))

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


@contextmanager
def sender() -> Iterator[str]:
    """A process that sends as many bytes as it is asked for; its ``host:port``."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    process.start()
    there.close()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()
        here.close()


def _serve(pipe: Connection) -> None:
    with tempfile.TemporaryFile() as file, socket.create_server(("127.0.0.1", 0)) as server:
        file.write(os.urandom(_FILE_BYTES))
        file.flush()
        pipe.send(f"127.0.0.1:{server.getsockname()[1]}")
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_send, args=(connection, file.fileno()), daemon=True).start()


def _send(connection: socket.socket, file: int) -> None:
    with connection:
        (left,) = _COUNT.unpack(connection.recv(_COUNT.size, socket.MSG_WAITALL))
        start = 0
        while left > 0:
            sent = os.sendfile(connection.fileno(), file, start, min(left, _FILE_BYTES - start))
            left, start = left - sent, (start + sent) % _FILE_BYTES
