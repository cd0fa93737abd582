from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_kafka_native._jobs.batch_reload.appending import append_rows, append_to, records_of
from spark_kafka_native._jobs.batch_reload.columns import row_schema
from spark_kafka_native._jobs.batch_reload.errors import Conflict, ReloadError
from spark_kafka_native._jobs.batch_reload.leases import LEASES
from spark_kafka_native._jobs.batch_reload.manifest import Manifest, What
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.versions import read_version, with_all_entries
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.spark.reload_driver import ReloadDriver


def append(
    driver: ReloadDriver,
    load_id: str,
    write: Callable[[Any], object],
    start: str | None = None,
    until: str | None = None,
) -> Manifest:
    base = read_version(driver.storage)
    if base is not None and start is not None:
        base = with_all_entries(driver.storage, base)
    plan = driver.plan(base, start, until)
    return append_rows(
        driver.storage,
        load_id,
        base,
        plan,
        "jdbc",
        write,
        check=driver.check_of(plan),
        now_ms=1.0,
        tail_entries=driver.tail_entries,
    )


@pytest.mark.feature("reload.otherFormats")
def test_positions_are_published_once_rows_are_written(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 10)

    def fail(_: object) -> None:
        raise ConnectionError("the database is gone")

    with pytest.raises(ConnectionError):
        append(driver, "a", fail)
    assert read_version(driver.storage) is None
    assert driver.storage.list(LEASES) == {}
    alive: list[str] = []
    made = append(driver, "b", lambda watch: alive.append(watch(0) or "written"))
    assert alive == ["written"]
    assert [(entry.what, entry.until_offset) for entry in made.entries] == [(What.APPENDED, 10)]
    assert [line.load_id for line in made.history] == ["b"], "rows of 'a', if there are any, do not count"
    driver.produce("t", 0, 5)
    assert append(driver, "c", lambda _: None).entries[-1].from_offset == 10


def test_failed_lease_renewal_does_not_end_the_load(driver: ReloadDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.produce("t", 0, 10)

    def fail(*_: object) -> None:
        raise OSError("stale file handle")

    monkeypatch.setattr("spark_kafka_native._jobs.batch_reload.leases.RENEW_EVERY_S", 0.0)
    monkeypatch.setattr(driver.storage, "put", fail)
    made = append(driver, "a", lambda watch: watch(0))
    assert (made.version, made.entries[-1].until_offset) == (1, 10)


@pytest.mark.feature("reload.otherFormats")
def test_append_from_a_point_publishes_after_parts(driver: ReloadDriver) -> None:
    """It needs all entries of the version that another run has published meanwhile, which are in parts."""
    driver.tail_entries = 2
    for number in range(4):
        driver.produce("a", 0, 5)
        append(driver, f"r{number}", lambda _: None)
    base = driver.stored_version()
    assert base is not None
    assert base.parts
    driver.produce("b", 0, 7)
    start = until = '{"a":{"0":0}}'

    def meanwhile(_: object) -> None:
        driver.cluster.add("c", 3)
        state = dict(driver.cluster.end)
        for tp in (TopicPartition("a", 0), TopicPartition("b", 0)):
            del driver.cluster.end[tp]
        append(driver, "other", lambda _: None)
        driver.cluster.end.update(state)

    append(driver, "run", meanwhile, start, until)
    assert [made.load_id for made in driver.version().history] == ["r0", "r1", "r2", "r3", "other", "run"]
    positions = {str(tp): offset for tp, offset in driver.version().positions.items()}
    assert positions == {"a-0": 20, "b-0": 7, "c-0": 3}


class Full(LocalStorage):
    def create(self, path: str, data: bytes) -> None:
        if path.startswith("_manifests"):
            raise OSError(28, "No space left on device")
        super().create(path, data)


WRITTEN = "Rows with load_id mine are written, and count only if the history of a version names it"


def test_the_error_of_an_append_that_cannot_be_published_names_its_rows(tmp_path: Path) -> None:
    driver = ReloadDriver(tmp_path, Full(str(tmp_path)))
    driver.produce("t", 0, 5)
    with pytest.raises(ReloadError, match=f"it is unknown whether the version exists: .*No space left.*{WRITTEN}"):
        append(driver, "mine", lambda _: None)


def test_the_error_of_an_append_that_is_not_published_names_its_rows(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 5)
    with pytest.raises(Conflict, match=f"another run .*{WRITTEN}"):
        append(driver, "mine", lambda _: append(driver, "other", lambda _: None))
    driver.produce("t", 0, 5)
    with pytest.raises(ReloadError, match=f"topic t was deleted while the load ran.*{WRITTEN}"):
        append(driver, "mine", lambda _: driver.cluster.remove("t"))


@pytest.mark.spark
@pytest.mark.feature("reload.otherFormats")
def test_rows_are_those_of_the_plan_with_their_load_id(driver: ReloadDriver, spark: SparkSession) -> None:
    from broker_embedded.testing import EmbeddedBroker
    from spark_kafka_native._spark.datasource import register
    from tests.support.clients.topics import Topics

    register(spark)
    with EmbeddedBroker() as broker, Topics(broker.bootstrap_servers) as topics:
        topics.create(2, name="t")
        topics.write("t", [f"{n}" for n in range(20)], partition=[n % 2 for n in range(20)])
        driver.produce("t", 0, 6)
        driver.produce("t", 1, 0)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"}
        schema = row_schema("", ["partition", "offset", "value"], frozenset({"value"}))
        tasks = {"minPartitions": None, "maxRecordsPerPartition": 2}
        rows = records_of(spark, driver.plan(None), options, schema, "mine", tasks=tasks)
        place = driver.root / "table"
        for _ in range(2):
            append_to(rows, format_name="parquet", path=str(place), table=None, options={"compression": "gzip"})
        found = sorted(map(tuple, spark.read.parquet(str(place)).collect()))
    assert found == sorted([(0, n, f"{2 * n}", "mine") for n in range(6)] * 2)
    assert all(path.name.endswith(".gz.parquet") for path in place.glob("*.parquet"))
