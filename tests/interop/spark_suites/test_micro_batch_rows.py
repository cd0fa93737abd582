"""KafkaMicroBatchSourceSuite: what the rows are, and what Spark makes of a stream of them."""

import json
import shutil
import uuid
from pathlib import Path

import pytest
from dirty_equals import Contains, IsInt, IsTrueLike
from pyspark.sql import functions as F

from tests.support.clients.confluent_transactions import TransactionalWriter
from tests.support.clients.topics import Topics
from tests.support.features.feature import showing
from tests.support.servers.brokers import AnyBroker
from tests.support.spark.queries import Batches, KafkaFrames, finish, unique, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ALL_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
T1 = 1_700_000_001_234


@pytest.mark.feature("column.key", "column.value", "column.topic", "column.partition", "column.offset")
@pytest.mark.feature("column.timestamp", "column.timestampType", "column.headers", "source.includeHeaders")
def test_kafka_column_types(kafka: KafkaFrames, topics: Topics, batches: Batches) -> None:
    topic = topics.create()
    headers: list[list[tuple[str, bytes | None]] | None] = [
        None,
        [("a", b"b"), ("c", None)],
        [("e", b"f"), ("e", b"g")],
    ]
    topics.write(topic, ["1", None, "3"], keys=[None, "k", ""], headers=headers, timestamps=[T1, T1 + 1, T1 + 2])
    stream = kafka.spark.readStream.format("pykafka").option("kafka.bootstrap.servers", kafka.servers)
    df = stream.option("subscribe", topic).option("startingOffsets", "earliest").option("includeHeaders", True).load()
    assert [(field.name, field.dataType.simpleString(), field.nullable) for field in df.schema] == [
        (field.name, field.dataType.simpleString(), True)
        for field in kafka.spark.createDataFrame([], ALL_COLUMNS).schema
    ]
    batches.finish(df.withColumn("timestamp", F.expr("unix_millis(timestamp)")).select(F.struct("*")))
    rows = sorted(batches.rows, key=lambda row: row.offset)
    assert [(row.key, row.value, row.timestamp) for row in rows] == [
        (None, b"1", T1),
        (b"k", None, T1 + 1),
        (b"", b"3", T1 + 2),
    ]
    assert [row.headers and [tuple(header) for header in row.headers] for row in rows] == headers
    assert {(row.topic, row.partition, row.timestampType) for row in rows} == {(topic, 0, 0)}


@pytest.mark.feature("column.timestampType", "column.timestamp")
def test_time_of_appending(kafka: KafkaFrames, topics: Topics) -> None:
    topic = topics.create(message_timestamp_type="LogAppendTime")
    topics.write(topic, ["1"], timestamps=[T1])
    (row,) = kafka.read(subscribe=topic).select("timestampType", F.expr("unix_millis(timestamp)").alias("at")).collect()
    assert row.timestampType == 1
    assert row.at > T1


@pytest.mark.parametrize(
    "transactional",
    [
        showing(False, shows="column.key column.value"),
        showing(True, shows="column.key column.value transactions.committed"),
    ],
)
def test_read_kafka_records_containing_null_key_or_values(
    kafka: KafkaFrames, topics: Topics, batches: Batches, any_broker: AnyBroker, transactional: bool
) -> None:
    """SPARK-27494."""
    topic = topics.create()
    if transactional:
        writer = TransactionalWriter(kafka.servers, unique("nulls"))
        with writer.transaction():
            writer.send(topic, [None] * 5)
            writer.send(topic, [None] * 5, key="key")
            writer.send(topic, ["value"] * 5)
    else:
        topics.write(topic, [None] * 10 + ["value"] * 5, keys=[None] * 5 + ["key"] * 5 + [None] * 5)
    df = kafka.stream(
        subscribe=topic,
        startingOffsets="earliest",
        kafka__isolation__level="read_committed",
        schema="key string, value string",
    )
    batches.finish(df.selectExpr("concat(coalesce(key, 'null'), '/', coalesce(value, 'null'))"))
    assert batches.rows == ["key/null"] * 5 + ["null/null"] * 5 + ["null/value"] * 5


@pytest.mark.feature("transactions.committed", "transactions.aborted", "transactions.open", "transactions.tail")
def test_read_kafka_transactional_messages_read_committed(
    kafka: KafkaFrames, topics: Topics, batches: Batches, any_broker: AnyBroker
) -> None:
    """Batches of at most three offsets, markers counted."""
    topic = topics.create()
    writer = TransactionalWriter(kafka.servers, unique("committed"))
    df = kafka.stream(
        subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=3, kafka__isolation__level="read_committed"
    )
    writer.begin()
    writer.send(topic, range(5))
    assert batches.finish(df) == [], "the transaction is open"
    writer.commit()
    assert batches.finish(df) == [["0", "1", "2"], ["3", "4"]]
    with writer.transaction(abort=True):
        writer.send(topic, range(5, 10))
    assert batches.finish(df) == [], "two batches in which there is nothing to see"
    assert json.loads(batches.offsets(batches.numbers[-1])) == {topic: {"0": 12}}
    with writer.transaction(abort=True):
        writer.send(topic, range(10, 13))
    with writer.transaction():
        writer.send(topic, range(13, 16))
    assert batches.finish(df) == [["13", "14"], ["15"]]


@pytest.mark.feature("transactions.uncommitted")
def test_read_kafka_transactional_messages_read_uncommitted(
    kafka: KafkaFrames, topics: Topics, batches: Batches, any_broker: AnyBroker
) -> None:
    topic = topics.create()
    writer = TransactionalWriter(kafka.servers, unique("uncommitted"))
    df = kafka.stream(
        subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=3, kafka__isolation__level="read_uncommitted"
    )
    writer.begin()
    writer.send(topic, range(5))
    assert batches.finish(df) == [["0", "1", "2"], ["3", "4"]]
    writer.commit()
    with writer.transaction(abort=True):
        writer.send(topic, range(6, 11))
    assert batches.finish(df) == [["6", "7"], ["8", "9", "10"]], "5 and 11 are markers"


@pytest.mark.feature("run.watermark")
def test_kafka_source_with_watermark(kafka: KafkaFrames, topics: Topics, batches: Batches) -> None:
    """Counts of ten-second windows leave when the watermark has passed; what comes later than that is dropped."""
    topic = topics.create()
    base = 1_700_000_000_000
    seconds = [0, 5, 12, 40, 41, 42, 43, 44, 1, 70, 71, 72]
    topics.write(topic, ["1"] * len(seconds), timestamps=[base + 1000 * second for second in seconds])
    df = kafka.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=4, schema="timestamp timestamp")
    counts = df.withWatermark("timestamp", "10 seconds").groupBy(F.window("timestamp", "10 seconds")).count()
    batches.finish(counts.select(F.concat_ws(" ", F.unix_seconds("window.start") % 100, "count")))
    assert batches.rows == ["0 2", "10 1", "40 5"]


@pytest.mark.feature("run.selfUnion", "run.rows")
def test_self_join_and_self_union_of_one_stream(kafka: KafkaFrames, topics: Topics, batches: Batches) -> None:
    """Both sides see the same micro-batch: records joined to themselves, and each row of the union twice."""
    topic = topics.create(2)
    topics.write(topic, ["1", "1", "2", "2"], partition=[0, 1, 0, 1])
    df = kafka.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=3)
    other = df.select(F.col("value").alias("other"))
    batches.finish(df.join(other, F.expr("value = other")).select("value"))
    assert batches.rows == ["1"] * 4 + ["2"] * 4
    doubled = Batches(batches.checkpoint.with_name("union"))
    query = finish(doubled.start(df.union(df), availableNow=True))
    assert doubled.rows == ["1"] * 4 + ["2"] * 4
    (progress, *_) = query.recentProgress
    assert len(progress.sources) == 1


@pytest.mark.feature("run.rows", "run.latestOffset", "run.stop", "offsets.json")
def test_input_row_metrics(kafka: KafkaFrames, topics: Topics, batches: Batches) -> None:
    """Also: the offsets in progress reports, and that the query can be stopped while it waits."""
    topic = topics.create()
    df = kafka.stream(subscribe=topic, startingOffsets="latest")
    topics.write(topic, ["-1"])
    with batches.running(df) as query:
        wait_for(lambda: batches.committed, IsTrueLike, query)
        topics.write(topic, ["1", "2", "3"])
        wait_for(lambda: [progress.numInputRows for progress in query.recentProgress], Contains(3), query)
        progress = next(progress for progress in query.recentProgress if progress.numInputRows == 3)
        (source,) = progress.sources
        offsets = [json.loads(text)[topic]["0"] for text in (source.startOffset, source.endOffset, source.latestOffset)]
        assert offsets == [1, 4, 4]
    assert not query.isActive
    assert query.exception() is None


@pytest.mark.feature("rate.asyncProgress")
def test_async_progress_tracking(kafka: KafkaFrames, topics: Topics, batches: Batches) -> None:
    """Offsets are written asynchronously; another query continues from them."""
    source, target = topics.create(2), topics.create()

    def run(checkpoint: Path, values: list[str], expected: int) -> None:
        topics.write(source, values, partition=[n % 2 for n in range(len(values))])
        df = kafka.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=4)
        writer = df.writeStream.format("pykafka").option("kafka.bootstrap.servers", kafka.servers)
        writer = writer.option("topic", target).option("checkpointLocation", str(checkpoint))
        writer = writer.option("asyncProgressTrackingEnabled", "true")
        # Spark knows by name the sinks that it allows this for.
        writer = writer.option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")
        query = writer.option("asyncProgressTrackingCheckpointIntervalMs", "0").start()
        try:
            wait_for(lambda: len(set(topics.values(target))), IsInt(ge=expected), query)
            wait_for(lambda: list((checkpoint / "commits").glob("[0-9]*")), IsTrueLike, query)
        finally:
            query.stop()

    run(batches.checkpoint, [str(n) for n in range(10)], 10)
    # Under an id of its own: Spark may still believe that the query runs which it has stopped.
    other = batches.checkpoint.with_name("other")
    shutil.copytree(batches.checkpoint, other, ignore=shutil.ignore_patterns("metadata", ".metadata*"))
    (other / "metadata").write_text(f'{{"id":"{uuid.uuid4()}"}}')
    run(other, [str(n) for n in range(10, 20)], 20)
    assert set(topics.values(target)) == {str(n).encode() for n in range(20)}
