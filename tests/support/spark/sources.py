"""The smallest Python data sources: one that answers, one that never does. Workers import them from here."""

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType


class NumbersSource(DataSource):
    """``format("numbers")``: 0 to 9 from two partitions, as Arrow batches."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "number bigint"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _NumbersReader()


class _NumbersReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(5)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        numbers = pa.array(range(partition.value, partition.value + 5), pa.int64())
        yield pa.RecordBatch.from_arrays([numbers], ["number"])


class HangingSource(DataSource):
    """``format("hangs")``: a batch whose tasks never end, a stream that never knows its latest offset."""

    @classmethod
    def name(cls) -> str:
        return "hangs"

    def schema(self) -> str:
        return "number bigint"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _HangingReader()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _HangingStreamReader()


class _HangingReader(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        _hang()
        yield from ()


class _HangingStreamReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"offset": 0}

    def latestOffset(self, start: dict[Any, Any], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        _hang()
        return {"offset": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from ()


def _hang() -> None:
    time.sleep(1e6)
