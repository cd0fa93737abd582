import dataclasses

import pytest

from spark_kafka_native._jobs.batch_reload.errors import Conflict
from spark_kafka_native._jobs.batch_reload.manifest import (
    NO_FORMAT,
    Entry,
    Manifest,
    ManifestPart,
    StoredFormat,
    What,
    problems,
)
from spark_kafka_native._jobs.batch_reload.merge import Load, Written, entries_of, next_version, ranges_without_file
from spark_kafka_native._jobs.batch_reload.plan import Plan, Wanted, make_plan
from spark_kafka_native._jobs.points import ClusterState
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.spark.reload_driver import JSON, ReloadDriver


def load_of(driver: ReloadDriver, base: Manifest | None, start: str | None = None, *, load_id: str = "mine") -> Load:
    plan = driver.plan(base, start)
    written = [
        Written(
            topic=piece.topic,
            partition=piece.partition,
            from_offset=piece.from_offset,
            until_offset=piece.until_offset,
            path=f"{load_id}/{piece.topic}-{piece.partition}-{piece.from_offset}",
            rows=piece.size,
            bytes=1,
            crc32c=1,
        )
        for piece in plan.pieces
    ]
    entries = entries_of(load_id, written, plan)
    return Load(load_id=load_id, created_ms=1, base=base, plan=plan, entries=entries, format=JSON)


def paths(manifest: Manifest) -> list[str]:
    return [entry.path for entry in manifest.files]


def test_versions_follow_each_other(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 5)
    first = next_version(None, load_of(driver, None, load_id="a"))
    assert (first.version, first.kind, paths(first)) == (1, "load", ["a/t-0-0"])
    driver.produce("t", 0, 5)
    second = next_version(first, load_of(driver, first, load_id="b"))
    assert (second.version, paths(second)) == (2, ["a/t-0-0", "b/t-0-5"])
    again = next_version(second, load_of(driver, second, '{"t":{"0":7}}', load_id="c"))
    assert (again.version, again.kind, paths(again)) == (3, "reload", ["a/t-0-0", "c/t-0-5"])
    assert [made.load_id for made in again.history] == ["a", "b", "c"]
    assert problems(again) == []


def test_run_follows_a_run_of_other_partitions(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 5)
    base = next_version(None, load_of(driver, None, load_id="a"))
    driver.produce("t", 0, 5)
    mine = load_of(driver, base, load_id="b")
    driver.cluster.remove("t")
    driver.produce("u", 0, 3)
    both = next_version(next_version(base, load_of(driver, base, load_id="other")), mine)
    assert (both.version, paths(both)) == (3, ["a/t-0-0", "b/t-0-5", "other/u-0-0"])
    assert both.positions[TopicPartition("u", 0)] == 3


def test_run_conflicts_with_a_run_of_the_same_partitions(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 5)
    base = next_version(None, load_of(driver, None, load_id="a"))
    driver.produce("t", 0, 5)
    quicker = next_version(base, load_of(driver, base, load_id="quicker"))
    with pytest.raises(Conflict, match=r"another run \(quicker\) published t-0 in version 2"):
        next_version(quicker, load_of(driver, base, load_id="slower"))
    with pytest.raises(Conflict, match="another run"):
        next_version(base, load_of(driver, None, load_id="first too"))


def test_run_removed_as_dead_cannot_publish(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 5)
    mine = load_of(driver, None, load_id="sleeper")
    cleaned = Manifest(
        version=1, load_id="c", kind="clean", created_ms=0, format=NO_FORMAT, removed_loads=("sleeper", "x")
    )
    with pytest.raises(Conflict, match="has removed this run as dead"):
        next_version(cleaned, mine)
    late = next_version(cleaned, dataclasses.replace(mine, load_id="another"))
    assert (late.version, late.format, late.removed_loads) == (2, JSON, ("sleeper", "x"))


def test_run_cannot_follow_a_version_of_another_format(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 5)
    csv = dataclasses.replace(load_of(driver, None), format=StoredFormat(name="csv", columns=()))
    with pytest.raises(Conflict, match="with another format"):
        next_version(next_version(None, csv), load_of(driver, None))


def _whole(plan: Plan) -> Entry:
    (piece,) = plan.pieces
    return Entry(
        topic=piece.topic,
        partition=piece.partition,
        from_offset=piece.from_offset,
        until_offset=piece.until_offset,
        load_id="b",
        path="new",
        rows=piece.size,
    )


def test_recreated_topic_replaces_all_entries(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 5)
    driver.produce("t", 1, 5)
    base = dataclasses.replace(next_version(None, load_of(driver, None)), topic_ids={"t": "one"})
    driver.cluster.remove("t")
    driver.produce("t", 0, 3)
    state = ClusterState(first=driver.cluster.first, end=driver.cluster.end, topic_ids={"t": "two"})
    plan = make_plan(base, state, Wanted(points={TopicPartition("t", 0): 0}, ends={}))
    assert plan.replaces
    made = next_version(
        base, Load(load_id="b", created_ms=1, base=base, plan=plan, entries=(_whole(plan),), format=JSON)
    )
    assert paths(made) == ["new"]
    assert made.positions == {TopicPartition("t", 0): 3}
    assert made.topic_ids == {"t": "two"}


def test_ranges_without_a_file(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 9)
    driver.age_out("t", 0, 4)
    plan = driver.plan(None, '{"t":{"0":2}}', accept_loss=True)
    found = [(entry.what, entry.from_offset, entry.until_offset) for entry in ranges_without_file("l", plan)]
    assert found == [(What.LOST, 2, 4), (What.APPENDED, 4, 9)]
    assert [entry.what for entry in entries_of("l", [], plan)] == [What.LOST]


def test_a_run_before_the_first_entry_replaces_nothing_but_needs_all_entries() -> None:
    tp = TopicPartition("t", 0)

    def entry(first: int, until: int, load_id: str) -> Entry:
        return Entry(
            topic="t",
            partition=0,
            from_offset=first,
            until_offset=until,
            load_id=load_id,
            what=What.FILE,
            path=f"{load_id}/{first}",
            rows=until - first,
            bytes=1,
            crc32c=1,
        )

    base = Manifest(
        version=1,
        load_id="before",
        kind="load",
        created_ms=1,
        format=JSON,
        positions={tp: 3000},
        entries=(entry(1000, 2000, "before"), entry(2000, 3000, "before")),
    )
    state = ClusterState(first={tp: 0}, end={tp: 3000}, topic_ids={})
    plan = make_plan(base, state, Wanted(points={tp: 0}, ends={tp: 1000}))
    early = Load(load_id="early", created_ms=2, base=base, plan=plan, entries=(entry(0, 1000, "early"),), format=JSON)
    assert not plan.replaces
    assert not early.continues
    made = next_version(dataclasses.replace(base, version=2), early)
    assert (made.positions, problems(made)) == ({tp: 3000}, [])
    part = ManifestPart(path="p", entries=2, rows=2000, bytes=1, crc32c=1)
    with pytest.raises(AssertionError, match="all entries are needed"):
        next_version(dataclasses.replace(base, version=2, entries=(), parts=(part,), parts_until={tp: 3000}), early)


def test_first_loads_of_different_partitions_of_a_topic_follow_each_other() -> None:
    def first(partition: int, load_id: str) -> Load:
        tp = TopicPartition("t", partition)
        state = ClusterState(first={tp: 0}, end={tp: 10}, topic_ids={"t": "id"})
        plan = make_plan(None, state, Wanted(points={}, ends={}))
        return Load(load_id=load_id, created_ms=1, base=None, plan=plan, entries=(), format=JSON)

    both = next_version(next_version(None, first(0, "one")), first(1, "two"))
    assert both.positions == {TopicPartition("t", 0): 10, TopicPartition("t", 1): 10}
