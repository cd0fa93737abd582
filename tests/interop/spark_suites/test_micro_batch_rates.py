"""KafkaMicroBatchSourceSuite: how much a micro-batch holds, and where a query starts and ends."""

import json
from typing import Any

import pytest
from dirty_equals import Contains
from pyspark.sql import DataFrame

from tests.support.clients.topics import Topics
from tests.support.spark.queries import ONCE, Batches, KafkaFrames, Looks, failure, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.spark]

FAST_RETRY: dict[str, Any] = {"fetchOffset__retryIntervalMs": 20}


def text(*ranges: range) -> list[str]:
    """The numbers of some ranges, in the order of their text."""
    return sorted(str(n) for each in ranges for n in each)


def write(topics: Topics, topic: str, numbers: range, partition: int) -> None:
    topics.write(topic, [str(n) for n in numbers], partition=partition)


@pytest.fixture
def uneven(topics: Topics) -> str:
    """100 to 200 in partition 0, 10 to 20 in partition 1, 1 in partition 2."""
    topic = topics.create(3)
    write(topics, topic, range(100, 201), 0)
    write(topics, topic, range(10, 21), 1)
    write(topics, topic, range(1, 2), 2)
    return topic


@pytest.mark.feature("source.maxOffsetsPerTrigger", "rate.proportional", "better.exactLimits", "rate.once")
def test_max_offsets_per_trigger(kafka: KafkaFrames, topics: Topics, batches: Batches, uneven: str) -> None:
    """A batch per run, four of them; then Trigger.Once, which knows no limit."""
    df = kafka.stream(subscribe=uneven, maxOffsetsPerTrigger=10, startingOffsets="earliest")
    expected = [
        text(range(1, 2), range(10, 11), range(100, 108)),
        text(range(11, 12), range(108, 117)),
        text(range(12, 13), range(117, 126)),
        text(range(13, 14), range(126, 135)),
    ]
    for number, rows in enumerate(expected):
        with batches.running(df, processingTime="1 hour") as query:
            wait_for(lambda: batches.committed, Contains(number), query)
        assert sorted(batches.found[number]) == rows
    batches.finish(df, **ONCE)
    assert batches.rows == text(range(1, 2), range(10, 21), range(100, 201))
    write(topics, uneven, range(1000, 1011), 0)
    (rest,) = batches.finish(df, **ONCE)
    assert rest == [str(n) for n in range(1000, 1011)]


@pytest.mark.feature("source.maxOffsetsPerTrigger")
def test_max_offsets_per_trigger_does_not_overflow(kafka: KafkaFrames, topics: Topics, batches: Batches) -> None:
    """SPARK-26718."""
    topic = topics.create()
    write(topics, topic, range(25, 30), 0)
    df = kafka.stream(subscribe=topic, maxOffsetsPerTrigger=2**63 - 1, startingOffsets=json.dumps({topic: {"0": 5}}))
    write(topics, topic, range(30, 35), 0)
    batches.finish(df)
    assert batches.rows == text(range(30, 35))


@pytest.mark.feature("rate.availableNow", "better.noTail")
def test_trigger_available_now(kafka: KafkaFrames, topics: Topics, batches: Batches) -> None:
    """15 records in one of five partitions, 5 at a time: three batches. Later ones are for the next run."""
    topic = topics.create(5)
    write(topics, topic, range(15), 3)
    df = kafka.stream(subscribe=topic, maxOffsetsPerTrigger=5, startingOffsets="earliest")
    batches.finish(df)
    assert [batches.found[number] for number in (0, 1, 2)] == [[str(n + 5 * k) for n in range(5)] for k in range(3)]
    assert batches.numbers == [0, 1, 2]
    write(topics, topic, range(15, 18), 3)
    assert batches.finish(df) == [["15", "16", "17"]]


@pytest.mark.feature("rate.availableNow")
@pytest.mark.parametrize(
    ("partitions", "numbers", "code"),
    [
        (3, range(15), "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW"),
        # The JVM connector notices it once the end is after the new topic's; here the topic id shows it immediately.
        (5, range(10), "TOPIC_RECREATED"),
    ],
)
@pytest.mark.parametrize("fail", ["true", "false"])
def test_trigger_available_now_for_what_is_no_longer_available(
    kafka: KafkaFrames, topics: Topics, batches: Batches, partitions: int, numbers: range, code: str, fail: str
) -> None:
    """The topic is made again during the first batch, with fewer partitions or with less in them."""
    topic = topics.create(5)
    write(topics, topic, range(15), 4 if partitions == 3 else 0)
    options: dict[str, Any] = {
        "subscribe": topic,
        "maxOffsetsPerTrigger": 5,
        "startingOffsets": "earliest",
        "failOnDataLoss": fail,
    }
    df = kafka.stream(**options, **FAST_RETRY)

    def replace_topic(rows: DataFrame, batch: int) -> None:
        if batch == 0:
            rows.collect()
            topics.delete(topic)
            topics.create(partitions, name=topic)
            write(topics, topic, numbers, 0)

    writer = df.writeStream.foreachBatch(replace_topic).option("checkpointLocation", str(batches.checkpoint))
    assert f"KAFKA_DATA_LOSS.{code}" in failure(lambda: writer.trigger(availableNow=True).start())


@pytest.mark.feature("rate.availableNow")
def test_available_now_replays_a_failed_batch_after_partitions_were_added(
    kafka: KafkaFrames, topics: Topics, batches: Batches
) -> None:
    """SPARK-53560: the replay fails as the batch did, not in planning; once it can succeed the query continues."""
    topic = topics.create()
    write(topics, topic, range(1, 8), 0)
    df = kafka.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=7)
    broken = df.selectExpr("IF(value = '7', raise_error('seven'), value) AS value")
    assert "seven" in failure(lambda: batches.start(broken, availableNow=True))
    topics.add_partitions(topic, 3)
    write(topics, topic, range(8, 10), 2)
    assert "seven" in failure(lambda: batches.start(broken, availableNow=True))
    batches.finish(df)
    assert batches.rows == text(range(1, 10))


@pytest.mark.feature("source.startingOffsets", "offsets.special", "offsets.initial")
def test_starting_offset_is_specific(kafka: KafkaFrames, topics: Topics, batches: Batches) -> None:
    """{0: earliest, 1: latest, 2: 0, 3: 1, 4: 2} over three records each; the same again in a second run."""
    topic = topics.create(5)
    for partition, numbers in enumerate((range(-22, -19), range(-3, 0), range(3), range(10, 13), range(20, 23))):
        write(topics, topic, numbers, partition)
    start = json.dumps({topic: {"0": -2, "1": -1, "2": 0, "3": 1, "4": 2}})
    df = kafka.stream(subscribe=topic, startingOffsets=start)
    batches.finish(df)
    expected = [range(-22, -19), range(3), range(11, 13), range(22, 23)]
    assert batches.rows == text(*expected)
    write(topics, topic, range(30, 32), 1)
    write(topics, topic, range(32, 35), 4)
    batches.finish(df)
    assert batches.rows == text(*expected, range(30, 35))


@pytest.mark.feature("source.startingTimestamp", "source.startingOffsetsByTimestamp")
@pytest.mark.feature("source.startingOffsetsByTimestampStrategy")
def test_starting_offset_is_by_timestamp(kafka: KafkaFrames, topics: Topics, batches: Batches) -> None:
    """One partition has nothing so late: an error, or with strategy ``latest`` whatever comes."""
    topic = topics.create(2)
    topics.write(topic, ["1", "2", "3"], partition=0, timestamps=[1_000, 2_000, 3_000])
    topics.write(topic, ["10"], partition=1, timestamps=[1_000])
    strict = kafka.stream(subscribe=topic, startingTimestamp=2_000, **FAST_RETRY)
    assert f"{topic}-1 has no record with timestamp 2000 or later" in failure(lambda: batches.start(strict))
    by_partition = json.dumps({topic: {"0": 3_000, "1": 2_000}})
    lenient = kafka.stream(
        subscribe=topic, startingOffsetsByTimestamp=by_partition, startingOffsetsByTimestampStrategy="latest"
    )
    batches.finish(lenient)
    topics.write(topic, ["11"], partition=1, timestamps=[1_000])
    batches.finish(lenient)
    assert batches.rows == ["11", "3"]


@pytest.mark.feature("source.minPartitions", "split.minPartitions")
@pytest.mark.parametrize(("minimum", "tasks"), [("1", 1), ("4", 4)])
def test_min_partitions(kafka: KafkaFrames, topics: Topics, batches: Batches, minimum: str, tasks: int) -> None:
    """SPARK-30656, and "minPartitions is supported"."""
    topic = topics.create()
    write(topics, topic, range(100), 0)
    df = kafka.stream(subscribe=topic, startingOffsets="earliest", minPartitions=minimum)
    batches.finish(df.selectExpr("spark_partition_id() AS task"))
    assert len(set(batches.rows)) == tasks
    assert len(batches.rows) == 100


@pytest.mark.feature("source.minOffsetsPerTrigger", "source.maxTriggerDelay", "rate.minOrDelay", "rate.once")
@pytest.mark.feature("rate.availableNowTail", "better.noTail")
def test_min_offsets_per_trigger(kafka: KafkaFrames, topics: Topics, batches: Batches, looks: Looks) -> None:
    """The first batch does not wait; Trigger.Once and Trigger.AvailableNow never do."""
    topic = topics.create(3)
    for partition, size in enumerate((10, 5, 1)):
        write(topics, topic, range(size), partition)
    df = kafka.stream(
        subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=15, maxTriggerDelay="1h", **FAST_RETRY
    )
    with batches.running(df) as query:
        wait_for(lambda: batches.sizes, [16], query)
        write(topics, topic, range(6), 0)
        looks.wait(query)
        assert batches.sizes == [16]
        # 7 wait then, and with a batch of 11 it is 18 at once: never a number between.
        topics.write(topic, ["11"], partition=2)
        topics.write(topic, ["11"] * 11, partition=1)
        wait_for(lambda: len(batches.committed), 2, query)
        assert batches.sizes == [16, 18]
    write(topics, topic, range(10), 0)
    batches.finish(df, **ONCE)
    write(topics, topic, range(3), 0)
    batches.finish(df)
    assert batches.sizes == [16, 18, 10, 3]
    impatient = kafka.stream(
        subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=1000, maxTriggerDelay="1s", **FAST_RETRY
    )
    other = Batches(batches.checkpoint.with_name("impatient"))
    with other.running(impatient) as query:
        wait_for(lambda: sum(other.sizes), 47, query)
        write(topics, topic, range(2), 0)
        wait_for(lambda: sum(other.sizes), 49, query)
