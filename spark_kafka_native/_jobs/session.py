"""The Spark session of a job: spark-submit's, the caller's, or one of the job's own on this machine."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from spark_kafka_native._jobs.interrupts import sigint_handler_kept, stop_interrupted
from spark_kafka_native._spark.datasource import register
from spark_kafka_native._spark.worker_python import worker_python


@contextlib.contextmanager
def spark_session(name: str, *, tasks: int) -> Iterator[SparkSession]:
    """A session that knows ``format("pykafka")``.

    An active session is used and not stopped. Under spark-submit its settings are used. Otherwise a local session is
    created, with workers that run this Python; the JVM's log is printed only if Spark fails. Unless
    ``spark.sql.shuffle.partitions`` is set, it is ``tasks``, because Spark's 200 make a small stateful query slow.

    Raises PySparkException or Py4JError: it cannot be started.
    """
    present = SparkSession.getActiveSession()
    if present is not None:
        register(present)
        yield present
        return
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    with _submitted(name) if submitted else _on_this_machine(name) as spark:
        set_default(spark, "spark.sql.shuffle.partitions", str(tasks))
        register(spark)
        try:
            yield spark
        except KeyboardInterrupt:
            stop_interrupted(spark.stop)
            raise
        except BaseException:
            spark.stop()
            raise
        spark.stop()


def set_default(spark: SparkSession, key: str, value: str) -> None:
    """Set an option of the session, unless the application was started with it."""
    if not spark.sparkContext.getConf().contains(key):
        spark.conf.set(key, value)


@contextlib.contextmanager
def _submitted(name: str) -> Iterator[SparkSession]:
    with sigint_handler_kept():
        spark = SparkSession.builder.appName(name).getOrCreate()
    yield spark


@contextlib.contextmanager
def _on_this_machine(name: str) -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", worker_python())  # else workers run whatever `python3` is on the PATH
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.appName(name)
        .master("local[*]")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")  # compile quickly for a short run
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    with printed_on_failure() as messages:
        with stderr_into(messages), sigint_handler_kept():
            spark = builder.getOrCreate()
        yield spark


@contextlib.contextmanager
def printed_on_failure() -> Iterator[IO[bytes]]:
    """A file for the JVM's stderr, printed if the JVM fails and otherwise dropped.

    It is also dropped if a query fails, because Spark's exception has the same text.
    """
    with tempfile.TemporaryFile() as messages:
        try:
            yield messages
        except CapturedException:
            raise
        except (PySparkException, Py4JError):
            messages.seek(0)
            sys.stderr.write(messages.read().decode(errors="replace"))
            sys.stderr.flush()
            raise


@contextlib.contextmanager
def stderr_into(file: IO[bytes]) -> Iterator[None]:
    """Redirect file descriptor 2, which child processes inherit, to ``file`` in the block."""
    sys.stderr.flush()
    before = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
