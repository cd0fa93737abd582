"""The Spark session of benchmarks: two cores on this machine, no interface, no log, and all sources side by side."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.support.report import Report
from benchmarks.support.stubs import StubSource
from spark_kafka_native.jobs.java import ensure_java
from spark_kafka_native.spark.datasource import PyKafkaDataSource
from tests.support.jvm_connector import connector_jars, connector_name, jvm_connector_unavailable

ROOT = Path(__file__).parents[2]


def local_session(
    name: str, directory: Path, *, jars: Sequence[Path] = (), memory: str = "2g", **settings: str | int
) -> SparkSession:
    """Start one with the formats ``pykafka`` and ``stub``, and Spark's own ``kafka`` if its ``jars`` are given.

    ``settings`` are Spark's, with ``__`` for ``.``; ``memory`` is the JVM's; ``directory`` is for what it leaves.
    """
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
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
        builder = builder.config(key.replace("__", "."), value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(PyKafkaDataSource)
    spark.dataSource.register(StubSource)
    return spark


def jars_of_connector(report: Report) -> Sequence[Path]:
    """The jars of Spark's JVM connector, and a note which it is; none of them, and why, where they cannot be had."""
    if reason := jvm_connector_unavailable():
        report.note(reason)
        return ()
    report.note(f"Spark's JVM connector: {connector_name()}.")
    return connector_jars()


def stream_seconds(frame: DataFrame, form: str, options: Mapping[str, str], rows: int, directory: Path) -> float:
    """What the triggers took of a stream that writes all there is, in sum. Raises RuntimeError: it read other rows."""
    checkpoint = Path(tempfile.mkdtemp(dir=directory))
    writer = frame.writeStream.format(form).options(**options).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progresses = query.recentProgress
    if (read := sum(progress.numInputRows for progress in progresses)) != rows:
        raise RuntimeError(f"{read:,} rows instead of {rows:,}")
    shutil.rmtree(checkpoint)
    return sum(progress.durationMs["triggerExecution"] for progress in progresses) / 1000


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
