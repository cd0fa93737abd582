import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_native._jobs.batch_reload.errors import Conflict, ReloadError
from spark_kafka_native._jobs.batch_reload.manifest import What
from spark_kafka_native._jobs.batch_reload.running import Watch
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.versions import manifest_path
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.ranges import OffsetRange
from tests.support.kills.reload import CLEAN_STEPS, LOAD_STEPS, PART_STEPS
from tests.support.spark.reload_driver import ReloadDriver, run_here

T0 = TopicPartition("t", 0)


@pytest.mark.feature("reload.exactlyOnce", "reload.ranges")
def test_every_record_once_run_after_run(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 30)
    driver.produce("t", 1, 5)
    assert driver.load(max_records_per_task=8) is not None
    assert driver.records() == driver.produced()
    assert driver.load() is None, "nothing has come"
    driver.produce("t", 0, 3)
    driver.produce("t", 2, 4)  # a partition that is new
    driver.load()
    assert driver.records() == driver.produced()
    assert [entry.from_offset for entry in driver.version().files if entry.partition == 0] == [0, 7, 14, 22, 30]


@pytest.mark.feature("reload.from", "reload.exactlyOnce")
def test_load_from_a_point_is_a_new_version_and_the_old_one_stays(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 30)
    driver.load(max_records_per_task=10)
    driver.invisible |= {("t", 0, offset) for offset in (5, 15, 25)}  # what was loaded was wrong
    whole = driver.records(1)
    driver.load('{"t":{"0":14}}')
    assert driver.version().version == 2
    assert driver.records(1) == whole
    assert [offset for _, _, offset in driver.records()] == [n for n in range(30) if n not in {15, 25}]
    assert driver.load() is None


@pytest.mark.feature("reload.ranges")
def test_times_and_ends(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 10)
    driver.cluster.times[driver.plan(None).partitions[0].partition] = [1000 * n for n in range(10)]
    driver.load("3000", "7000")
    assert [offset for _, _, offset in driver.records()] == [3, 4, 5, 6]
    driver.load()
    assert [offset for _, _, offset in driver.records()] == [3, 4, 5, 6, 7, 8, 9]


def test_ranges_without_records_have_no_file_and_leave_no_gap(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 6)
    driver.invisible = {("t", 0, offset) for offset in range(3)}
    driver.load(max_records_per_task=3)
    assert [(entry.what, entry.rows) for entry in driver.version().entries] == [(What.EMPTY, 0), (What.FILE, 3)]
    assert driver.records() == driver.produced()


def test_deleted_records_are_in_the_manifest_once_accepted(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 10)
    driver.load()
    driver.produce("t", 0, 10)
    driver.age_out("t", 0, 15)
    with pytest.raises(ReloadError, match="were deleted before they were loaded"):
        driver.load()
    driver.load(accept_loss=True)
    (lost,) = [entry for entry in driver.version().entries if entry.what is What.LOST]
    assert str(lost) == "t-0 offsets [10, 15)"
    assert [offset for _, _, offset in driver.records()] == [*range(10), *range(15, 20)]


# --- failure


def failing(times: int, error: Exception) -> Callable[[OffsetRange], None]:
    """For ``before_task``: the second task and those after fail so often."""
    calls = []

    def fail(_: OffsetRange) -> None:
        calls.append(1)
        if 1 < len(calls) <= 1 + times:
            raise error

    return fail


def test_failed_load_leaves_nothing_and_the_next_one_loads_all(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 30)
    driver.load(max_records_per_task=10)
    driver.produce("t", 0, 30)
    with pytest.raises(OSError, match="disk"):
        driver.load(max_records_per_task=10, before_task=failing(1, OSError("disk full")))
    assert driver.unnamed_files() == [], "not even files of the task that ended well"
    assert driver.version().version == 1
    driver.load(max_records_per_task=10)
    assert driver.records() == driver.produced()


class TriesTwice:
    """As Spark does: every task is tried twice at once (speculation) or after a failure; one result is taken."""

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any], result: type[Any], watch: Watch) -> list[Any]:
        first = [task(item) for item in items]
        second = [task(item) for item in items]
        watch(len(items))
        return [(first if number % 2 else second)[number] for number in range(len(items))]


@pytest.mark.feature("reload.exactlyOnce")
def test_unused_attempts_are_in_no_version(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 40)
    driver.load(max_records_per_task=10, runner=TriesTwice())
    assert driver.records() == driver.produced()
    assert len(driver.unnamed_files()) == 4, "files of the other attempts"
    driver.clean()
    assert driver.unnamed_files() == []
    assert driver.records() == driver.produced()


def test_missing_or_extra_task_results_fail_the_load(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 40)

    def forgetful(task: Callable[[Any], Any], items: Sequence[Any], result: type[Any], watch: Watch) -> list[Any]:
        return run_here(task, items[1:], result, watch)

    def twice(task: Callable[[Any], Any], items: Sequence[Any], result: type[Any], watch: Watch) -> list[Any]:
        return run_here(task, [*items, items[0]], result, watch)

    for runner, written in (forgetful, 3), (twice, 5):
        with pytest.raises(ReloadError, match=rf"written \({written}\) are not the planned ones \(4\)"):
            driver.load(max_records_per_task=10, runner=runner)
    assert driver.records() == []


# --- topics that are not those of the plan any more


@pytest.mark.feature("reload.exactlyOnce")
@pytest.mark.parametrize("records", [5, 30, 40])
def test_a_topic_made_again_while_the_load_runs_is_not_published(driver: ReloadDriver, records: int) -> None:
    driver.cluster.add("t", 30)
    with pytest.raises(ReloadError, match="topic t was deleted and created again while the load ran"):
        driver.load(before_task=lambda _: driver.cluster.recreate("t", records))
    assert driver.records() == []
    assert driver.storage.list("") == {}
    driver.load()
    assert driver.records() == driver.produced()


@pytest.mark.feature("reload.exactlyOnce")
@pytest.mark.parametrize(("cut_at", "is_cut"), [(29, True), (30, False)])
def test_a_log_truncated_while_the_load_runs_is_not_published(driver: ReloadDriver, cut_at: int, is_cut: bool) -> None:
    """By a leader that lacked records of the plan, not by one that lacks what came later."""
    driver.cluster.add("t", 30)
    driver.cluster.epochs = {T0: 4}

    def elect(_: OffsetRange) -> None:
        driver.cluster.epochs = {T0: 5}
        driver.cluster.epoch_ends = {T0: {4: cut_at}}

    if is_cut:
        with pytest.raises(ReloadError, match="the log of t-0 was truncated at offset 29 while the load ran"):
            driver.load(before_task=elect)
        assert driver.storage.list("") == {}
    else:
        driver.load(before_task=elect)
        assert driver.records() == driver.produced()


# --- two at a time


@pytest.mark.feature("reload.exactlyOnce")
def test_concurrent_runs_of_a_topic_conflict(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 20)

    def another_run(_: OffsetRange) -> None:
        driver.load()

    with pytest.raises(Conflict, match="published t-0 in version 1 meanwhile"):
        driver.load(before_task=another_run)
    assert driver.records() == driver.produced()
    assert driver.unnamed_files() == []


def test_concurrent_runs_of_different_topics_are_both_published(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 20)

    def of_another_topic(_: OffsetRange) -> None:
        beside = ReloadDriver(driver.root)
        beside.produce("u", 0, 10)
        beside.load()

    driver.load(before_task=of_another_topic)
    assert driver.version().version == 2
    assert driver.records() == sorted([*driver.produced(), *(("u", 0, offset) for offset in range(10))])


def test_run_that_a_clean_has_removed_cannot_publish(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 20)
    slept: list[int] = []

    def sleep(_: OffsetRange) -> None:
        slept.append(1)
        if len(slept) == 2:
            assert driver.clean().dead_loads == ("sleeper",)

    with pytest.raises(Conflict, match="has removed this run as dead"):
        driver.load(max_records_per_task=10, before_task=sleep, load_id="sleeper")
    driver.load()
    assert driver.records() == driver.produced()


# --- parts: entries that have moved out of the manifest


@pytest.mark.feature("reload.exactlyOnce")
@pytest.mark.parametrize("newest", [b"{", b'{"manifest_format": 99, "version": 3}'])
def test_a_published_version_keeps_its_files_when_a_newer_one_cannot_be_read(tmp_path: Path, newest: bytes) -> None:
    """Another run publishes version 3 right after version 2; it is damaged, or of a later release."""

    class Overtaken(LocalStorage):
        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if path == manifest_path(2):
                super().create(manifest_path(3), newest)

    driver = ReloadDriver(tmp_path / "target", Overtaken(str(tmp_path / "target")))
    driver.produce("t", 0, 10)
    driver.load()
    driver.produce("t", 0, 10)
    made = driver.load()
    assert made is not None
    assert made.version == 2
    assert driver.records(2) == driver.produced()


@pytest.mark.parametrize("folder", ["_leases", "_loads", "_manifests"])
@pytest.mark.parametrize("error", [FileExistsError("it is there"), TimeoutError("no response")])
def test_file_created_by_a_lost_put_is_accepted(tmp_path: Path, folder: str, error: OSError) -> None:
    """An object store's client repeats a PUT whose answer was lost, and the second one finds the file of the first."""

    class LosesAResponse(LocalStorage):
        lost = False

        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if path.startswith(folder) and not self.lost:
                self.lost = True
                raise error

    storage = LosesAResponse(str(tmp_path / "target"))
    driver = ReloadDriver(tmp_path / "target", storage)
    driver.tail_entries = 1
    driver.produce("t", 0, 10)
    driver.load(max_records_per_task=5)
    assert storage.lost
    assert driver.records() == driver.produced()
    assert driver.storage.list("_leases") == {}


class CountedStorage(LocalStorage):
    """Counts the entries that a run reads and writes."""

    entries = 0

    def read(self, path: str) -> bytes:
        data = super().read(path)
        self.entries += data.count(b'"from_offset"')
        return data

    def create(self, path: str, data: bytes) -> None:
        self.entries += data.count(b'"from_offset"')
        super().create(path, data)


def test_the_work_of_a_run_does_not_grow_with_what_has_been_loaded(driver: ReloadDriver) -> None:
    driver.tail_entries, partitions, runs = 20, 4, 100
    moved = []
    for _ in range(runs):
        for partition in range(partitions):
            driver.produce("t", partition, 3)
        storage = CountedStorage(str(driver.root))
        driver.load(storage=storage)
        moved.append(storage.entries)
    assert max(moved) <= 20 + (20 + partitions), "read from the version before, and written"
    stored = driver.stored_version()
    assert stored is not None
    assert len(stored.entries) <= 20
    assert sum(part.entries for part in stored.parts) + len(stored.entries) == runs * partitions
    assert stored.rows == len(driver.produced())
    assert driver.records() == driver.produced()


@pytest.mark.feature("reload.from", "reload.exactlyOnce")
def test_load_from_a_point_replaces_entries_in_parts_and_the_old_version_stays(driver: ReloadDriver) -> None:
    driver.tail_entries = 3
    for _ in range(5):
        driver.produce("t", 0, 10)
        driver.produce("t", 1, 10)
        driver.load()
    before = driver.version()
    driver.invisible |= {("t", 0, offset) for offset in (5, 25, 35)}
    driver.load('{"t":{"0":22}}')
    stored = driver.stored_version()
    assert stored is not None
    assert [part.entries for part in stored.parts] == [3, 3, 2]
    expected = sorted([*driver.produced(), ("t", 0, 5)])
    assert driver.records() == expected
    assert driver.version(5) == before
    driver.produce("t", 0, 4)
    driver.load()
    expected = sorted([*driver.produced(), ("t", 0, 5)])
    assert driver.records() == expected
    driver.clean()
    driver.clean()
    assert driver.unnamed_files() == []
    assert driver.records() == expected


def test_a_target_of_an_older_release_is_continued(driver: ReloadDriver) -> None:
    for _ in range(3):
        driver.produce("t", 0, 10)
        driver.load()
    assert json.loads(driver.storage.read("_manifests/0000000003.json"))["manifest_format"] == 1
    driver.tail_entries = 3
    driver.produce("t", 0, 10)
    driver.load()
    assert json.loads(driver.storage.read("_manifests/0000000004.json"))["manifest_format"] == 2
    assert driver.records(3) == driver.produced()[:30]
    assert driver.records() == driver.produced()


def test_concurrent_runs_after_parts(driver: ReloadDriver) -> None:
    other = ReloadDriver(driver.root)
    driver.tail_entries = other.tail_entries = 1
    for runs, topic in ((driver, "t"), (other, "u")):
        runs.produce(topic, 0, 20)
        runs.load(max_records_per_task=10)

    def load_another_topic(_: OffsetRange) -> None:
        other.produce("u", 0, 5)
        other.load()

    driver.produce("t", 0, 5)
    driver.load(before_task=load_another_topic)
    assert driver.records() == driver.produced() + other.produced()

    driver.produce("t", 0, 5)

    def load_the_same(_: OffsetRange) -> None:
        driver.load()

    with pytest.raises(Conflict, match="published t-0"):
        driver.load(before_task=load_the_same)
    assert driver.records() == driver.produced() + other.produced()


def test_continuing_run_publishes_after_a_run_that_replaced_files(driver: ReloadDriver) -> None:
    driver.tail_entries = 1
    for _ in range(3):
        driver.produce("t", 0, 10)
        driver.load()
    first = iter([True])

    def replace_earlier_files(_: OffsetRange) -> None:
        if next(first, False):
            driver.load('{"t":{"0":10}}', '{"t":{"0":30}}')

    driver.produce("t", 0, 5)
    made = driver.load(before_task=replace_earlier_files)
    assert made is not None
    assert [line.kind for line in made.history] == ["load", "load", "load", "reload", "load"]
    assert driver.records() == driver.produced()


def test_concurrent_runs_that_replace_entries_in_parts_conflict(driver: ReloadDriver) -> None:
    driver.tail_entries = 1
    for _ in range(3):
        driver.produce("t", 0, 10)
        driver.load()
    first = iter([True])

    def replace_too(_: OffsetRange) -> None:
        if next(first, False):
            driver.load('{"t":{"0":20}}')

    with pytest.raises(Conflict, match="published t-0"):
        driver.load('{"t":{"0":10}}', before_task=replace_too)
    assert driver.records() == driver.produced()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: path.unlink(), "this part of a version does not exist"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"10", b"11")), "its bytes are not those"),
    ],
)
def test_a_part_that_is_missing_or_damaged_is_named(
    driver: ReloadDriver, harm: Callable[[Path], object], said: str
) -> None:
    driver.tail_entries = 1
    for _ in range(2):
        driver.produce("t", 0, 10)
        driver.load()
    stored = driver.stored_version()
    assert stored is not None
    part = driver.root / stored.parts[0].path
    harm(part)
    with pytest.raises(ReloadError, match=rf"{re.escape(stored.parts[0].path)}: .*{said}"):
        driver.version()
    with pytest.raises(ReloadError, match=said):
        driver.clean()
    driver.produce("t", 0, 10)
    driver.load()


# --- killed


@pytest.mark.feature("reload.kills", "reload.exactlyOnce")
def test_killed_at_every_step_no_duplicate_and_no_gap() -> None:
    """First loads, next loads, loads from a point, and cleans; see ``tests.support.kills.reload``."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kills.reload"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 3 * len(LOAD_STEPS | PART_STEPS) + len(CLEAN_STEPS)
    good = {"killed": True, "all_or_nothing": True, "once": True, "clean": True}
    assert [kill for kill in found if {key: kill[key] for key in good} != good] == []
