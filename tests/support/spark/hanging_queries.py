"""Tests that wait for ever in Spark, and one after them.

Run by tests/system/test_spark.py, in a pytest of their own.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.spark.sources import HangingSource, NumbersSource
from tests.support.spark.watchdog import GRACE_S

ends_soon = pytest.mark.timeout(GRACE_S + 8)


@ends_soon
def test_a_task_hangs(spark: SparkSession) -> None:
    spark.dataSource.register(HangingSource)
    spark.read.format("hangs").load().collect()


@ends_soon
def test_a_stream_hangs_in_its_driver(spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.readStream.format("hangs").load().writeStream.format("noop")
    writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()


def test_a_query_is_left_running(spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.readStream.format("rate").load().writeStream.format("noop")
    writer.option("checkpointLocation", str(tmp_path)).start()


def test_the_next_one_finds_a_spark_that_works(spark: SparkSession) -> None:
    assert spark.streams.active == []
    assert spark.range(10).repartition(2).count() == 10
    spark.dataSource.register(NumbersSource)
    assert spark.read.format("numbers").load().count() == 10
