"""Update mode in a real query: Spark refuses it for the sink, and the helper does it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kafka_native._spark.sink.update_mode import write_updates
from tests.support.clients.topics import Topics
from tests.support.servers.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.spark, pytest.mark.interop]


@pytest.fixture
def topics(apache_kafka: ApacheKafka) -> Iterator[Topics]:
    with Topics(apache_kafka.bootstrap_servers) as made:
        yield made


@pytest.mark.feature("sink.update")
def test_changed_rows_of_an_aggregation_are_appended(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(), topics.create()
    options = {"kafka.bootstrap.servers": topics.bootstrap_servers}
    topics.write(source, ["a", "b", "a", "a"])
    # Two micro-batches: of the first three records and of the last.
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "3"}
    rows = spark.readStream.format("pykafka").options(**options, **limits, subscribe=source).load()
    counts = rows.groupBy(rows.value.alias("key")).count().selectExpr("key", "string(count) AS value")
    updates = counts.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "helper"))
    query = updates.foreachBatch(write_updates(options, topic=target)).trigger(availableNow=True).start()
    assert query.awaitTermination(150)
    found = [(record.key, record.value) for record in topics.read(target)]
    assert sorted(found[:2]) == [(b"a", b"2"), (b"b", b"1")]
    assert found[2:] == [(b"a", b"3")]

    refused = counts.writeStream.outputMode("update").format("pykafka").options(**options, topic=target)
    with pytest.raises(PySparkException, match="does not support Update mode"):
        refused.option("checkpointLocation", str(tmp_path / "refused")).start().awaitTermination(60)
