"""The Spark session of benchmarks: two cores on this machine, no interface, no log, and all sources side by side."""

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.support.report import Report
from benchmarks.support.stubs import StubSource
from spark_kafka_native._java import ensure_java
from spark_kafka_native._spark.datasource import register
from spark_kafka_native._spark.worker_python import COMMAND, PYTHON_VARIABLES, worker_python
from tests.support.spark.jvm_connector import connector_jars, connector_name, jvm_connector_unavailable

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
SOURCE_TUNED: Final = {
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.fetch.max.wait.ms": "10",
}
"""Options of the JVM connector's source as its users tune it for throughput."""
SINK_TUNED: Final = {"kafka.batch.size": "1048576", "kafka.linger.ms": "20"}
"""The same for its sink."""
UNIX_SOCKETS: Final = {"spark.python.unix.domain.socket.enabled": "true"}
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
ANY_SIZE: Final = {"spark.sql.execution.arrow.maxBytesPerBatch": "2147483647"}
RECOMMENDED: Final[Mapping[str, str]] = UNIX_SOCKETS | ANY_SIZE
"""What ``docs/performance.md`` recommends, and ``benchmarks.settings`` measures. No other connector needs any of it."""
BATCH_TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.05


def local_session(
    name: str,
    directory: Path,
    *,
    jars: Sequence[Path] = (),
    memory: str = "2g",
    python: str | None = None,
    settings: Mapping[str, str] = RECOMMENDED,
) -> SparkSession:
    """Start one with the formats ``pykafka`` and ``stub``, and Spark's own ``kafka`` if its ``jars`` are given.

    ``settings`` are Spark's; ``memory`` is the JVM's; ``directory`` is for what it leaves; ``python`` is
    what workers run, `worker_python` unless it is given. Raises RuntimeError: that is not installed.
    """
    ensure_java()
    command = python or worker_python()
    if python is None and not command.endswith(COMMAND):
        raise RuntimeError(f"{COMMAND} is not installed: run `pip install --editable .`")
    os.environ |= dict.fromkeys(PYTHON_VARIABLES, command)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    builder = (
        SparkSession.builder.master("local[2]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", memory)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
    )
    if jars:
        builder = builder.config("spark.jars", ",".join(map(str, jars)))
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    spark.dataSource.register(StubSource)
    return spark


def in_new_process(function: Callable[..., T], *arguments: Any) -> T:
    """The result of a function in a new process: one has one Spark session. Raises BrokenProcessPool: it was killed."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def jars_of_connector(report: Report) -> Sequence[Path]:
    """The jars of Spark's JVM connector, and a note which it is; none of them, and why, where they cannot be had.

    Also notes what Spark's workers run, and which settings Spark has.
    """
    report.note("Spark has the settings that docs/performance.md recommends.")
    report.note(f"Spark's workers run {Path(worker_python()).name}.")
    if reason := jvm_connector_unavailable():
        report.note(reason)
        return ()
    report.note(f"Spark's JVM connector: {connector_name()}.")
    return connector_jars()


@dataclass(frozen=True, slots=True)
class Stream:
    """A streaming query that writes to a format: what loads its source's rows, and the options of its sink."""

    load: Callable[[], DataFrame]
    form: str
    options: Mapping[str, str]

    def whole(self, rows: int, directory: Path, interval: Callable[[], AbstractContextManager[None]]) -> None:
        """Run the query once for all that is there, from `load` to its end in ``interval``.

        Raises RuntimeError: it read other than ``rows`` rows.
        """
        with _checkpoint(directory) as checkpoint, interval():
            query = self._started(checkpoint, availableNow=True)
            query.awaitTermination()
        if (read := sum(progress.numInputRows for progress in query.recentProgress)) != rows:
            raise RuntimeError(f"{read:,} rows instead of {rows:,}")

    def steady_row_seconds(self, batches: int, directory: Path) -> float:
        """Seconds for each row in micro-batches that follow the first one, by the clock of the query's progress.

        ``batches`` is how many there must be in all; a query that has more is stopped.
        """
        with _checkpoint(directory) as checkpoint:
            query = self._started(checkpoint, processingTime="0 seconds")
            try:
                progresses = _progresses(query, batches)
            finally:
                query.stop()
        begun = datetime.fromisoformat(progresses[1].timestamp)
        last = datetime.fromisoformat(progresses[-1].timestamp)
        seconds = (last - begun).total_seconds() + progresses[-1].durationMs["triggerExecution"] / 1000
        return seconds / sum(progress.numInputRows for progress in progresses[1:])

    def _started(self, checkpoint: Path, **trigger: Any) -> StreamingQuery:
        writer = self.load().writeStream.format(self.form).options(**self.options)
        return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


@contextmanager
def _checkpoint(directory: Path) -> Iterator[Path]:
    checkpoint = Path(tempfile.mkdtemp(dir=directory))
    yield checkpoint
    shutil.rmtree(checkpoint)


def _progresses(query: StreamingQuery, batches: int) -> list[StreamingQueryProgress]:
    """Of the first micro-batches with rows, once there are so many. Raises RuntimeError: there are not."""
    until = time.monotonic() + BATCH_TIMEOUT_S
    while query.isActive and time.monotonic() < until:
        found = [progress for progress in query.recentProgress if progress.numInputRows]
        if len(found) >= batches:
            return found[:batches]
        time.sleep(POLL_S)
    raise RuntimeError(f"no {batches} micro-batches: {query.exception() or query.lastProgress}")


@contextmanager
def setting(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """The session with other settings for a while."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
