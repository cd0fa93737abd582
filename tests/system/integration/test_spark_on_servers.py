from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tests.support.servers.brokers import Server, TopicMaker

pytestmark = pytest.mark.spark

ROWS = 3_000
PATIENCE_S = 60


def numbered(spark: SparkSession, first: int, count: int) -> DataFrame:
    """Rows with everything that the sink takes: null keys and values, headers, a partition here and there."""
    return spark.range(first, first + count).selectExpr(
        "IF(id % 7 = 0, NULL, CAST(id AS STRING)) AS key",
        "IF(id % 11 = 0, NULL, CONCAT('value ', id)) AS value",
        "IF(id % 2 = 0, ARRAY(STRUCT('id' AS key, BINARY(STRING(id)) AS value)), NULL) AS headers",
        "IF(id % 5 = 0, CAST(id % 3 AS INT), NULL) AS partition",
    )


def read(spark: SparkSession, server: Server, topic: str) -> DataFrame:
    return (
        spark.read.format("pykafka")
        .option("kafka.bootstrap.servers", server.bootstrap_servers)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
    )


def contents(frame: DataFrame) -> list[Row]:
    """Keys, values and headers in an order of their own, for a comparison row by row."""
    text = frame.selectExpr("CAST(key AS STRING) k", "CAST(value AS STRING) v", "CAST(headers[0].value AS STRING) h")
    return text.orderBy("k", "v", "h").collect()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_batch_comes_back_as_it_went(spark: SparkSession, server: Server, topic_on: TopicMaker, codec: str) -> None:
    topic = topic_on(partitions=3)
    rows = numbered(spark, 0, ROWS)
    options = {"kafka.bootstrap.servers": server.bootstrap_servers, "topic": topic, "kafka.compression.type": codec}
    rows.write.format("pykafka").options(**options).mode("append").save()
    found = read(spark, server, topic)
    assert contents(found) == contents(rows)
    given = found.where("CAST(CAST(key AS STRING) AS INT) % 5 = 0")
    assert given.where("partition != CAST(CAST(key AS STRING) AS INT) % 3").count() == 0
    per_partition = found.groupBy("partition").agg({"offset": "max", "*": "count"}).collect()
    assert all(row["max(offset)"] == row["count(1)"] - 1 for row in per_partition)


def test_a_stream_copies_a_topic_over_two_runs(
    spark: SparkSession, server: Server, topic_on: TopicMaker, tmp_path: Path
) -> None:
    source, target = topic_on(partitions=3), topic_on(partitions=3)
    write = {"kafka.bootstrap.servers": server.bootstrap_servers, "topic": source}
    for run in range(2):
        numbered(spark, run * ROWS, ROWS).write.format("pykafka").options(**write).mode("append").save()
        stream = (
            spark.readStream.format("pykafka")
            .option("kafka.bootstrap.servers", server.bootstrap_servers)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .option("maxOffsetsPerTrigger", ROWS // 2)
            .load()
        )
        query = (
            stream.select("key", "value", "headers", "partition")
            .writeStream.format("pykafka")
            .option("kafka.bootstrap.servers", server.bootstrap_servers)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)
        assert [report.numInputRows for report in query.recentProgress if report.numInputRows] == [ROWS // 2] * 2
    sent, copied = (
        read(spark, server, topic)
        .select("partition", "offset", "key", "value", "headers")
        .orderBy("partition", "offset")
        for topic in (source, target)
    )
    assert copied.count() == 2 * ROWS
    assert copied.collect() == sent.collect()
