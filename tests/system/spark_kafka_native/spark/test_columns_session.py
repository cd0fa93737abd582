"""User schemas and filters in a Spark session: what is read, and how much of it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.topics import Topics
from tests.system.spark_kafka_native.spark.conftest import Reader

pytestmark = pytest.mark.spark

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
START_MS = 1_700_000_000_000


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


def fill(topics: Topics) -> str:
    """Three partitions with ten records each; times go to and fro."""
    topic = topics.create(3)
    for partition in range(3):
        times = [START_MS + 1000 * ((index * 7) % 10) for index in range(10)]
        topics.write(topic, [f"{partition}:{index}" for index in range(10)], partition=partition, timestamps=times)
    return topic


def found(df: DataFrame) -> list[str]:
    return sorted(row[0] for row in df.select(F.col("value").cast("string")).collect())


def late(df: DataFrame) -> DataFrame:
    return df.where("partition = 1 and offset >= 2").where(f"timestamp >= timestamp_millis({START_MS + 8000})")


EXPECTED = ["1:4", "1:7"]
"""Those of partition 1 with the two latest times, which stand at offsets 4 and 7."""


@pytest.mark.feature("more.filters")
def test_pushed_filters_narrow_batches_that_ask_for_it(pushdown: None, read: Reader, topics: Topics) -> None:
    topic = fill(topics)
    df = read(subscribe=topic, filterPushdown="true")
    assert late(df).rdd.getNumPartitions() == 1
    topics.write(topic, ["new"], partition=1, timestamps=[START_MS + 9500])
    assert found(late(df)) == [*EXPECTED, "new"], "planned anew for every action"
    two = df.where("offset < 2").select("offset").union(df.where("partition = 0").select("offset"))
    assert two.count() == 6 + 10, "scans with other filters are not narrowed by each other's"
    assert late(read(subscribe=topic)).rdd.getNumPartitions() == 3, "not asked for"


@pytest.mark.interop
@pytest.mark.feature("more.filters")
def test_pushed_filters_leave_streams_alone(
    pushdown: None, spark: SparkSession, read_stream: Reader, topics: Topics
) -> None:
    stream = late(read_stream(subscribe=fill(topics), startingOffsets="earliest"))
    query = stream.writeStream.format("memory").queryName("late").trigger(availableNow=True).start()
    query.awaitTermination()
    assert found(spark.table("late")) == EXPECTED


@pytest.mark.feature("more.filters")
def test_filters_that_are_not_pushed_do_no_harm(read: Reader, topics: Topics) -> None:
    df = read(subscribe=fill(topics), filterPushdown="true")
    assert found(late(df)) == EXPECTED
    assert late(df).rdd.getNumPartitions() == 3
    assert df.count() == 30


@pytest.mark.feature("more.projection", "more.strings")
def test_columns_by_user_schema(read: Reader, topics: Topics) -> None:
    topic = topics.create()
    topics.write(
        topic, ["a", b"\xff"], headers=[[("h", b"1"), ("h", b"2"), ("n", None)], None], timestamps=[START_MS, 5]
    )
    schema = "Value string, timestamp bigint, headers map<string,string>"
    rows = read(subscribe=topic, schema=schema, invalidUtf8="null").collect()
    assert [row.asDict() for row in rows] == [
        {"Value": "a", "timestamp": START_MS, "headers": {"h": "2", "n": None}},
        {"Value": None, "timestamp": 5, "headers": None},
    ]
