"""What each of Spark's Python processes imports: a short query is mostly their start.

Modules are counted, because times differ between machines. A new module in a process raises the number here, if the
process needs it.
"""

import functools
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._spark.source.schema import source_schema
from spark_kafka_native._spark.worker_python import PLANNING_MODULES
from tests.support.spark.fresh_process import (
    Options,
    Step,
    commit_write,
    in_fresh_process,
    load,
    plan_read,
    plan_stream,
    plan_stream_write,
    plan_write,
    read_task,
    write_task,
)

COLUMNS = StructType(
    [StructField("key", BinaryType()), StructField("value", BinaryType()), StructField("partition", IntegerType())]
)
TEXT = StructType([StructField("key", StringType()), StructField("value", StringType())])
ROWS = pa.RecordBatch.from_arrays(
    [pa.array([b"k", None]), pa.array([b"v", b"w"]), pa.array([0, 1], pa.int32())], names=COLUMNS.names
)
PARTITIONS = 2
OF_TASKS = frozenset({"numpy", "pandas", "pyarrow.compute", "crc32c", "spark_kafka_native._records._kernel"})
"""Modules that take 10 to 250 ms to import, or that only tasks need."""


@dataclass(frozen=True)
class Query:
    """The steps of a query that writes two records, and of those that read them."""

    plan_write: Step
    write_task: Step
    plan_stream_write: Step
    commit_write: Step
    load: Step
    load_bound: Step
    """With ``bindOffsets=load``."""
    plan_read: Step
    read_task: Step
    plan_stream: Step
    stream_task: Step
    text_task: Step
    """Of a batch query with a schema of strings."""


@pytest.fixture(scope="module")
def query() -> Iterator[Query]:
    with EmbeddedBroker() as broker:
        broker.create_topic("t", partitions=PARTITIONS)
        servers: Options = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        planned = in_fresh_process(plan_write, servers | {"topic": "t"}, COLUMNS)
        written = in_fresh_process(write_task, planned.value, ROWS)
        source = servers | {"subscribe": "t", "startingOffsets": "earliest"}
        loaded = in_fresh_process(load, source)
        columns = source_schema(include_headers=False)
        text = in_fresh_process(plan_read, loaded.value, TEXT)
        batch = in_fresh_process(plan_read, loaded.value, columns)
        stream = in_fresh_process(plan_stream, loaded.value, columns)
        yield Query(
            plan_write=planned,
            write_task=written,
            plan_stream_write=in_fresh_process(plan_stream_write, servers | {"topic": "t"}, COLUMNS),
            commit_write=in_fresh_process(commit_write, planned.value, [written.value]),
            load=loaded,
            load_bound=in_fresh_process(load, source | {"bindOffsets": "load"}),
            plan_read=batch,
            read_task=in_fresh_process(read_task, batch.value[0], first_task(batch)),
            plan_stream=stream,
            stream_task=in_fresh_process(read_task, stream.value[0], first_task(stream)),
            text_task=in_fresh_process(read_task, text.value[0], first_task(text)),
        )


def first_task(planned: Step) -> bytes:
    """The task of partition 0, which has a record."""
    tasks: list[bytes] = planned.value[1]
    assert len(tasks) == PARTITIONS
    return tasks[0]


@pytest.mark.parametrize(
    ("step", "most"),
    [
        ("load", 45),
        ("load_bound", 105),
        ("plan_read", 108),
        ("plan_stream", 116),
        ("read_task", 132),
        ("stream_task", 144),
        ("text_task", 132),
        ("plan_write", 47),
        ("plan_stream_write", 47),
        ("write_task", 132),
        ("commit_write", 24),
    ],
)
def test_process_imports_few_modules(query: Query, step: str, most: int) -> None:
    found: Step = getattr(query, step)
    assert len(found.own) <= most, sorted(found.own)


def test_steps_write_and_read_the_records(query: Query) -> None:
    assert (query.read_task.value, query.stream_task.value, query.text_task.value) == (1, 1, 1)


ON_THE_DRIVER = ("load", "load_bound", "plan_read", "plan_stream", "plan_write", "plan_stream_write", "commit_write")


@pytest.mark.parametrize("step", ON_THE_DRIVER)
def test_fork_server_has_imported_what_a_process_of_the_driver_needs(query: Query, step: str) -> None:
    found: Step = getattr(query, step)
    assert sorted(found.own - imported_by_the_fork_server()) == []


@functools.cache
def imported_by_the_fork_server() -> set[str]:
    program = f"import importlib, sys; [importlib.import_module(each) for each in {PLANNING_MODULES}]"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("step", ON_THE_DRIVER)
def test_process_of_the_driver_imports_no_decoder(query: Query, step: str) -> None:
    found: Step = getattr(query, step)
    assert sorted(found.modules & OF_TASKS) == []


@pytest.mark.parametrize("step", ["load", "load_bound", "plan_write", "plan_stream_write", "commit_write"])
def test_process_of_the_driver_imports_no_arrow(query: Query, step: str) -> None:
    """Spark imports it itself for a plan."""
    found: Step = getattr(query, step)
    assert "pyarrow" not in found.modules


@pytest.mark.parametrize(
    "step", ["load", "load_bound", "plan_read", "plan_stream", "read_task", "stream_task", "text_task"]
)
def test_process_of_a_source_imports_no_producer(query: Query, step: str) -> None:
    assert imported(query, step, "client.producer.sender", "client.transactions.", "spark.sink.writer") == []


@pytest.mark.parametrize("step", ["plan_write", "plan_stream_write", "write_task", "commit_write"])
def test_process_of_a_sink_imports_no_consumer(query: Query, step: str) -> None:
    assert imported(query, step, "client.consumer.", "spark.planning.", "spark.source.reader") == []


def imported(query: Query, step: str, *prefixes: str) -> list[str]:
    """The modules of this package that begin with one of these and that a step imports."""
    found: Step = getattr(query, step)
    begin = tuple(f"spark_kafka_native.{prefix}" for prefix in prefixes)
    return sorted(name for name in found.own if name.startswith(begin))


@pytest.mark.parametrize(
    ("step", "unneeded"),
    [
        ("read_task", {"pandas", "pyarrow.compute"}),
        ("stream_task", {"pandas", "pyarrow.compute"}),
        ("text_task", {"pandas", "pyarrow.compute"}),
        ("write_task", {"pandas"}),
    ],
)
def test_task_imports_no_pandas(query: Query, step: str, unneeded: set[str]) -> None:
    found: Step = getattr(query, step)
    assert sorted(found.modules & unneeded) == []
