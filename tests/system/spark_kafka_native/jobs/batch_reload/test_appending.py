from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_kafka_native.jobs.batch_reload.appending import append_rows, append_to, records_of
from spark_kafka_native.jobs.batch_reload.columns import row_schema
from spark_kafka_native.jobs.batch_reload.errors import Conflict, ReloadError
from spark_kafka_native.jobs.batch_reload.leases import LEASES
from spark_kafka_native.jobs.batch_reload.manifest import Manifest, What
from spark_kafka_native.jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native.jobs.batch_reload.versions import read_version, with_all_entries
from spark_kafka_native.protocol.topic import TopicPartition
from tests.support.spark.reload_driver import Story


def append(
    story: Story, load_id: str, write: Callable[[Any], object], start: str | None = None, until: str | None = None
) -> Manifest:
    base = read_version(story.storage)
    if base is not None and start is not None:
        base = with_all_entries(story.storage, base)
    plan = story.plan(base, start, until)
    return append_rows(
        story.storage,
        load_id,
        base,
        plan,
        "jdbc",
        write,
        check=story.check_of(plan),
        now_ms=1.0,
        tail_entries=story.tail_entries,
    )


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


def test_failed_lease_renewal_does_not_end_the_load(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.produce("t", 0, 10)

    def fail(*_: object) -> None:
        raise OSError("stale file handle")

    monkeypatch.setattr("spark_kafka_native.jobs.batch_reload.leases.RENEW_EVERY_S", 0.0)
    monkeypatch.setattr(story.storage, "put", fail)
    made = append(story, "a", lambda watch: watch(0))
    assert (made.version, made.entries[-1].until_offset) == (1, 10)


@pytest.mark.feature("reload.otherFormats")
def test_append_from_a_point_publishes_after_parts(story: Story) -> None:
    """It needs all entries of the version that another run has published meanwhile, which are in parts."""
    story.tail_entries = 2
    for number in range(4):
        story.produce("a", 0, 5)
        append(story, f"r{number}", lambda _: None)
    base = story.stored_version()
    assert base is not None
    assert base.parts
    story.produce("b", 0, 7)
    start = until = '{"a":{"0":0}}'

    def meanwhile(_: object) -> None:
        story.cluster.add("c", 3)
        state = dict(story.cluster.end)
        for tp in (TopicPartition("a", 0), TopicPartition("b", 0)):
            del story.cluster.end[tp]
        append(story, "other", lambda _: None)
        story.cluster.end.update(state)

    append(story, "run", meanwhile, start, until)
    assert [made.load_id for made in story.version().history] == ["r0", "r1", "r2", "r3", "other", "run"]
    positions = {str(tp): offset for tp, offset in story.version().positions.items()}
    assert positions == {"a-0": 20, "b-0": 7, "c-0": 3}


class Full(LocalStorage):
    def create(self, path: str, data: bytes) -> None:
        if path.startswith("_manifests"):
            raise OSError(28, "No space left on device")
        super().create(path, data)


WRITTEN = "Rows with load_id mine are written, and count only if the history of a version names it"


def test_the_error_of_an_append_that_cannot_be_published_names_its_rows(tmp_path: Path) -> None:
    story = Story(tmp_path, Full(str(tmp_path)))
    story.produce("t", 0, 5)
    with pytest.raises(ReloadError, match=f"it is unknown whether the version exists: .*No space left.*{WRITTEN}"):
        append(story, "mine", lambda _: None)


def test_the_error_of_an_append_that_is_not_published_names_its_rows(story: Story) -> None:
    story.produce("t", 0, 5)
    with pytest.raises(Conflict, match=f"another run .*{WRITTEN}"):
        append(story, "mine", lambda _: append(story, "other", lambda _: None))
    story.produce("t", 0, 5)
    with pytest.raises(ReloadError, match=f"topic t was deleted while the load ran.*{WRITTEN}"):
        append(story, "mine", lambda _: story.cluster.remove("t"))


@pytest.mark.spark
@pytest.mark.feature("reload.otherFormats")
def test_rows_are_those_of_the_plan_with_their_load_id(story: Story, spark: SparkSession) -> None:
    from broker_embedded.testing import EmbeddedBroker
    from spark_kafka_native.spark.datasource import register
    from tests.support.clients.topics import Topics

    register(spark)
    with EmbeddedBroker() as broker, Topics(broker.bootstrap_servers) as topics:
        topics.create(2, name="t")
        topics.write("t", [f"{n}" for n in range(20)], partition=[n % 2 for n in range(20)])
        story.produce("t", 0, 6)
        story.produce("t", 1, 0)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"}
        schema = row_schema("", ["partition", "offset", "value"], frozenset({"value"}))
        tasks = {"minPartitions": None, "maxRecordsPerPartition": 2}
        rows = records_of(spark, story.plan(None), options, schema, "mine", tasks=tasks)
        place = story.root / "table"
        for _ in range(2):
            append_to(rows, format_name="parquet", path=str(place), table=None, options={"compression": "gzip"})
        found = sorted(map(tuple, spark.read.parquet(str(place)).collect()))
    assert found == sorted([(0, n, f"{2 * n}", "mine") for n in range(6)] * 2)
    assert all(path.name.endswith(".gz.parquet") for path in place.glob("*.parquet"))
