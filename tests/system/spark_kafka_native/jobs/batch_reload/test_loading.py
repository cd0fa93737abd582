import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_native.jobs.batch_reload.errors import Conflict, ReloadError
from spark_kafka_native.jobs.batch_reload.manifest import What
from spark_kafka_native.jobs.batch_reload.running import Watch
from spark_kafka_native.jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native.jobs.batch_reload.versions import manifest_path
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.spark.planning.ranges import OffsetRange
from tests.support.kills.reload import CLEAN_STEPS, LOAD_STEPS, PART_STEPS
from tests.support.spark.reload_driver import Story, run_here

T0 = TopicPartition("t", 0)


@pytest.mark.feature("reload.exactlyOnce", "reload.ranges")
def test_every_record_once_run_after_run(story: Story) -> None:
    story.produce("t", 0, 30)
    story.produce("t", 1, 5)
    assert story.load(max_records_per_task=8) is not None
    assert story.records() == story.produced()
    assert story.load() is None, "nothing has come"
    story.produce("t", 0, 3)
    story.produce("t", 2, 4)  # a partition that is new
    story.load()
    assert story.records() == story.produced()
    assert [entry.from_offset for entry in story.version().files if entry.partition == 0] == [0, 7, 14, 22, 30]


@pytest.mark.feature("reload.from", "reload.exactlyOnce")
def test_load_from_a_point_is_a_new_version_and_the_old_one_stays(story: Story) -> None:
    story.produce("t", 0, 30)
    story.load(max_records_per_task=10)
    story.invisible |= {("t", 0, offset) for offset in (5, 15, 25)}  # what was loaded was wrong
    whole = story.records(1)
    story.load('{"t":{"0":14}}')
    assert story.version().version == 2
    assert story.records(1) == whole
    assert [offset for _, _, offset in story.records()] == [n for n in range(30) if n not in {15, 25}]
    assert story.load() is None


@pytest.mark.feature("reload.ranges")
def test_times_and_ends(story: Story) -> None:
    story.produce("t", 0, 10)
    story.cluster.times[story.plan(None).partitions[0].partition] = [1000 * n for n in range(10)]
    story.load("3000", "7000")
    assert [offset for _, _, offset in story.records()] == [3, 4, 5, 6]
    story.load()
    assert [offset for _, _, offset in story.records()] == [3, 4, 5, 6, 7, 8, 9]


def test_ranges_without_records_have_no_file_and_leave_no_gap(story: Story) -> None:
    story.produce("t", 0, 6)
    story.invisible = {("t", 0, offset) for offset in range(3)}
    story.load(max_records_per_task=3)
    assert [(entry.what, entry.rows) for entry in story.version().entries] == [(What.EMPTY, 0), (What.FILE, 3)]
    assert story.records() == story.produced()


def test_deleted_records_are_in_the_manifest_once_accepted(story: Story) -> None:
    story.produce("t", 0, 10)
    story.load()
    story.produce("t", 0, 10)
    story.age_out("t", 0, 15)
    with pytest.raises(ReloadError, match="were deleted before they were loaded"):
        story.load()
    story.load(accept_loss=True)
    (lost,) = [entry for entry in story.version().entries if entry.what is What.LOST]
    assert str(lost) == "t-0 offsets [10, 15)"
    assert [offset for _, _, offset in story.records()] == [*range(10), *range(15, 20)]


# --- failure


def failing(times: int, error: Exception) -> Callable[[OffsetRange], None]:
    """For ``before_task``: the second task and those after fail so often."""
    calls = []

    def fail(_: OffsetRange) -> None:
        calls.append(1)
        if 1 < len(calls) <= 1 + times:
            raise error

    return fail


def test_failed_load_leaves_nothing_and_the_next_one_loads_all(story: Story) -> None:
    story.produce("t", 0, 30)
    story.load(max_records_per_task=10)
    story.produce("t", 0, 30)
    with pytest.raises(OSError, match="disk"):
        story.load(max_records_per_task=10, before_task=failing(1, OSError("disk full")))
    assert story.unnamed_files() == [], "not even files of the task that ended well"
    assert story.version().version == 1
    story.load(max_records_per_task=10)
    assert story.records() == story.produced()


class TriesTwice:
    """As Spark does: every task is tried twice at once (speculation) or after a failure; one result is taken."""

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any], result: type[Any], watch: Watch) -> list[Any]:
        first = [task(item) for item in items]
        second = [task(item) for item in items]
        watch(len(items))
        return [(first if number % 2 else second)[number] for number in range(len(items))]


@pytest.mark.feature("reload.exactlyOnce")
def test_unused_attempts_are_in_no_version(story: Story) -> None:
    story.produce("t", 0, 40)
    story.load(max_records_per_task=10, runner=TriesTwice())
    assert story.records() == story.produced()
    assert len(story.unnamed_files()) == 4, "files of the other attempts"
    story.clean()
    assert story.unnamed_files() == []
    assert story.records() == story.produced()


def test_missing_or_extra_task_results_fail_the_load(story: Story) -> None:
    story.produce("t", 0, 40)

    def forgetful(task: Callable[[Any], Any], items: Sequence[Any], result: type[Any], watch: Watch) -> list[Any]:
        return run_here(task, items[1:], result, watch)

    def twice(task: Callable[[Any], Any], items: Sequence[Any], result: type[Any], watch: Watch) -> list[Any]:
        return run_here(task, [*items, items[0]], result, watch)

    for runner, written in (forgetful, 3), (twice, 5):
        with pytest.raises(ReloadError, match=f"written {written} ranges, which are not the 4 planned ranges"):
            story.load(max_records_per_task=10, runner=runner)
    assert story.records() == []


# --- topics that are not those of the plan any more


@pytest.mark.feature("reload.exactlyOnce")
@pytest.mark.parametrize("records", [5, 30, 40])
def test_a_topic_made_again_while_the_load_runs_is_not_published(story: Story, records: int) -> None:
    story.cluster.add("t", 30)
    with pytest.raises(ReloadError, match="topic t was deleted and created again while the load ran"):
        story.load(before_task=lambda _: story.cluster.recreate("t", records))
    assert story.records() == []
    assert story.storage.list("") == {}
    story.load()
    assert story.records() == story.produced()


@pytest.mark.feature("reload.exactlyOnce")
@pytest.mark.parametrize(("cut_at", "is_cut"), [(29, True), (30, False)])
def test_a_log_truncated_while_the_load_runs_is_not_published(story: Story, cut_at: int, is_cut: bool) -> None:
    """By a leader that lacked records of the plan, not by one that lacks what came later."""
    story.cluster.add("t", 30)
    story.cluster.epochs = {T0: 4}

    def elect(_: OffsetRange) -> None:
        story.cluster.epochs = {T0: 5}
        story.cluster.epoch_ends = {T0: {4: cut_at}}

    if is_cut:
        with pytest.raises(ReloadError, match="the log of t-0 was truncated at offset 29 while the load ran"):
            story.load(before_task=elect)
        assert story.storage.list("") == {}
    else:
        story.load(before_task=elect)
        assert story.records() == story.produced()


# --- two at a time


@pytest.mark.feature("reload.exactlyOnce")
def test_concurrent_runs_of_a_topic_conflict(story: Story) -> None:
    story.produce("t", 0, 20)

    def another_run(_: OffsetRange) -> None:
        story.load()

    with pytest.raises(Conflict, match="published t-0 in version 1 meanwhile"):
        story.load(before_task=another_run)
    assert story.records() == story.produced()
    assert story.unnamed_files() == []


def test_concurrent_runs_of_different_topics_are_both_published(story: Story) -> None:
    story.produce("t", 0, 20)

    def of_another_topic(_: OffsetRange) -> None:
        beside = Story(story.root)
        beside.produce("u", 0, 10)
        beside.load()

    story.load(before_task=of_another_topic)
    assert story.version().version == 2
    assert story.records() == sorted([*story.produced(), *(("u", 0, offset) for offset in range(10))])


def test_run_that_a_clean_has_removed_cannot_publish(story: Story) -> None:
    story.produce("t", 0, 20)
    slept: list[int] = []

    def sleep(_: OffsetRange) -> None:
        slept.append(1)
        if len(slept) == 2:
            assert story.clean().dead_loads == ("sleeper",)

    with pytest.raises(Conflict, match="has removed this run as dead"):
        story.load(max_records_per_task=10, before_task=sleep, load_id="sleeper")
    story.load()
    assert story.records() == story.produced()


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

    story = Story(tmp_path / "target", Overtaken(str(tmp_path / "target")))
    story.produce("t", 0, 10)
    story.load()
    story.produce("t", 0, 10)
    made = story.load()
    assert made is not None
    assert made.version == 2
    assert story.records(2) == story.produced()


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
    story = Story(tmp_path / "target", storage)
    story.tail_entries = 1
    story.produce("t", 0, 10)
    story.load(max_records_per_task=5)
    assert storage.lost
    assert story.records() == story.produced()
    assert story.storage.list("_leases") == {}


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


def test_the_work_of_a_run_does_not_grow_with_what_has_been_loaded(story: Story) -> None:
    story.tail_entries, partitions, runs = 20, 4, 100
    moved = []
    for _ in range(runs):
        for partition in range(partitions):
            story.produce("t", partition, 3)
        storage = CountedStorage(str(story.root))
        story.load(storage=storage)
        moved.append(storage.entries)
    assert max(moved) <= 20 + (20 + partitions), "read from the version before, and written"
    stored = story.stored_version()
    assert stored is not None
    assert len(stored.entries) <= 20
    assert sum(part.entries for part in stored.parts) + len(stored.entries) == runs * partitions
    assert stored.rows == len(story.produced())
    assert story.records() == story.produced()


@pytest.mark.feature("reload.from", "reload.exactlyOnce")
def test_load_from_a_point_replaces_entries_in_parts_and_the_old_version_stays(story: Story) -> None:
    story.tail_entries = 3
    for _ in range(5):
        story.produce("t", 0, 10)
        story.produce("t", 1, 10)
        story.load()
    before = story.version()
    story.invisible |= {("t", 0, offset) for offset in (5, 25, 35)}
    story.load('{"t":{"0":22}}')
    stored = story.stored_version()
    assert stored is not None
    assert [part.entries for part in stored.parts] == [3, 3, 2]
    expected = sorted([*story.produced(), ("t", 0, 5)])
    assert story.records() == expected
    assert story.version(5) == before
    story.produce("t", 0, 4)
    story.load()
    expected = sorted([*story.produced(), ("t", 0, 5)])
    assert story.records() == expected
    story.clean()
    story.clean()
    assert story.unnamed_files() == []
    assert story.records() == expected


def test_a_target_of_an_older_release_is_continued(story: Story) -> None:
    for _ in range(3):
        story.produce("t", 0, 10)
        story.load()
    assert json.loads(story.storage.read("_manifests/0000000003.json"))["manifest_format"] == 1
    story.tail_entries = 3
    story.produce("t", 0, 10)
    story.load()
    assert json.loads(story.storage.read("_manifests/0000000004.json"))["manifest_format"] == 2
    assert story.records(3) == story.produced()[:30]
    assert story.records() == story.produced()


def test_concurrent_runs_after_parts(story: Story) -> None:
    other = Story(story.root)
    story.tail_entries = other.tail_entries = 1
    for runs, topic in ((story, "t"), (other, "u")):
        runs.produce(topic, 0, 20)
        runs.load(max_records_per_task=10)

    def load_another_topic(_: OffsetRange) -> None:
        other.produce("u", 0, 5)
        other.load()

    story.produce("t", 0, 5)
    story.load(before_task=load_another_topic)
    assert story.records() == story.produced() + other.produced()

    story.produce("t", 0, 5)

    def load_the_same(_: OffsetRange) -> None:
        story.load()

    with pytest.raises(Conflict, match="published t-0"):
        story.load(before_task=load_the_same)
    assert story.records() == story.produced() + other.produced()


def test_continuing_run_publishes_after_a_run_that_replaced_files(story: Story) -> None:
    story.tail_entries = 1
    for _ in range(3):
        story.produce("t", 0, 10)
        story.load()
    first = iter([True])

    def replace_earlier_files(_: OffsetRange) -> None:
        if next(first, False):
            story.load('{"t":{"0":10}}', '{"t":{"0":30}}')

    story.produce("t", 0, 5)
    made = story.load(before_task=replace_earlier_files)
    assert made is not None
    assert [line.kind for line in made.history] == ["load", "load", "load", "reload", "load"]
    assert story.records() == story.produced()


def test_concurrent_runs_that_replace_entries_in_parts_conflict(story: Story) -> None:
    story.tail_entries = 1
    for _ in range(3):
        story.produce("t", 0, 10)
        story.load()
    first = iter([True])

    def replace_too(_: OffsetRange) -> None:
        if next(first, False):
            story.load('{"t":{"0":20}}')

    with pytest.raises(Conflict, match="published t-0"):
        story.load('{"t":{"0":10}}', before_task=replace_too)
    assert story.records() == story.produced()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: path.unlink(), "this part of a version does not exist"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"10", b"11")), "its bytes are not those"),
    ],
)
def test_a_part_that_is_missing_or_damaged_is_named(story: Story, harm: Callable[[Path], object], said: str) -> None:
    story.tail_entries = 1
    for _ in range(2):
        story.produce("t", 0, 10)
        story.load()
    stored = story.stored_version()
    assert stored is not None
    part = story.root / stored.parts[0].path
    harm(part)
    with pytest.raises(ReloadError, match=rf"{re.escape(stored.parts[0].path)}: .*{said}"):
        story.version()
    with pytest.raises(ReloadError, match=said):
        story.clean()
    story.produce("t", 0, 10)
    story.load()


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
