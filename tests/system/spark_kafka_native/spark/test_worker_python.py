import os
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from spark_kafka_native.spark.worker_python import COMMAND, worker_python


def test_the_command_passes_its_arguments_and_status_on() -> None:
    command = worker_python()
    assert command.endswith(COMMAND), "install the package: pip install --editable ."
    program = "import sys; print(sys.argv[1:], sys.prefix); sys.exit(7)"
    done = subprocess.run(
        [command, "-c", program, "a b"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == (f"['a b'] {sys.prefix}\n", 7), done.stderr


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
