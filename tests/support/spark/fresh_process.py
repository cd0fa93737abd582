"""The steps of a query, each in a fresh Python process as Spark starts it, with the modules that the step imports.

A step is a function of this module. Its process imports what Spark has imported before it calls the data source, and
counts from there. Values go between the steps pickled by cloudpickle, as Spark's functions do.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

REPOSITORY = Path(__file__).parents[3]
PATIENCE_S = 60
_SPARK_MODULES = {
    "load": "pyspark.sql.worker.create_data_source",
    "plan_read": "pyspark.sql.worker.plan_data_source_read",
    "plan_stream": "pyspark.sql.streaming.python_streaming_source_runner",
    "plan_write": "pyspark.sql.worker.write_into_data_source",
    "plan_stream_write": "pyspark.sql.worker.write_into_data_source",
    "commit_write": "pyspark.sql.worker.commit_data_source_write",
    "read_task": "pyspark.sql.worker.plan_data_source_read",
    "write_task": "pyspark.sql.worker.write_into_data_source",
}

Options = dict[str, str]
_cloudpickle: Any = cloudpickle  # it has no types


def _pickled(value: Any) -> bytes:
    pickled: bytes = _cloudpickle.dumps(value)
    return pickled


def _unpickled(data: bytes) -> Any:
    return _cloudpickle.loads(data)


@dataclass(frozen=True, repr=False)
class Step:
    """What a step returned and imported."""

    value: Any
    modules: frozenset[str]
    """Names of all modules that the step imported."""

    @property
    def own(self) -> frozenset[str]:
        """The modules of this repository among them."""
        return frozenset(name for name in self.modules if name.startswith(("spark_kafka_native", "pyspark_pykafka")))


def in_fresh_process(step: Callable[..., Any], *values: Any) -> Step:
    """Run a step of this module in a fresh process. Raises AssertionError with its output if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, step.__name__],
        input=_pickled(values),
        capture_output=True,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return Step(*_unpickled(done.stdout))


def load(options: Options) -> bytes:
    """The pickled data source of ``load()``, its schema checked."""
    from pyspark_pykafka import DefaultSource

    source = DefaultSource(options)
    source.schema()
    return _pickled(source)


def plan_read(source: bytes, schema: "StructType") -> tuple[bytes, list[bytes]]:
    """The pickled reader of a batch query, and its pickled tasks."""
    data_source = _unpickled(source)
    reader = data_source.reader(schema)
    return _pickled((reader, data_source)), [_pickled(task) for task in reader.partitions()]


def plan_stream(source: bytes, schema: "StructType") -> tuple[bytes, list[bytes]]:
    """The pickled reader of a streaming query, and the pickled tasks of its first micro-batch."""
    from pyspark.sql.datasource_internal import _streamReader

    data_source = _unpickled(source)
    reader = _streamReader(data_source, schema)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    tasks = [_pickled(task) for task in reader.partitions(start, end)]
    return _pickled((reader, data_source)), tasks


def plan_write(options: Options, schema: "StructType") -> bytes:
    """The pickled writer of a batch query."""
    from pyspark_pykafka import DefaultSource

    return _pickled(DefaultSource(options).writer(schema, overwrite=False))


def plan_stream_write(options: Options, schema: "StructType") -> bytes:
    """The pickled writer of a micro-batch."""
    from pyspark_pykafka import DefaultSource

    return _pickled(DefaultSource(options).streamWriter(schema, overwrite=False))


def commit_write(writer: bytes, messages: list[Any]) -> None:
    """Commit a batch query."""
    _unpickled(writer).commit([_unpickled(message) for message in messages])


def read_task(reader: bytes, task: bytes) -> int:
    """The number of rows of a task."""
    of_query, _data_source = _unpickled(reader)
    return sum(batch.num_rows for batch in of_query.read(_unpickled(task)))


def write_task(writer: bytes, rows: "pa.RecordBatch") -> bytes:
    """Write rows; the pickled commit message."""
    return _pickled(_unpickled(writer).write(iter([rows])))


def _main(step: str) -> None:
    importlib.import_module(_SPARK_MODULES[step])
    if step.endswith("task"):
        importlib.import_module("pyspark.worker")
    values = _unpickled(sys.stdin.buffer.read())
    before = set(sys.modules)
    value = globals()[step](*values)
    answer = (value, frozenset(set(sys.modules) - before))
    sys.stdout.buffer.write(_pickled(answer))


if __name__ == "__main__":
    _main(sys.argv[1])
