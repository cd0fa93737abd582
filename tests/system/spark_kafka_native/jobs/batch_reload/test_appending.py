"""Loads into other formats: at least once, and which rows count."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_kafka_native.jobs.batch_reload.appending import Destination, append_rows, records_of, with_load_id
from spark_kafka_native.jobs.batch_reload.columns import row_schema
from spark_kafka_native.jobs.batch_reload.leases import LEASES
from spark_kafka_native.jobs.batch_reload.manifest import Manifest, What
from spark_kafka_native.jobs.batch_reload.versions import read_version
from tests.support.reload_driver import Story


def append(story: Story, load_id: str, write: Callable[[Any], object]) -> Manifest:
    base = read_version(story.storage)
    plan = story.plan(base)
    return append_rows(story.storage, load_id, base, plan, "jdbc", write, check=story.check_of(plan), now_ms=1.0)


@pytest.mark.feature("reload.otherFormats")
def test_positions_are_published_once_rows_are_written(story: Story) -> None:
    story.produce("t", 0, 10)

    def fail(_: object) -> None:
        raise ConnectionError("the database is gone")

    with pytest.raises(ConnectionError):
        append(story, "a", fail)
    assert read_version(story.storage) is None
    assert story.storage.list(LEASES) == {}
    alive: list[str] = []
    made = append(story, "b", lambda watch: alive.append(watch(0) or "written"))
    assert alive == ["written"]
    assert [(entry.what, entry.until_offset) for entry in made.entries] == [(What.APPENDED, 10)]
    assert [line.load_id for line in made.history] == ["b"], "rows of 'a', if there are any, do not count"
    story.produce("t", 0, 5)
    assert append(story, "c", lambda _: None).entries[-1].from_offset == 10


def test_moment_without_the_state_ends_no_load(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are written would be written again by the next run."""
    story.produce("t", 0, 10)

    def fail(*_: object) -> None:
        raise OSError("stale file handle")

    monkeypatch.setattr("spark_kafka_native.jobs.batch_reload.leases.RENEW_EVERY_S", 0.0)
    monkeypatch.setattr(story.storage, "put", fail)
    made = append(story, "a", lambda watch: watch(0))
    assert (made.version, made.entries[-1].until_offset) == (1, 10)


@pytest.mark.spark
@pytest.mark.feature("reload.otherFormats")
def test_rows_are_those_of_the_plan_with_their_load_id(story: Story, spark: SparkSession) -> None:
    """Records that come after the plan belong to the next run."""
    from broker_embedded.testing import EmbeddedBroker
    from spark_kafka_native.spark.datasource import PyKafkaDataSource
    from tests.support.topics import Topics

    spark.dataSource.register(PyKafkaDataSource)
    with EmbeddedBroker() as broker, Topics(broker.bootstrap_servers) as topics:
        topics.create(2, name="t")
        topics.write("t", [f"{n}" for n in range(20)], partition=[n % 2 for n in range(20)])
        story.produce("t", 0, 6)
        story.produce("t", 1, 0)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"}
        schema = row_schema("", ["partition", "offset", "value"], frozenset({"value"}))
        tasks = {"minPartitions": None, "maxRecordsPerPartition": 2}
        rows = with_load_id(records_of(spark, story.plan(None), options, schema, tasks=tasks), "mine")
        place = story.root / "table"
        destination = Destination(format="parquet", path=str(place), table=None, options={"compression": "gzip"})
        destination.write(rows)
        destination.write(rows)
        found = sorted(map(tuple, spark.read.parquet(str(place)).collect()))
    assert found == sorted([(0, n, f"{2 * n}", "mine") for n in range(6)] * 2)
    assert all(path.name.endswith(".gz.parquet") for path in place.glob("*.parquet"))
