"""KafkaMicroBatchSourceSuite: queries over topics and partitions that come, go and come back."""

import functools
import json
import random
import time
from typing import Any

import pytest
from dirty_equals import Contains, IsInt, IsTrueLike
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.support.clients.topics import Topics
from tests.support.spark.queries import Batches, KafkaFrames, Looks, failure, unique, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.spark]

FAST_RETRY: dict[str, Any] = {"fetchOffset__retryIntervalMs": 20}
STRESS_S = 10.0


@pytest.mark.feature("source.assign", "source.subscribe", "source.subscribePattern", "offsets.newPartitions")
@pytest.mark.parametrize(("start", "fail"), [("latest", "true"), ("earliest", "false")])
def test_from_offsets_over_restarts_and_new_partitions(
    kafka: KafkaFrames, topics: Topics, batches: Batches, start: str, fail: str
) -> None:
    """The three ways to name a topic, in one query of three sources. ``assign`` does not see added partitions."""
    topic = topics.create(5, prefix="restarted")
    ways = {
        "assigned": {"assign": json.dumps({topic: [0, 1, 2, 3, 4]})},
        "subscribed": {"subscribe": topic},
        "matched": {"subscribePattern": f"{topic[:-3]}.*"},
    }
    frames = [
        kafka.stream(**options, startingOffsets=start, failOnDataLoss=fail).select(
            F.concat(F.lit(f"{way} "), F.col("value").cast("int") + 1)
        )
        for way, options in ways.items()
    ]
    df = functools.reduce(DataFrame.union, frames)
    expected: list[str] = []

    def write(numbers: range, partitions: int = 5) -> None:
        topics.write(topic, [str(n) for n in numbers], partition=[n % partitions for n in numbers])
        expected.extend(f"{way} {n + 1}" for way in ways for n in numbers if way != "assigned" or n % partitions < 5)

    write(range(-5, 0))
    if start == "latest":
        expected.clear()
    with batches.running(df) as query:
        wait_for(lambda: batches.committed, IsTrueLike, query)
        write(range(1, 4))
        batches.wait_for(expected, query)
    write(range(4, 7))
    with batches.running(df) as query:
        batches.wait_for(expected, query)
        write(range(7, 9))
        batches.wait_for(expected, query)
        topics.add_partitions(topic, 10)
        write(range(9, 17), partitions=10)
        batches.wait_for(expected, query)


@pytest.mark.feature("loss.deleted", "source.subscribePattern", "offsets.empty")
def test_subscribing_topic_by_pattern_with_topic_deletions(
    kafka: KafkaFrames, topics: Topics, batches: Batches, looks: Looks
) -> None:
    """Also SPARK-41375: while there is no topic at all, nothing is written down that would read all again."""
    prefix = unique("coming")
    df = kafka.stream(subscribePattern=f"{prefix}-.*", startingOffsets="latest", failOnDataLoss="false", **FAST_RETRY)
    topics.create(2, name=f"{prefix}-first")
    with batches.running(df) as query:
        wait_for(lambda: batches.committed, IsTrueLike, query)
        topics.write(f"{prefix}-first", ["1", "2"], partition=[0, 1])
        batches.wait_for(["1", "2"], query)
        topics.delete(f"{prefix}-first")
        looks.wait(query)  # at a cluster without a topic
        topics.create(2, name=f"{prefix}-second")
        topics.write(f"{prefix}-second", ["3", "4"], partition=[0, 1])
        batches.wait_for(["1", "2", "3", "4"], query)
    assert all("{}" not in batches.offsets(number) for number in batches.numbers)


@pytest.mark.feature("loss.changed", "offsets.backwards")
def test_subscribe_topic_by_pattern_with_topic_recreation_between_batches(
    kafka: KafkaFrames, topics: Topics, batches: Batches
) -> None:
    prefix = unique("again")
    topic, other = f"{prefix}-topic", f"{prefix}-other"
    topics.create(name=topic)
    topics.create(name=other)
    topics.write(topic, ["1", "3"])
    topics.write(other, ["2", "4"])
    options: dict[str, Any] = {"subscribePattern": f"{prefix}-.*", "startingOffsets": "earliest", **FAST_RETRY}
    batches.finish(kafka.stream(**options))
    topics.delete(topic)
    topics.create(name=topic)
    topics.write(topic, ["6"])
    text = failure(lambda: batches.start(kafka.stream(**options)))
    assert "[KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED]" in text
    assert "was changed from 2 to 1" in text
    assert f"{topic}-0" in text
    topics.write(other, ["8"])
    batches.finish(kafka.stream(**options, failOnDataLoss="false"))
    assert batches.rows == ["1", "2", "3", "4", "8"]


@pytest.mark.feature("loss.deleted")
def test_delete_a_topic_when_a_job_is_running(
    kafka: KafkaFrames, topics: Topics, batches: Batches, looks: Looks
) -> None:
    """With failOnDataLoss=false the query continues; with true the error names what is missing."""
    topic = topics.create(prefix="deleted")
    topics.write(topic, [str(n) for n in range(10)])
    options: dict[str, Any] = {"subscribe": topic, "startingOffsets": "earliest", **FAST_RETRY}

    def delete_topic(rows: DataFrame, batch: int) -> None:
        topics.delete(topic)
        rows.collect()

    df = kafka.stream(**options, failOnDataLoss="false", maxOffsetsPerTrigger=5)
    deleting = df.writeStream.foreachBatch(delete_topic).option("checkpointLocation", str(batches.checkpoint)).start()
    try:
        wait_for(lambda: batches.committed, IsTrueLike, deleting)
        looks.wait(deleting)
        assert deleting.exception() is None
    finally:
        deleting.stop()
    assert "[KAFKA_DATA_LOSS.PARTITIONS_DELETED]" in failure(lambda: batches.start(kafka.stream(**options)))


@pytest.mark.feature("offsets.newPartitions", "source.subscribePattern")
def test_stress_test_with_multiple_topics_and_partitions(
    kafka: KafkaFrames, topics: Topics, batches: Batches, seed: int
) -> None:
    """KafkaSourceStressSuite: topics and partitions are added, the query is stopped and started; nothing is missing."""
    dice = random.Random(seed)
    prefix = unique("stress")
    partitions: dict[str, int] = {}
    written: list[str] = []

    def add_topic() -> None:
        name = f"{prefix}-{len(partitions)}"
        partitions[name] = dice.randint(1, 3)
        topics.create(partitions[name], name=name)

    def add_partitions() -> None:
        name = dice.choice(list(partitions))
        partitions[name] += dice.randint(1, 3)
        topics.add_partitions(name, partitions[name])

    def write() -> None:
        name = dice.choice(list(partitions))
        numbers = [str(len(written) + n) for n in range(dice.randint(1, 40))]
        topics.write(name, numbers, partition=[dice.randrange(partitions[name]) for _ in numbers])
        written.extend(numbers)

    add_topic()
    df = kafka.stream(
        subscribePattern=f"{prefix}-.*", startingOffsets="earliest", maxOffsetsPerTrigger=dice.choice([30, 100, 10_000])
    )
    deadline = time.monotonic() + STRESS_S
    while time.monotonic() < deadline:
        with batches.running(df) as query:
            for _ in range(dice.randint(5, 15)):
                dice.choices([add_topic, add_partitions, write], [1, 1, 6])[0]()
                time.sleep(dice.uniform(0, 0.3))
            if dice.random() < 0.5:
                wait_for(lambda: len(batches.rows), IsInt(ge=len(written)), query)
    with batches.running(df) as query:
        batches.wait_for(written, query)


@pytest.mark.feature("source.failOnDataLoss", "loss.deleted", "loss.changed", "loss.noDuplicates")
def test_stress_test_for_fail_on_data_loss_false(
    kafka: KafkaFrames, topics: Topics, batches: Batches, seed: int
) -> None:
    """Topics are made, deleted, made again and written to at random; the query never fails and makes nothing up."""
    dice = random.Random(seed)
    prefix = unique("wild")
    present: set[str] = set()
    written: set[str] = set()
    df = kafka.stream(
        subscribePattern=f"{prefix}-.*",
        startingOffsets="earliest",
        failOnDataLoss="false",
        **{**FAST_RETRY, "fetchOffset__numRetries": 5, "kafka__default__api__timeout__ms": 20_000},
    )
    deadline = time.monotonic() + STRESS_S
    with batches.running(df) as query:
        while time.monotonic() < deadline:
            name = f"{prefix}-{dice.randrange(4)}"
            if name not in present:
                topics.create(dice.randint(1, 3), name=name)
                present.add(name)
            elif dice.random() < 0.25:
                topics.delete(name)
                present.discard(name)
            else:
                numbers = [f"{len(written) + n} in {name[-1]}" for n in range(dice.randint(1, 30))]
                topics.write(name, numbers)
                written |= set(numbers)
            time.sleep(dice.uniform(0, 0.15))
            assert query.exception() is None, query.exception()
        final = topics.create(name=f"{prefix}-final")
        topics.write(final, ["the end"])
        wait_for(lambda: batches.rows, Contains("the end"), query)
    assert set(batches.rows) <= written | {"the end"}
    in_batches: dict[str, list[int]] = {}
    for number, rows in sorted(batches.found.items()):
        for row in rows:
            in_batches.setdefault(row, []).append(number)
    assert {row: where for row, where in in_batches.items() if len(where) > 1} == {}, "read more than once"
    assert len(in_batches) > 1
