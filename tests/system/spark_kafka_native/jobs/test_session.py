import subprocess
import sys
from collections.abc import Callable

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from spark_kafka_native._jobs import quickstart
from spark_kafka_native._jobs.batch_reload.command import main as batch_reload
from spark_kafka_native._jobs.session import printed_on_failure, set_default, spark_session, stderr_into


@pytest.mark.parametrize("job", [batch_reload, quickstart.main])
def test_a_job_with_a_closed_stderr_opens_the_null_device(
    job: Callable[[list[str]], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session flushes stderr, which is None if it is closed when Python starts."""
    monkeypatch.setattr(sys, "stderr", None)
    assert job(["--nonsense"]) == 2
    assert sys.stderr is not None
    sys.stderr.close()


@pytest.mark.spark
def test_a_session_that_is_there_is_used_and_left_running(spark: SparkSession) -> None:
    with spark_session("job", tasks=7) as used:
        assert used is spark
        assert used.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.range(3).count() == 3


@pytest.mark.spark
def test_options_that_the_application_was_started_with_stay(spark: SparkSession) -> None:
    set_default(spark, "spark.sql.shuffle.partitions", "7")
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    try:
        set_default(spark, "spark.sql.files.maxRecordsPerFile", "7")
        assert spark.conf.get("spark.sql.files.maxRecordsPerFile") == "7"
    finally:
        spark.conf.unset("spark.sql.files.maxRecordsPerFile")


def jvm_says(text: str) -> "subprocess.Popen[bytes]":
    """A child process that speaks on the stderr it was started with, later, as a JVM does."""
    return subprocess.Popen(["sh", "-c", 'read go; echo "$0" >&2', text], stdin=subprocess.PIPE)


def test_stderr_of_the_jvm_is_dropped_on_success(capfd: pytest.CaptureFixture[str]) -> None:
    with printed_on_failure() as messages:
        with stderr_into(messages):
            jvm = jvm_says("WARN: not an error")
        jvm.communicate(b"\n")
        print("a line of the job", file=sys.stderr)
    assert capfd.readouterr().err == "a line of the job\n"


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        (PySparkRuntimeError("the JVM did not start"), "ERROR: this is why\n"),
        (Py4JError("the JVM is gone"), "ERROR: this is why\n"),
        (CapturedException.__new__(CapturedException), ""),  # a query failed; its initializer wants a JVM
    ],
)
def test_stderr_of_the_jvm_is_printed_on_failure(
    failure: Exception, shown: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def job() -> None:
        with printed_on_failure() as messages:
            with stderr_into(messages):
                jvm = jvm_says("ERROR: this is why")
            jvm.communicate(b"\n")
            raise failure

    with pytest.raises(type(failure)):
        job()
    assert capfd.readouterr().err == shown


def test_stderr_is_itself_again_when_the_jvm_does_not_start(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FileNotFoundError), printed_on_failure() as messages, stderr_into(messages):
        subprocess.Popen(["no-such-java"])
    print("heard", file=sys.stderr, flush=True)
    assert capfd.readouterr().err == "heard\n"
