"""A batch write that is exactly once, in a process of its own whose commit rests at a step that a test names.

    DOOM=FILE python -m tests.support.kills.batch_write SERVERS TOPIC ROWS NAME=VALUE ...

``FILE`` holds the step, see `tests.support.kills.sink`; ``NAME=VALUE`` are further options of the sink. The
values are the numbers up to ``ROWS``.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from dirty_equals import IsInt
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_kafka_native._spark.datasource import PyKafkaDataSource
from spark_kafka_native._spark.sink import exactly_once
from spark_kafka_native._spark.sink.writer import PyKafkaWriter
from tests.support.kills.sink import DOOM, Doom, Rests
from tests.support.kills.spark_copy import driver_environment
from tests.support.process_tree import descendants, kill_all, still_there
from tests.support.waiting import eventually

_PATIENCE_S = 120.0
TASKS = 3


class DoomedLoadWriter(DataSourceArrowWriter):
    """A batch writer whose commit may rest."""

    def __init__(self, writer: PyKafkaWriter) -> None:
        self._writer = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # its row-wise base takes rows
        return self._writer.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        vars(exactly_once)["carry_out"] = Rests().carry_out
        self._writer.commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._writer.abort(messages)


class DoomedLoadSource(PyKafkaDataSource):
    """The data source, with a batch sink whose commit may rest."""

    def writer(self, schema: StructType, overwrite: bool) -> DoomedLoadWriter:  # type: ignore[override]  # wraps the base's writer
        return DoomedLoadWriter(super().writer(schema, overwrite))


def kill_load_at(step: str, directory: Path, servers: str, topic: str, rows: int, **options: str) -> None:
    """Write ``rows`` rows with a driver that is killed, with all its processes, when its commit comes to ``step``."""
    doom = Doom(directory / "doom")
    doom.aim(step)
    arguments = [servers, topic, str(rows), *(f"{name}={value}" for name, value in options.items())]
    output = directory / "load.log"
    with output.open("wb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.kills.batch_write", *arguments],
            stdout=printed,
            stderr=printed,
            cwd=directory,
            env={**driver_environment(), DOOM: str(doom.file)},
        )

        def victim() -> int | None:
            assert process.poll() is None, f"the load ended with {process.returncode}"
            return doom.victim

        try:
            eventually(victim, IsInt, within_s=_PATIENCE_S)
        except AssertionError as error:
            error.add_note(output.read_text(errors="replace"))
            raise
        finally:
            processes = descendants(process.pid)
            process.kill()
            kill_all(processes)
            process.wait(30)
            kill_all(still_there(processes))


def main(servers: str, topic: str, rows: str, *options: str) -> None:
    """Write the rows."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.dataSource.register(DoomedLoadSource)
    given: dict[str, Any] = dict(option.split("=", 1) for option in options)
    numbers = spark.range(0, int(rows), 1, TASKS).selectExpr("CAST(id AS STRING) AS value")
    writer = numbers.write.format("pykafka").mode("append")
    writer.options(**{"kafka.bootstrap.servers": servers, "topic": topic, **given}).save()


if __name__ == "__main__":
    main(*sys.argv[1:])
