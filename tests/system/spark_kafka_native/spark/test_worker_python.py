import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from spark_kafka_native._spark.worker_python import COMMAND, worker_python


def run(
    command: str, arguments: Sequence[str], directory: Path, **environment: str
) -> "subprocess.CompletedProcess[str]":
    assert worker_python().endswith(COMMAND), "install the package: pip install --editable ."
    return subprocess.run(
        [command, *arguments],
        env={**os.environ, **environment},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_command_passes_its_arguments_and_status_on(tmp_path: Path) -> None:
    program = "import sys; print(sys.argv[1:], sys.prefix); sys.exit(7)"
    done = run(worker_python(), ["-c", program, "a b"], tmp_path, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    assert (done.stdout, done.returncode) == (f"['a b'] {sys.prefix}\n", 7), done.stderr


MODULE = """
import json, os, pickle, sys
class Local: pass
assert type(pickle.loads(pickle.dumps(Local()))) is Local
found = {
    "argv": sys.argv,
    "path": sys.path,
    "names": [__name__, __file__, __package__, __spec__.name, sorted(globals())],
    "PYTHONPATH": os.environ.get("PYTHONPATH"),
}
print(json.dumps([found, sys.orig_argv]))
sys.exit(7)
"""


@pytest.mark.parametrize(
    ("path", "safe"),
    [("", ""), ("of the user", ""), ("of the user", "1"), (os.pathsep.join(["/other", "", "of the user"]), "1")],
)
def test_a_module_runs_as_python_runs_it(path: str, safe: str, tmp_path: Path) -> None:
    """From the working directory, unless ``PYTHONSAFEPATH`` is set, or from a directory of ``PYTHONPATH``."""
    for directory in (tmp_path, tmp_path / "of the user"):
        (directory / "package").mkdir(parents=True)
        (directory / "package" / "module.py").write_text(MODULE)

    def found(command: str) -> tuple[Any, list[str]]:
        arguments = ["-m", "package.module", "a b", "-c"]
        done = run(command, arguments, tmp_path, PYTHONPATH=path, PYTHONSAFEPATH=safe)
        assert done.returncode == 7, done.stderr
        what, started_as = json.loads(done.stdout)
        return what, started_as

    ours, started_as = found(worker_python())
    assert ours == found(sys.executable)[0]
    assert started_as[1] == worker_python()  # in the process of the command


@pytest.mark.parametrize(
    "module", ["missing", "missing.module", "json.missing", "xml", "json.py", "..json", "__main__"]
)
def test_a_module_that_cannot_run_is_reported_as_python_reports_it(module: str, tmp_path: Path) -> None:
    (tmp_path / "__main__.py").touch()
    ours, python = (run(command, ["-m", module], tmp_path) for command in (worker_python(), sys.executable))
    assert (ours.stderr, ours.returncode) == (python.stderr, 1)


@pytest.mark.spark
def test_workers_import_the_pyspark_of_the_driver(spark: SparkSession) -> None:
    """Workers that run ``pykafka-python`` do not import that of Spark's archive."""

    def origins(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import py4j
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"origin": [pyspark.__file__, py4j.__file__]})

    found = {row.origin for row in spark.range(1).mapInArrow(origins, "origin string").collect()}
    assert pyspark.__file__ in found
    assert not [origin for origin in found if ".zip" in origin]


class Ancestors(DataSource):
    """Its columns are the process that creates it, and the ancestors of that."""

    def schema(self) -> str:
        import psutil

        process = psutil.Process()
        return ", ".join(f"`{each.pid}` int" for each in [process, *process.parents()])


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="the fork server is for Linux")
def test_the_fork_server_starts_processes_that_plan_queries(spark: SparkSession) -> None:
    spark.dataSource.register(Ancestors)
    spark.read.format(Ancestors.name()).load()  # may start the server
    jvm: Any = spark.sparkContext._jvm
    driver = str(jvm.java.lang.ProcessHandle.current().pid())
    assert driver not in spark.read.format(Ancestors.name()).load().columns
