from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.producer.producer import Producer
from tests.support.clients.topics import Topics
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
    assert found(late(df)) == [*EXPECTED, "new"], "planned for every action"
    two = df.where("offset < 2").select("offset").union(df.where("partition = 0").select("offset"))
    assert two.count() == 6 + 10, "scans with other filters are not narrowed by each other's"
    assert late(read(subscribe=topic)).rdd.getNumPartitions() == 3, "without the option"


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


@pytest.mark.feature("column.headers")
def test_a_header_key_that_is_not_utf8_is_read_as_in_java(read: Reader, topics: Topics, servers: str) -> None:
    topic = topics.create()
    keys = pa.array([b"\xff", b"fine", b"\xed\xa0\x80"], pa.binary()).cast(pa.string(), safe=False)
    headers = pa.StructArray.from_arrays([keys, pa.array([b"1", b"2", b"3"], pa.binary())], ["key", "value"])
    rows = {"value": pa.array([b"v"], pa.binary()), "headers": pa.ListArray.from_arrays([0, 3], headers)}
    with Cluster(ClientConfig.parse({"bootstrap.servers": servers})) as cluster, Producer(cluster) as producer:
        producer.send(topic, pa.RecordBatch.from_pydict(rows))
    ((found,),) = read(subscribe=topic, includeHeaders="true").select("headers").collect()
    assert [(header.key, bytes(header.value)) for header in found] == [
        ("\ufffd", b"1"),
        ("fine", b"2"),
        ("\ufffd", b"3"),
    ]


@pytest.mark.feature("column.timestamp", "more.projection")
def test_a_time_that_spark_cannot_hold_is_read_as_bigint(read: Reader, topics: Topics) -> None:
    far = 2**63 - 1
    topic = topics.create(message_timestamp_after_max_ms=str(far))
    topics.write(topic, ["a", "b"], timestamps=[0, far])
    rows = read(subscribe=topic, schema="offset bigint, timestamp bigint").collect()
    assert [tuple(row) for row in rows] == [(0, 0), (1, far)]
    with pytest.raises(PySparkException, match=f"{topic}-0: the record at offset 1 has the timestamp {far} ms.*bigint"):
        read(subscribe=topic, schema="value binary, timestamp timestamp").collect()
