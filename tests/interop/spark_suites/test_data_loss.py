"""KafkaDontFailOnDataLossSuite: records that are gone before they are read."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dirty_equals import IsInt
from pyspark.sql import DataFrame, SparkSession

from tests.support.clients.topics import Topics
from tests.support.servers.both_brokers import running_broker
from tests.support.servers.brokers import AnyBroker
from tests.support.spark.queries import Batches, KafkaFrames, error_text, failure, numbers, values
from tests.support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.spark]

RECORD_BYTES = 200_000
SEGMENT_RECORDS = 5
RETENTION_BYTES = 3_000_000
CODE = "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE]"


@pytest.fixture
def topic(topics: Topics) -> str:
    """0 to 49 in one partition."""
    made = topics.create()
    topics.write(made, [str(n) for n in range(50)])
    return made


def from_first(topic: str) -> dict[str, Any]:
    return {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 0}})}


@pytest.mark.feature("loss.agedOut", "loss.noDuplicates", "source.failOnDataLoss")
def test_batch_should_not_return_duplicated_records(kafka: KafkaFrames, topics: Topics, topic: str) -> None:
    """Records go between planning and reading."""
    careless = kafka.read(**from_first(topic), failOnDataLoss="false")
    careful = kafka.read(**from_first(topic))
    split = kafka.read(**from_first(topic), failOnDataLoss="false", maxRecordsPerPartition=15)
    assert [df.rdd.getNumPartitions() for df in (careless, careful, split)] == [1, 1, 4]
    topics.delete_before(topic, 20)
    assert numbers(careless) == numbers(split) == list(range(20, 50))
    text = error_text(careful.count)
    assert CODE in text
    assert f"offsets [0, 20) of {topic}-0 were deleted before they were read" in text


@pytest.mark.feature("loss.agedOut", "loss.noDuplicates", "source.failOnDataLoss", "better.agedOut")
def test_micro_batch_should_not_return_duplicated_records(
    kafka: KafkaFrames, topics: Topics, batches: Batches, topic: str
) -> None:
    """Records go while a batch is being read, and between batches; the latter is found in planning."""
    seen: list[str] = []

    def delete(rows: DataFrame, batch: int) -> None:
        if batch == 0:
            topics.delete_before(topic, 5)
            seen.extend(row.value for row in rows.collect())
            topics.delete_before(topic, 25)
        else:
            seen.extend(row.value for row in rows.collect())

    options: dict[str, Any] = {**from_first(topic), "maxOffsetsPerTrigger": 10}
    df = kafka.stream(**options, failOnDataLoss="false")
    writer = df.writeStream.foreachBatch(delete).option("checkpointLocation", str(batches.checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(90)
    assert sorted(seen) == sorted(str(n) for n in itertools.chain(range(5, 10), range(25, 50)))
    text = failure(lambda: Batches(batches.checkpoint.with_name("careful")).start(kafka.stream(**options)))
    assert CODE in text
    assert f"{topic}-0" in text


@pytest.fixture(params=["bundled", "apache"])
def retaining(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyBroker]:
    """A broker that looks for old segments all the time."""
    settings = {"log.retention.check.interval.ms": "200"}
    if request.param == "apache":
        settings["log.initial.task.delay.ms"] = "200"
    with running_broker(request.param, tmp_path / "broker", settings) as broker:
        yield broker


@pytest.mark.feature("loss.agedOut", "loss.noDuplicates", "offsets.lateBinding")
def test_retention_between_two_actions(spark: SparkSession, retaining: AnyBroker) -> None:
    """Real retention: the rest is read once, by a DataFrame from before."""
    frames = KafkaFrames(spark, retaining.bootstrap_servers)
    with Topics(retaining.bootstrap_servers) as topics:
        topic = topics.create(segment_bytes="1048576", retention_bytes=str(RETENTION_BYTES), file_delete_delay_ms="100")
        df = frames.read(**from_first(topic), endingOffsets="latest", failOnDataLoss="false").selectExpr(
            "left(string(value), 2) AS value"
        )
        for n in range(10, 60):
            topics.write(topic, [f"{n}" + "x" * RECORD_BYTES])
        # Retention deletes whole segments: less than one more than is retained is left.
        retained = IsInt(lt=RETENTION_BYTES + SEGMENT_RECORDS * RECORD_BYTES)
        eventually(lambda: (topics.ends(topic)[0] - topics.starts(topic)[0]) * RECORD_BYTES, retained, within_s=60)
        found = values(df)
        assert len(found) == RETENTION_BYTES / RECORD_BYTES
        assert found == [str(n) for n in range(60 - len(found), 60)]
