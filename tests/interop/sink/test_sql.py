"""The sink in SQL: INSERT into a table of the format, whose options stand in the statement."""

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.clients.topics import Topics
from tests.support.servers.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.spark, pytest.mark.interop]


@pytest.fixture
def topics(apache_kafka: ApacheKafka) -> Iterator[Topics]:
    with Topics(apache_kafka.bootstrap_servers) as made:
        yield made


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    columns = "key STRING, value STRING, headers MAP<STRING, STRING>, timestamp TIMESTAMP"
    spark.sql(f"CREATE TABLE sink_of_sql ({columns}) USING pykafka")
    yield "sink_of_sql"
    spark.sql("DROP TABLE sink_of_sql")


@pytest.mark.feature("sink.batch", "sink.headersMap", "sink.timestamp")
def test_insert(spark: SparkSession, topics: Topics, table: str) -> None:
    topic = topics.create()
    cluster = f"`kafka.bootstrap.servers` = '{topics.bootstrap_servers}'"
    options = f"WITH ({cluster}, topic = '{topic}', includeTimestamp = 'true')"
    rows = "('k', 'v', map('b', '1', 'a', '2'), timestamp_millis(1700000000123)), (NULL, 'w', NULL, NULL)"
    spark.sql(f"INSERT INTO {table} {options} VALUES {rows}")
    found = sorted(((row.key, row.value, row.headers) for row in topics.read(topic)), key=lambda row: row[1] or b"")
    assert found == [(b"k", b"v", [("b", b"1"), ("a", b"2")]), (None, b"w", None)]
    reader = spark.read.format("pykafka").option("kafka.bootstrap.servers", topics.bootstrap_servers)
    times = reader.option("subscribe", topic).load().selectExpr("unix_millis(timestamp) AS ms").orderBy("ms")
    first, second = [row.ms for row in times.collect()]
    assert first == 1_700_000_000_123 < second


@pytest.mark.feature("sink.saveModes")
def test_insert_overwrite_is_refused(spark: SparkSession, topics: Topics, table: str) -> None:
    options = f"WITH (`kafka.bootstrap.servers` = '{topics.bootstrap_servers}', topic = 't')"
    with pytest.raises(PySparkException, match=r"overwrite is not possible: a topic is only ever appended to"):
        spark.sql(f"INSERT OVERWRITE {table} {options} VALUES ('k', 'v', NULL, NULL)")
