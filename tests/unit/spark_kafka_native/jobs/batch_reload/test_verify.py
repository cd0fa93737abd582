from collections.abc import Callable
from pathlib import Path

import pytest

from spark_kafka_native._jobs.batch_reload.manifest import Entry, What
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.verify import MAX_TASKS, Checked, RangeVerdict, Report, check_entry, grouped
from tests.support.spark.reload_driver import ReloadDriver


@pytest.fixture
def entry(driver: ReloadDriver) -> Entry:
    driver.produce("t", 0, 10)
    driver.load()
    (made,) = driver.version().files
    return made


def checked(driver: ReloadDriver, entry: Entry, counted: int | None, *, compacted: bool = False) -> Checked:
    return check_entry(driver.storage, entry, counted, compacted=compacted)


@pytest.mark.feature("reload.verify")
def test_counts_are_compared_with_the_topic(driver: ReloadDriver, entry: Entry) -> None:
    assert checked(driver, entry, 10).verdict == RangeVerdict.SAME
    assert checked(driver, entry, None).verdict == RangeVerdict.AGED_OUT
    assert check_entry(driver.storage, entry, None, recreated=True).verdict == RangeVerdict.RECREATED
    assert checked(driver, entry, 9).verdict == RangeVerdict.DIFFERENT
    assert checked(driver, entry, 9, compacted=True).verdict == RangeVerdict.COMPACTED
    assert checked(driver, entry, 11, compacted=True).verdict == RangeVerdict.DIFFERENT


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.feature("reload.verify")
@pytest.mark.parametrize(
    ("harm", "verdict"),
    [
        (flip_a_bit, RangeVerdict.DAMAGED),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), RangeVerdict.DAMAGED),
        (lambda path: path.unlink(), RangeVerdict.MISSING),
    ],
)
def test_files_are_read_again(
    driver: ReloadDriver, entry: Entry, harm: Callable[[Path], object], verdict: RangeVerdict
) -> None:
    assert isinstance(driver.storage, LocalStorage)
    harm(driver.root / entry.path)
    assert checked(driver, entry, 10).verdict == verdict
    assert checked(driver, entry, None).verdict == verdict, "also when the topic has aged out"


def test_ranges_without_a_file(driver: ReloadDriver, entry: Entry) -> None:
    empty, lost = (
        Entry(topic="t", partition=0, from_offset=10, until_offset=12, load_id="l", what=what)
        for what in (What.EMPTY, What.LOST)
    )
    assert checked(driver, empty, 0).verdict == RangeVerdict.SAME
    assert checked(driver, empty, 1).verdict == RangeVerdict.DIFFERENT
    assert checked(driver, lost, None).verdict == RangeVerdict.NOT_KEPT


def entries(*sizes: int) -> list[Entry]:
    return [
        Entry(topic="t", partition=0, from_offset=number, until_offset=number + 1, load_id="l", bytes=size)
        for number, size in enumerate(sizes)
    ]


@pytest.mark.feature("reload.verify")
def test_tasks_have_about_the_same_to_read_and_are_not_too_many() -> None:
    small = grouped(entries(*[1000] * 24_000))
    assert 300 < len(small) <= MAX_TASKS + 1
    assert max(map(len, small)) < 80
    uneven = grouped(entries(*[1 << 30] * 5, *[1 << 20] * 64, 1 << 30))
    assert [len(group) for group in uneven] == [1] * 5 + [32, 32, 1]
    many = entries(*[1 << 28] * 3000)
    groups = grouped(many)
    assert len(groups) <= MAX_TASKS + 1
    assert [entry for group in groups for entry in group] == many
    assert grouped([]) == []


def test_report_is_correct_without_errors(driver: ReloadDriver, entry: Entry) -> None:
    good, bad = checked(driver, entry, 10), checked(driver, entry, 9)
    assert Report(version=1, problems=(), checked=(good,)).correct
    assert Report(version=1, problems=(), checked=(good, checked(driver, entry, None))).counted == 1
    assert not Report(version=1, problems=(), checked=(good, bad)).correct
    assert not Report(version=1, problems=("a gap",), checked=(good,)).correct
