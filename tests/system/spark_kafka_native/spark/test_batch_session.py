import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from tests.support.clients.topics import Topics
from tests.support.spark.queries import error_text, values

pytestmark = pytest.mark.spark

Reader = Callable[..., DataFrame]


def tasks(df: DataFrame) -> int:
    return df.select(F.spark_partition_id()).distinct().count()


# --- reading


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.create()


def test_source_is_found_without_registering_it(spark: SparkSession, topics: Topics, servers: str, topic: str) -> None:
    topics.write(topic, ["a"])
    reader = spark.newSession().read.format("pykafka").option("subscribe", topic)
    assert reader.option("kafka.bootstrap.servers", servers).load().count() == 1


def test_all_columns(read: Reader, topics: Topics, topic: str) -> None:
    topics.write(topic, ["a", None, ""], keys=["k", None, ""], timestamps=[1_700_000_000_123, 0, 1])
    df = read(subscribe=topic).withColumn("timestamp", F.expr("unix_millis(timestamp)"))
    rows = df.orderBy("offset").collect()
    assert rows[0].asDict() == {
        "key": b"k",
        "value": b"a",
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_123,
        "timestampType": 0,
    }
    assert [(row.key, row.value) for row in rows[1:]] == [(None, None), (b"", b"")]


def test_headers(read: Reader, topics: Topics, topic: str) -> None:
    topics.write(topic, ["1", "2", "3"], headers=[None, [("a", b"b"), ("c", b"d")], [("e", b"f"), ("e", None)]])
    rows = read(subscribe=topic, includeHeaders="true").orderBy("offset").collect()
    found = [row.headers and [(header.key, header.value) for header in row.headers] for row in rows]
    assert found == [None, [("a", b"b"), ("c", b"d")], [("e", b"f"), ("e", None)]]


def test_frozen_batch_partitions_see_newly_produced_rows(read: Reader, topics: Topics) -> None:
    """Spark asks for the partitions once per load(); two actions on one DataFrame still see what came between."""
    topic = topics.create(3)
    topics.write(topic, ["a", "b"], partition=[0, 1])
    whole, split = read(subscribe=topic), read(subscribe=topic, minPartitions=5)
    assert values(whole) == values(split) == ["a", "b"]
    topics.write(topic, ["c", "d", "e"], partition=[0, 1, 2])
    assert values(whole) == values(split) == ["a", "b", "c", "d", "e"]
    assert values(whole.union(whole)) == sorted(["a", "b", "c", "d", "e"] * 2)


def test_explicit_offsets(read: Reader, topics: Topics) -> None:
    topic = topics.create(3)
    for partition in range(3):
        topics.write(topic, [f"{partition}{n}" for n in range(4)], partition=partition)
    df = read(
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": -2, "1": 2, "2": 0}}),
        endingOffsets=json.dumps({topic: {"0": 1, "1": -1, "2": 0}}),
    )
    assert values(df) == ["00", "12", "13"]
    topics.write(topic, ["14"], partition=1)
    assert values(df) == ["00", "12", "13", "14"]


def test_offsets_by_timestamp(read: Reader, topics: Topics, topic: str) -> None:
    now = int(time.time() * 1000)
    topics.write(topic, ["a", "b", "c"], timestamps=[now - 3000, now - 2000, now - 1000])
    assert values(read(subscribe=topic, startingTimestamp=now - 2500, endingTimestamp=now - 1000)) == ["b"]
    assert values(read(subscribe=topic, startingTimestamp=now - 2500, endingTimestamp=now)) == ["b", "c"]
    too_late = read(subscribe=topic, startingTimestamp=now + 10_000)
    assert f"{topic}-0 has no record with timestamp {now + 10_000} or later" in error_text(too_late.count)


def test_min_partitions(read: Reader, topics: Topics) -> None:
    topic = topics.create(2)
    topics.write(topic, [str(n) for n in range(100)], partition=0)
    topics.write(topic, ["x"], partition=1)
    df = read(subscribe=topic, minPartitions=6)
    assert tasks(df) >= 6
    assert values(df) == sorted([*(str(n) for n in range(100)), "x"])
    assert tasks(read(subscribe=topic)) == 2


@pytest.mark.feature("more.maxPartitions")
def test_max_partitions(read: Reader, topics: Topics) -> None:
    topic = topics.create(9)
    topics.write(topic, [str(n) for n in range(90)], partition=[n % 9 for n in range(90)])
    packed = read(subscribe=topic, maxPartitions=3)
    assert tasks(packed) == 3
    columns = ("topic", "partition", "offset", "value")
    expected = read(subscribe=topic).select(*columns).orderBy(*columns).collect()
    assert packed.select(*columns).orderBy(*columns).collect() == expected
    topics.write(topic, ["late"], partition=[4])
    assert values(packed) == sorted([*(str(n) for n in range(90)), "late"])
    text = error_text(lambda: read(subscribe=topic, minPartitions=4, maxPartitions=3).schema)
    assert "option 'minPartitions': 4 is greater than maxPartitions, 3" in text


def test_assign_and_pattern(read: Reader, topics: Topics) -> None:
    first, second = topics.create(2, prefix="assigned"), topics.create(prefix="assigned")
    topics.write(first, ["a", "b"], partition=[0, 1])
    topics.write(second, ["c"])
    assert values(read(assign=json.dumps({first: [1, 9], second: [0]}))) == ["b", "c"]
    assert values(read(subscribePattern=f"^({first}|{second})$")) == ["a", "b", "c"]
    assert values(read(subscribe=f"{first}, {second}")) == ["a", "b", "c"]


def test_empty_partition_list(read: Reader, topic: str) -> None:
    assert read(assign=json.dumps({topic: [5]})).count() == 0
    assert read(subscribePattern="^no-topic-is-called-this$").count() == 0


def test_user_schema_reads_just_those_columns(read: Reader, topics: Topics, topic: str) -> None:
    topics.write(topic, ["a", "ü"], keys=["k", "l"])
    df = read(subscribe=topic, schema="value string, partition int")
    assert df.columns == ["value", "partition"]
    assert sorted(map(tuple, df.collect())) == [("a", 0), ("ü", 0)]
    assert read(subscribe=topic, schema="topic string").distinct().collect() == [(topic,)]
    assert "column 'valeu' is not a column of the source" in error_text(
        read(subscribe=topic, schema="valeu binary").count
    )


@pytest.mark.parametrize("push_down", ["false", "true"])
def test_filters_whether_spark_pushes_them_or_not(
    spark: SparkSession, read: Reader, topics: Topics, push_down: str
) -> None:
    topic = topics.create(2)
    topics.write(topic, ["a", "b"], partition=[0, 1])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", push_down)
    try:
        assert values(read(subscribe=topic).where("partition = 1")) == ["b"]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_temporary_view_in_sql(spark: SparkSession, topics: Topics, servers: str, topic: str) -> None:
    topics.write(topic, ["a", "b"])
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW events USING pykafka "
        f"OPTIONS (`kafka.bootstrap.servers` '{servers}', subscribe '{topic}')"
    )
    assert spark.sql("SELECT count(*) FROM events").first() == (2,)


def test_many_records_in_large_batches(spark: SparkSession, read: Reader, topics: Topics, servers: str) -> None:
    topic = topics.create(3)
    (
        spark.range(150_000)
        .selectExpr("CAST(id AS STRING) AS key", "repeat('x', 50) AS value")
        .write.format("pykafka")
        .mode("append")
        .options(**{"kafka.bootstrap.servers": servers, "topic": topic, "kafka.compression.type": "lz4"})
        .save()
    )
    summary = read(subscribe=topic).selectExpr(
        "count(*)", "count(DISTINCT key)", "sum(length(value))", "count(DISTINCT partition)"
    )
    assert summary.first() == (150_000, 150_000, 50 * 150_000, 3)


# --- errors of reading


def test_contradictory_options_fail_at_load(read: Reader) -> None:
    text = error_text(lambda: read(subscribe="t", assign='{"t":[0]}').schema)
    assert "option 'subscribe': contradicts 'assign'; give only one of them" in text


def test_misspelled_option_fails_at_load(read: Reader) -> None:
    with pytest.raises(AnalysisException, match="did you mean 'startingOffsets'"):
        read(subscribe="t", startingOffset="earliest").schema  # noqa: B018 -- where Spark Connect loads


def test_unknown_topic_is_named(read: Reader, servers: str) -> None:
    text = error_text(read(subscribe="no-such-topic", fetchOffset__retryIntervalMs=10).count)
    assert f"these topics of option subscribe do not exist in the cluster at {servers}: no-such-topic" in text


def test_unreachable_broker_is_named_within_its_deadline(read: Reader) -> None:
    options: dict[str, Any] = {"kafka__bootstrap__servers": "127.0.0.1:1", "kafka__default__api__timeout__ms": 1000}
    text = error_text(read(subscribe="t", **options).count)
    assert "127.0.0.1:1" in text


def test_deleted_offsets(read: Reader, topics: Topics, topic: str) -> None:
    topics.write(topic, ["a", "b"])
    limits = {"subscribe": topic, "endingOffsets": json.dumps({topic: {"0": 9}})}
    assert "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE]" in error_text(read(**limits).count)
    assert values(read(**limits, failOnDataLoss="false")) == ["a", "b"]


# --- writing


@pytest.fixture
def write(spark: SparkSession, servers: str) -> Callable[..., None]:
    """``write("SELECT ...", topic="t")``: append the rows of a query."""

    def run(query: str, *, mode: str = "append", **options: str) -> None:
        named = {"kafka.bootstrap.servers": servers} | {name.replace("__", "."): text for name, text in options.items()}
        spark.sql(query).write.format("pykafka").mode(mode).options(**named).save()

    return run


def test_keys_values_headers_and_nulls(write: Callable[..., None], topics: Topics, topic: str) -> None:
    write(
        "SELECT CAST(NULL AS STRING) AS key, 'a' AS value, "
        "array(named_struct('key', 'h', 'value', X'01'), named_struct('key', 'h', 'value', NULL)) AS headers "
        "UNION ALL SELECT 'k', NULL, NULL UNION ALL SELECT 'l', '', array()",
        topic=topic,
    )
    found = sorted(((r.key, r.value, r.headers) for r in topics.read(topic)), key=lambda record: record[0] or b"")
    assert found == [(None, b"a", [("h", b"\x01"), ("h", None)]), (b"k", None, None), (b"l", b"", None)]


def test_topic_column_and_topic_option(write: Callable[..., None], topics: Topics) -> None:
    first, second = topics.create(), topics.create()
    query = f"SELECT explode(array('{first}', '{second}', '{first}')) AS topic, X'61' AS value"
    write(query)
    assert (topics.values(first), topics.values(second)) == ([b"a", b"a"], [b"a"])
    write(query, topic=second)
    assert (topics.values(first), topics.values(second)) == ([b"a", b"a"], [b"a"] * 4)


def test_partition_column_wins_and_null_leaves_it_to_the_key(write: Callable[..., None], topics: Topics) -> None:
    topic = topics.create(4)
    write("SELECT CAST(id AS STRING) AS key, 'd' AS value FROM range(5)", topic=topic)
    by_key = {record.key: record.partition for record in topics.read(topic)}
    # As Java's murmur2 puts them.
    assert len(set(by_key.values())) > 1
    write("SELECT CAST(id AS STRING) AS key, 'n' AS value, IF(id < 2, 2, NULL) AS partition FROM range(5)", topic=topic)
    given = {record.key: record.partition for record in topics.read(topic) if record.value == b"n"}
    assert given == by_key | {b"0": 2, b"1": 2}


def test_rows_of_other_columns_are_not_written(write: Callable[..., None], read: Reader, topics: Topics) -> None:
    source, target = topics.create(), topics.create()
    topics.write(source, ["a", "b"], keys=["k", None])
    read(subscribe=source).createOrReplaceTempView("everything")
    write("SELECT * FROM everything", topic=target)
    assert [(record.key, record.value) for record in topics.read(target)] == [(b"k", b"a"), (None, b"b")]


@pytest.mark.parametrize(
    ("query", "options", "complaint"),
    [
        ("SELECT 'a' AS key", {"topic": "t"}, "column 'value' is required"),
        ("SELECT 1 AS value", {"topic": "t"}, "column 'value' must be a string or binary, not INT"),
        ("SELECT 'a' AS value", {}, "set the option 'topic', or give rows a column 'topic'"),
        ("SELECT 'a' AS value", {"topic": "t", "subscribe": "t"}, "belongs to the source, not to the sink"),
        ("SELECT 'a' AS value", {"topic": "t", "kafka__key__serializer": "X"}, "kafka.key.serializer"),
    ],
)
def test_bad_writes_fail_before_any_task(
    write: Callable[..., None], query: str, options: dict[str, str], complaint: str
) -> None:
    assert complaint in error_text(lambda: write(query, **options))


def test_null_topic(write: Callable[..., None]) -> None:
    text = error_text(lambda: write("SELECT 'a' AS value, CAST(NULL AS STRING) AS topic"))
    assert "[KAFKA_NULL_TOPIC_IN_DATA]" in text


def test_save_modes(write: Callable[..., None], topics: Topics, topic: str) -> None:
    text = error_text(lambda: write("SELECT 'a' AS value", mode="overwrite", topic=topic))
    assert "overwrite is not possible: a topic is only ever appended to; use mode('append')" in text
    text = error_text(lambda: write("SELECT 'a' AS value", mode="errorifexists", topic=topic))
    assert re.search("UNSUPPORTED_(DATA_SOURCE_SAVE_MODE|OPERATION)", text)  # the latter from Spark Connect
    assert topics.values(topic) == []


def test_partition_that_does_not_exist(write: Callable[..., None], topic: str) -> None:
    with pytest.raises(PythonException, match=f"{topic}-7 does not exist") as caught:
        write("SELECT 'a' AS value, 7 AS partition", topic=topic)
    assert "It is from column 'partition'" in str(caught.value)


@pytest.mark.feature("more.bindOffsets")
@pytest.mark.parametrize("schema", [None, "topic string, partition int, offset bigint"])
def test_bound_offsets_are_the_same_in_every_action(
    spark: SparkSession, read: Reader, topics: Topics, schema: str | None
) -> None:
    topic = topics.create(2)
    topics.write(topic, ["a", "b", "c"])
    bound, filtered = (
        read(subscribe=topic, schema=schema, bindOffsets="load", filterPushdown="true") for _ in range(2)
    )
    unbound = read(subscribe=topic, schema=schema)
    if schema is None:
        assert bound.schema == filtered.schema  # where Spark Connect loads
    else:
        assert bound.count() == filtered.count() == 3, "with a schema given, Spark makes the source at its first use"
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        for _ in range(2):
            topics.write(topic, ["d", "e"], partition=1)
            assert bound.count() == 3
            assert bound.join(bound.withColumnRenamed("offset", "other"), ["topic", "partition"]).count() == 9
            assert filtered.where("offset >= 1").count() == 2
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert unbound.count() == 7


@pytest.mark.feature("more.bindOffsets")
def test_bound_offsets_after_many_other_plans(spark: SparkSession, read: Reader, topics: Topics, topic: str) -> None:
    """A Connect server forgets the plan, and binds again; explicit offsets stay."""
    topics.write(topic, ["a", "b", "c"])
    bound = read(subscribe=topic, bindOffsets="load")
    starting, ending = (json.dumps({topic: {"0": offset}}) for offset in (0, 3))
    explicit = read(subscribe=topic, startingOffsets=starting, endingOffsets=ending)
    assert (bound.count(), explicit.count()) == (3, 3)
    topics.write(topic, ["d"])
    for number in range(40):
        assert spark.range(number).schema.names == ["id"]
    assert bound.count() == (4 if is_remote() else 3)
    assert explicit.count() == 3


@pytest.mark.feature("more.bindOffsets")
def test_deleted_records_of_bound_offsets_are_a_loss(read: Reader, topics: Topics, topic: str) -> None:
    """Without the option, a batch from the earliest record on misses nothing."""
    topics.write(topic, ["a", "b", "c"])
    bound, unbound = read(subscribe=topic, bindOffsets="load"), read(subscribe=topic)
    accepting = read(subscribe=topic, bindOffsets="load", failOnDataLoss="false")
    assert bound.schema == accepting.schema  # where Spark Connect loads
    topics.delete_before(topic, 2)
    assert (unbound.count(), accepting.count()) == (1, 1)
    with pytest.raises(PySparkException, match=rf"offsets \[0, 2\) of {topic}-0 were deleted before they were read"):
        bound.count()


@pytest.mark.feature("better.recreated")
@pytest.mark.parametrize("options", [{"bindOffsets": "load"}, {"endingOffsets": "latest-1"}])
def test_topic_recreated_after_the_plan_is_a_loss(
    read: Reader, topics: Topics, options: dict[str, str], topic: str
) -> None:
    topics.write(topic, ["a", "b", "c"])
    df = read(subscribe=topic, **options)
    assert df.count() > 0
    topics.delete(topic)
    topics.create(name=topic)
    topics.write(topic, ["x", "y", "z"])
    with pytest.raises(PySparkException, match=r"KAFKA_DATA_LOSS\.TOPIC_RECREATED"):
        df.count()
