import functools
import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dirty_equals import IsInt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker_embedded.testing import BrokerProcess
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from tests.support.clients.topics import Topics
from tests.support.spark import queries as spark_queries

pytestmark = pytest.mark.spark

Reader = Callable[..., DataFrame]
Starter = Callable[..., StreamingQuery]

PATIENCE_S = 60


wait_for = functools.partial(spark_queries.wait_for, within_s=PATIENCE_S)
finish = functools.partial(spark_queries.finish, within_s=PATIENCE_S)
failure = functools.partial(spark_queries.failure, within_s=PATIENCE_S)


def rows_of(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def latest_offsets(query: StreamingQuery) -> Any:
    progress = query.lastProgress
    return progress and json.loads(progress.sources[0].latestOffset)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture
def into(servers: str, checkpoint: Path) -> Starter:
    """``into(df, topic)``: write a streaming DataFrame to a topic; Trigger.AvailableNow unless said otherwise."""

    def start(
        df: DataFrame, topic: str, *, mode: str = "append", trigger: dict[str, Any] | None = None
    ) -> StreamingQuery:
        writer = df.writeStream.format("pykafka").outputMode(mode).option("checkpointLocation", str(checkpoint))
        writer = writer.option("kafka.bootstrap.servers", servers).option("topic", topic)
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    return start


def test_append_copies_records_and_continues_from_its_checkpoint(
    read_stream: Reader, into: Starter, topics: Topics, checkpoint: Path
) -> None:
    source, target = topics.create(3), topics.create(3)
    topics.write(
        source,
        ["a", None, "c", "d"],
        keys=["k", "l", None, None],
        partition=[0, 1, 2, 2],
        headers=[[("h", b"1"), ("h", None)], None, None, [("i", b"")]],
    )
    everything = {"subscribe": source, "startingOffsets": "earliest", "includeHeaders": "true"}
    finish(into(read_stream(**everything), target))
    assert topics.read(target) == topics.read(source)
    # The JVM connector's order, with blanks: topics, then partitions, sorted.
    batches = spark_queries.Batches(checkpoint)
    assert json.loads(batches.offsets(0)) == {source: {"0": 1, "1": 1, "2": 2}}
    assert batches.offsets(0).replace(" ", "") == f'{{"{source}":{{"0":1,"1":1,"2":2}}}}'

    topics.write(source, ["e"], partition=1)
    finish(into(read_stream(**everything), target))
    assert topics.read(target) == topics.read(source)
    # Nothing new: no batch, so no spurious offset.
    finish(into(read_stream(**everything), target))
    assert batches.numbers == [0, 1]


@pytest.mark.feature("more.maxPartitions")
def test_max_partitions_copies_all_partitions_in_few_tasks(
    read_stream: Reader, into: Starter, topics: Topics, read: Reader
) -> None:
    source, target = topics.create(8), topics.create(8)
    packed = {"subscribe": source, "startingOffsets": "earliest", "maxPartitions": 2, "maxOffsetsPerTrigger": 40}
    for run in range(2):
        topics.write(source, [f"{run} {n}" for n in range(80)], partition=[n % 8 for n in range(80)])
        df = read_stream(**packed).selectExpr("STRING(spark_partition_id()) AS key", "value", "partition")
        query = into(df, target)
        finish(query)
        assert rows_of(query) == [40, 40]
    written, copied = topics.read(source), topics.read(target)
    assert [record._replace(key=None) for record in copied] == written
    assert {record.key for record in copied} == {b"0", b"1"}


@pytest.mark.feature("more.resumeJvm")
def test_checkpoint_of_the_jvm_connector_is_taken_over(
    read_stream: Reader, into: Starter, topics: Topics, checkpoint: Path
) -> None:
    source, target = topics.create(2), topics.create()
    topics.write(source, ["a", "b", "c", "d", "e"], partition=[0, 0, 1, 0, 1])
    for directory, line in (
        ("offsets", f'{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{{}}}}\n{{"{source}":{{"1":1,"0":2}}}}'),
        ("commits", '{"nextBatchWatermarkMs":0}'),
    ):
        (checkpoint / directory).mkdir(parents=True)
        (checkpoint / directory / "0").write_text(f"v1\n{line}")
    (checkpoint / "metadata").write_text(f'{{"id":"{uuid.uuid4()}"}}')
    finish(into(read_stream(subscribe=source, startingOffsets="earliest", schema="value binary"), target))
    assert topics.values(target) == [b"d", b"e"]


def test_counts_in_complete_mode(read_stream: Reader, into: Starter, topics: Topics) -> None:
    """Every batch appends all counts so far; the last of each key is the one that holds."""
    source, target = topics.create(), topics.create()
    topics.write(source, ["x", "y", "x", "y", "y"])
    df = read_stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=3, schema="value string")
    counts = df.groupBy("value").count().selectExpr("value AS key", "CAST(count AS STRING) AS value")
    finish(into(counts, target, mode="complete"))
    assert sorted((record.key, record.value) for record in topics.read(target)[:2]) == [(b"x", b"2"), (b"y", b"1")]
    assert sorted((record.key, record.value) for record in topics.read(target)[2:]) == [(b"x", b"2"), (b"y", b"3")]


def test_available_now_with_max_offsets_per_trigger(read_stream: Reader, into: Starter, topics: Topics) -> None:
    """15 records in one of five partitions, 5 at a time: three batches, and no fourth."""
    source, target = topics.create(5), topics.create()
    topics.write(source, [f"{n:02}" for n in range(15)], partition=2)
    df = read_stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=5, schema="value binary")
    assert rows_of(finish(into(df, target))) == [5, 5, 5]
    assert topics.values(target) == [b"%02d" % n for n in range(15)]


def test_next_available_now_run_from_latest_continues(read_stream: Reader, into: Starter, topics: Topics) -> None:
    source, target = topics.create(), topics.create()
    topics.write(source, ["old"])
    df = read_stream(subscribe=source, schema="value binary")
    finish(into(df, target))
    topics.write(source, ["new"])
    finish(into(df, target))
    assert topics.values(target) == [b"new"]


def test_trigger_once_ignores_the_limit(read_stream: Reader, into: Starter, topics: Topics) -> None:
    source, target = topics.create(), topics.create()
    topics.write(source, ["a", "b", "c"])
    df = read_stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=1, schema="value binary")
    assert rows_of(finish(into(df, target, trigger={"once": True}))) == [3]


def test_initial_offset_not_durable(spark: SparkSession, read_stream: Reader, topics: Topics, checkpoint: Path) -> None:
    source = topics.create(2)
    topics.write(source, ["before", "before"], partition=[0, 1])
    found = str(checkpoint.with_name("found"))  # with Spark Connect the function runs in another process

    def die(df: DataFrame, batch: int) -> None:
        raise RuntimeError(f"killed in batch {batch}")

    def keep(df: DataFrame, batch: int) -> None:
        df.write.mode("append").parquet(found)

    def start(action: Callable[[DataFrame, int], None]) -> StreamingQuery:
        df = read_stream(subscribe=source, startingOffsets="latest", schema="value binary")
        return df.writeStream.foreachBatch(action).option("checkpointLocation", str(checkpoint)).start()

    assert "killed in batch 0" in failure(lambda: start(die))
    assert (checkpoint / "offsets" / "0").exists()
    assert not (checkpoint / "commits" / "0").exists()
    topics.write(source, ["while it was dead", "and more"], partition=[0, 1])
    query = start(keep)
    try:
        wait_for((checkpoint / "commits" / "1").exists, True, query)
    finally:
        query.stop()
    assert sorted(row.value for row in spark.read.parquet(found).collect()) == [b"and more", b"while it was dead"]


@pytest.mark.feature("more.commitToGroup", "more.startCommitted", "rate.availableNowTail")
def test_progress_is_committed_to_a_group_and_taken_up_from_there(
    read_stream: Reader, into: Starter, topics: Topics, servers: str, checkpoint: Path
) -> None:
    source, target, group = topics.create(2), topics.create(), f"g-{uuid.uuid4()}"
    topics.write(source, ["a", "b", "c"], partition=[0, 0, 1])
    options = {"subscribe": source, "kafka.group.id": group, "commitOffsetsToGroup": "true", "schema": "value binary"}
    limits = {"minOffsetsPerTrigger": 2, "maxTriggerDelay": "1h"}
    finish(into(read_stream(**options, **limits, startingOffsets="earliest"), target))
    cluster = ClusterOffsets(ClientConfig.parse({"bootstrap.servers": servers}))
    partitions = [TopicPartition(source, 0), TopicPartition(source, 1)]
    commits = cluster.committed(group, partitions)
    assert [commits[tp].offset for tp in partitions] == [2, 1]
    assert cluster.list_offsets(dict.fromkeys(partitions, -1)) == {tp: commits[tp].offset for tp in partitions}

    topics.write(source, ["d"], partition=1)
    shutil.rmtree(checkpoint)
    finish(into(read_stream(**options, startingOffsets="committed"), target))
    finish(into(read_stream(**options, **limits, startingOffsets="committed"), target))
    assert topics.values(target) == [b"a", b"b", b"c", b"d"]


@pytest.mark.feature("more.jvmCheckpoint")
def test_first_batch_that_the_jvm_connector_left_unfinished(
    read_stream: Reader, into: Starter, topics: Topics, checkpoint: Path
) -> None:
    """Its end is in the checkpoint, its start where Spark does not show it: refused, until an option says where."""
    source, target = topics.create(2), topics.create()
    topics.write(source, ["a", "b", "c", "d", "e"], partition=[0, 0, 1, 0, 1])
    for name, content in (
        ("metadata", f'{{"id":"{uuid.uuid4()}"}}'),
        ("offsets/0", f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{{}}}}\n{{"{source}":{{"1":1,"0":2}}}}'),
        ("sources/0/0", f'\0v1\n{{"{source}":{{"1":0,"0":1}}}}'),
    ):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(content)
    options = {"subscribe": source, "startingOffsets": "latest", "schema": "value binary"}
    text = failure(lambda: into(read_stream(**options), target))
    assert "[KAFKA_START_OF_FIRST_BATCH_UNKNOWN]" in text
    assert "option 'jvmCheckpoint'" in text
    assert topics.values(target) == []
    finish(into(read_stream(**options, jvmCheckpoint=str(checkpoint)), target))
    assert topics.values(target) == [b"b", b"c", b"d", b"e"]


def test_micro_batches_share_the_producer_ids_of_their_workers(
    spark: SparkSession, read_stream: Reader, checkpoint: Path
) -> None:
    """Brokers keep every producer id for a day: there is one for each Python worker, not for each task."""
    batches, tasks = 12, 2
    with (
        BrokerProcess(topics={"source": tasks, "target": 4}, control=True) as broker,
        Topics(broker.bootstrap_servers) as topics,
    ):
        for partition in range(tasks):
            topics.write("source", [f"{partition}-{number}" for number in range(batches)], partition=partition)
        broker.forget_requests()
        servers = {"kafka__bootstrap__servers": broker.bootstrap_servers}
        df = read_stream(subscribe="source", startingOffsets="earliest", maxOffsetsPerTrigger=tasks, **servers)
        query = (
            df.writeStream.format("pykafka")
            .option("checkpointLocation", str(checkpoint))
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("topic", "target")
            .trigger(availableNow=True)
            .start()
        )
        finish(query)
        assert len(rows_of(query)) == batches
        assert set(topics.values("target")) == set(topics.values("source"))
        asked = broker.request_counts()["InitProducerId"]
        # A worker that is slow to report that it is free makes Spark start another one.
        assert 1 <= asked <= batches * tasks // 2


def test_running_query_reads_new_records_and_new_partitions(
    spark: SparkSession, read_stream: Reader, topics: Topics
) -> None:
    prefix = topics.create(prefix="grow")
    df = read_stream(subscribePattern=f"^{prefix}", startingOffsets="latest", schema="value string")
    query = df.writeStream.format("memory").queryName("grown").start()
    try:
        wait_for(lambda: len(query.recentProgress), IsInt(gt=0), query)
        topics.write(prefix, ["a"])
        wait_for(lambda: spark.table("grown").count(), IsInt(ge=1), query)
        topics.add_partitions(prefix, 3)
        topics.write(prefix, ["b", "c"], partition=[1, 2])
        topics.create(name=f"{prefix}-later")
        topics.write(f"{prefix}-later", ["d"])
        wait_for(lambda: spark.table("grown").count(), IsInt(ge=4), query)
        assert sorted(row.value for row in spark.table("grown").collect()) == ["a", "b", "c", "d"]
        # The sink has a batch's rows before there is progress of it.
        ends = {prefix: {"0": 1, "1": 1, "2": 1}, f"{prefix}-later": {"0": 1}}
        wait_for(lambda: latest_offsets(query), ends, query)
    finally:
        query.stop()


def test_recreated_topic_is_data_loss(read_stream: Reader, into: Starter, topics: Topics) -> None:
    source, target = topics.create(), topics.create()
    topics.write(source, ["a", "b"])
    options = {
        "subscribe": source,
        "startingOffsets": "earliest",
        "fetchOffset.retryIntervalMs": "20",
        "schema": "value binary",
    }
    finish(into(read_stream(**options), target))
    topics.delete(source)
    topics.create(name=source)
    topics.write(source, ["c"])
    text = failure(lambda: into(read_stream(**options), target))
    assert "[KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED]" in text
    assert "was changed from 2 to 1" in text
    assert "'failOnDataLoss' to false" in text
    finish(into(read_stream(**options, failOnDataLoss="false"), target))
    assert topics.values(target) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            {"subscribe": "no-such-topic", "fetchOffset.retryIntervalMs": "10"},
            "these topics of option subscribe do not exist in the cluster at ",
        ),
        ({"subscribe": "t", "endingOffsets": "latest"}, "option 'endingOffsets': is valid only in a batch query"),
        (
            {"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "500"},
            "for Metadata (127.0.0.1:1: connection refused); check kafka.bootstrap.servers",
        ),
    ],
)
def test_streams_that_cannot_start(read_stream: Reader, into: Starter, options: dict[str, str], complaint: str) -> None:
    assert complaint in failure(lambda: into(read_stream(**options), "t"))


def test_broker_that_dies_fails_the_query_within_its_deadline(
    spark: SparkSession, read_stream: Reader, checkpoint: Path
) -> None:
    with BrokerProcess(topics={"t": 1}) as broker:
        df = read_stream(
            subscribe="t",
            kafka__bootstrap__servers=broker.bootstrap_servers,
            kafka__default__api__timeout__ms=1000,
            kafka__request__timeout__ms=1000,
        )
        query = df.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        wait_for(lambda: len(query.recentProgress), IsInt(gt=0), query)
        broker.kill()
        text = failure(lambda: query)
        assert broker.bootstrap_servers in text
        assert "no broker could be reached" in text


@pytest.mark.feature("loss.otherTopics")
def test_checkpoint_of_another_topic_is_refused_and_stays_usable(
    read_stream: Reader, into: Starter, topics: Topics, checkpoint: Path
) -> None:
    source, other, target = topics.create(), topics.create(), topics.create()
    topics.write(source, ["a"])
    topics.write(other, ["x"])

    def stream(topic: str) -> DataFrame:
        return read_stream(subscribe=topic, startingOffsets="earliest")

    finish(into(stream(source), target))
    text = failure(lambda: into(stream(other), target))
    assert f"offsets of topic {source}, and option subscribe={other} does not name any of them" in text
    topics.write(source, ["b"])
    finish(into(stream(source), target))
    assert topics.values(target) == [b"a", b"b"]

    # A batch that another run has planned for the other topic; and the repair that the error describes.
    offsets = checkpoint / "offsets"
    lines = (offsets / "1").read_text().splitlines()
    (offsets / "2").write_text("\n".join([*lines[:-1], f'{{"{other}": {{"0": 1}}}}']))
    text = failure(lambda: into(stream(source), target))
    assert f"planned by an earlier run for {other}-0, without {source}-0" in text
    (offsets / "2").unlink()
    (offsets / ".2.crc").unlink(missing_ok=True)
    topics.write(source, ["c"])
    finish(into(stream(source), target))
    assert topics.values(target) == [b"a", b"b", b"c"]
