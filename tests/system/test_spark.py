"""What all tests of Spark stand on: its workers run this interpreter, and a call that hangs ends its own test alone."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.spark.sources import NumbersSource

HANGING = Path(__file__).parents[1] / "support" / "spark" / "hanging_queries.py"


def test_a_python_data_source_is_read_through_arrow(spark: SparkSession) -> None:
    spark.dataSource.register(NumbersSource)
    numbers = spark.read.format("numbers").load()
    assert numbers.rdd.getNumPartitions() == 2
    assert sorted(row.number for row in numbers.collect()) == list(range(10))


@pytest.mark.spark
def test_what_hangs_in_spark_fails_and_later_tests_run() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-v", str(HANGING)]
    response = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HANGING.parents[2])
    outcomes = dict(re.findall(r"::test_(\w+) (PASSED|FAILED|ERROR)", response.stdout))
    assert outcomes == {
        "a_task_hangs": "ERROR",
        "a_stream_hangs_in_its_driver": "ERROR",
        "a_query_is_left_running": "PASSED",
        "the_next_one_finds_a_spark_that_works": "PASSED",
    }, response.stdout
    assert "Spark was stopped after 8 s" in response.stdout
