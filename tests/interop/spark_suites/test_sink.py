"""KafkaSinkSuite, and who reads which partitions (ConsumerStrategySuite)."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from broker_embedded.testing import BrokerProcess
from tests.support.clients.topics import Topics
from tests.support.spark.queries import Batches, KafkaFrames, error_text, failure, finish, unique, values

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.mark.feature("sink.topic", "sink.topicColumn", "sink.append", "run.rows")
def test_write_to_kafka_with_topic_field_and_topic_option(kafka: KafkaFrames, topics: Topics, batches: Batches) -> None:
    """As a stream: by the column, and with the option, which goes before it."""
    source, first, second = topics.create(), topics.create(), topics.create()
    topics.write(source, ["1", "2", "3"])
    df = kafka.stream(subscribe=source, startingOffsets="earliest").withColumn("topic", F.lit(first))
    query = finish(kafka.write_stream(df, batches.checkpoint))
    assert topics.values(first) == [b"1", b"2", b"3"]
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [3]
    finish(kafka.write_stream(df, batches.checkpoint.with_name("option"), topic=second))
    assert (topics.values(first), topics.values(second)) == ([b"1", b"2", b"3"],) * 2


@pytest.mark.feature("sink.batch", "sink.topic", "sink.topicColumn", "sink.key", "sink.value", "sink.headers")
def test_batch_write_to_kafka(kafka: KafkaFrames, topics: Topics) -> None:
    """Headers that come twice, or have no value, or are null; also SPARK-20496: a plan that needs its analysis."""
    topic = topics.create()
    kafka.write(
        "SELECT value, IF(value = 'a', ARRAY(STRUCT('h' AS key, BINARY('1') AS value), "
        "STRUCT('h' AS key, BINARY(NULL) AS value)), NULL) AS headers, IF(value = 'b', NULL, value) AS key "
        "FROM (SELECT explode(array('a', 'b')) AS value)",
        topic=topic,
    )
    found = {record.value: (record.key, record.headers) for record in topics.read(topic)}
    assert found == {b"a": (b"a", [("h", b"1"), ("h", None)]), b"b": (None, None)}


@pytest.mark.feature("sink.partition", "sink.partitioner")
def test_batch_partition_column_and_partitioner_priorities(kafka: KafkaFrames, topics: Topics) -> None:
    """murmur2 of the key, unless a column says otherwise; null in it leaves the choice to the key."""
    topic = topics.create(4)
    kafka.write("SELECT CAST(id AS STRING) AS key, 'default' AS value FROM range(5)", topic=topic)
    kafka.write("SELECT CAST(id AS STRING) AS key, 'given' AS value, 2 AS partition FROM range(5)", topic=topic)
    kafka.write(
        "SELECT CAST(id AS STRING) AS key, 'null' AS value, CAST(NULL AS INT) AS partition FROM range(5)", topic=topic
    )
    found = {(record.value, record.key): record.partition for record in topics.read(topic)}
    others = partitions_by_librdkafka(kafka, topics, [str(n) for n in range(5)])
    assert len(set(others)) > 1
    assert [found[b"default", str(n).encode()] for n in range(5)] == others
    assert {found[b"given", str(n).encode()] for n in range(5)} == {2}
    assert [found[b"null", str(n).encode()] for n in range(5)] == others


def partitions_by_librdkafka(kafka: KafkaFrames, topics: Topics, keys: list[str]) -> list[int]:
    """Where another client puts keys with Java's hash, in a topic of 4 partitions."""
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    topic = topics.create(4)
    config = {"bootstrap.servers": kafka.servers, "partitioner": "murmur2_random", "log_level": 0}
    producer = confluent_kafka.Producer(config)
    for key in keys:
        producer.produce(topic, b"", key)
    assert producer.flush(60) == 0
    found = {record.key: record.partition for record in topics.read(topic)}
    return [found[key.encode()] for key in keys]


@pytest.mark.feature("sink.client", "sink.recordSize")
def test_write_big_data_with_small_producer_buffer(kafka: KafkaFrames, topics: Topics) -> None:
    topic = topics.create()
    rows = kafka.spark.range(1000).selectExpr("repeat(CAST(id % 10 AS STRING), 15000) AS value")
    kafka.write(rows, topic=topic, kafka__buffer__memory=16384, kafka__batch__size=16384)
    summary = kafka.read(subscribe=topic).selectExpr("count(*)", "min(length(value))", "max(length(value))").first()
    assert summary == (1000, 15000, 15000)


@pytest.mark.feature("sink.missingTopic", "sink.errors")
def test_write_to_non_existing_topic(spark: SparkSession) -> None:
    """A topic that the broker will not make either."""
    topic = unique("no-such-topic")
    with BrokerProcess(settings={"auto.create.topics.enable": False}) as broker:
        frames = KafkaFrames(spark, broker.bootstrap_servers)
        text = error_text(lambda: frames.write("SELECT 'a' AS value", topic=topic, kafka__max__block__ms=1000))
    assert "writing failed" in text
    assert topic in text
    assert "'kafka.max.block.ms' bounds the wait" in text


@pytest.mark.feature("sink.topicColumn", "sink.errors")
def test_batch_null_topic_field_value_and_no_topic_option(kafka: KafkaFrames) -> None:
    text = error_text(lambda: kafka.write("SELECT 'a' AS value, CAST(NULL AS STRING) AS topic"))
    assert "[KAFKA_NULL_TOPIC_IN_DATA]" in text


@pytest.mark.feature("sink.types", "sink.client")
def test_streaming_write_data_with_bad_schema(kafka: KafkaFrames, topics: Topics, batches: Batches) -> None:
    source = topics.create()
    topics.write(source, ["1"])
    df = kafka.stream(subscribe=source, startingOffsets="earliest")
    wrong = df.select(F.col("value").cast("int").alias("value"))
    text = failure(lambda: kafka.write_stream(wrong, batches.checkpoint, topic=source))
    assert "column 'value' must be a string or binary, not INT" in text
    serializer: dict[str, Any] = {"kafka.key.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer"}
    text = failure(lambda: kafka.write_stream(df, batches.checkpoint, topic=source, **serializer))
    assert "kafka.key.serializer" in text


@pytest.mark.feature("source.assign", "source.subscribe", "source.subscribePattern")
def test_consumer_strategies(kafka: KafkaFrames, topics: Topics) -> None:
    """Assign gives back all assigned and skips invalid partitions; subscribing gives all."""
    prefix = unique("strategies")
    first, second = topics.create(3, name=f"{prefix}-1"), topics.create(1, name=f"{prefix}-2")
    topics.write(first, ["0", "1", "2"], partition=[0, 1, 2])
    topics.write(second, ["3"])
    assert values(kafka.read(assign=json.dumps({first: [0, 2]}))) == ["0", "2"]
    assert values(kafka.read(assign=json.dumps({second: [1]}))) == []
    assert values(kafka.read(subscribe=f"{first} , {second},")) == ["0", "1", "2", "3"]
    assert values(kafka.read(subscribePattern=f"{prefix}.*")) == ["0", "1", "2", "3"]
    assert values(kafka.read(subscribePattern=f"{prefix[3:]}-[13]")) == ["0", "1", "2"]
