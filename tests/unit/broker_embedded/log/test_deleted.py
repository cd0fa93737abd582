"""Directories of deleted logs: their names, and when they go."""

import threading
from collections.abc import Callable

import pytest

from broker_embedded.log.deleted import DeletedDirectories
from spark_kafka_native.protocol.topic import TopicPartition
from tests.support.disk import FaultyFileSystem, MemoryFileSystem
from tests.support.waiting import eventually


@pytest.fixture
def files() -> FaultyFileSystem:
    files = FaultyFileSystem(MemoryFileSystem())
    files.make_directory("/data")
    return files


def names(files: FaultyFileSystem) -> list[str]:
    return [entry.name for entry in files.list_directory("/data")]


def test_a_directory_gets_another_name_and_goes_in_time(files: FaultyFileSystem) -> None:
    files.make_directory("/data/t-0")
    deleted = DeletedDirectories(files, "/data")
    deleted.mark(TopicPartition("t", 0), due_ms=100)
    (name,) = names(files)
    assert name.startswith("t-0.")
    assert deleted.is_one(name)
    assert deleted.remove_due(99) == 0
    assert names(files) == [name]
    assert deleted.remove_due(100) == 1
    assert names(files) == []
    assert deleted.remove_due(1000) == 0


def test_names_fit_the_file_system(files: FaultyFileSystem) -> None:
    partition = TopicPartition("t" * 249, 123456)
    files.make_directory(f"/data/{partition}")
    deleted = DeletedDirectories(files, "/data")
    deleted.mark(partition, due_ms=100)
    (name,) = names(files)
    assert len(name) == 255
    assert deleted.is_one(name)


def test_what_an_earlier_run_left_goes(files: FaultyFileSystem) -> None:
    files.make_directory("/data/t-0.0123456789abcdef0123456789abcdef-delete")
    deleted = DeletedDirectories(files, "/data")
    deleted.found("t-0.0123456789abcdef0123456789abcdef-delete", 5)
    assert deleted.remove_due(5) == 1
    assert names(files) == []


class SlowTime(int):
    """A time; with each comparison ``meanwhile`` has its chance in another thread."""

    meanwhile: Callable[[], object]

    def __le__(self, other: int) -> bool:
        thread = threading.Thread(target=self.meanwhile)
        thread.start()
        thread.join(0.05)
        return int(self) <= other


def test_of_two_threads_one_removes_a_directory(files: FaultyFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    deleted = DeletedDirectories(files, "/data")
    counts: list[int] = []
    files.make_directory("/data/t-0")
    due = SlowTime(1)
    done = threading.Event()

    def remove_too() -> None:
        if not done.is_set():
            done.set()
            counts.append(deleted.remove_due(1))

    due.meanwhile = remove_too
    deleted.mark(TopicPartition("t", 0), due)
    counts.append(deleted.remove_due(1))
    eventually(lambda: len(counts) == 2)
    assert (sorted(counts), caplog.text) == ([0, 1], "")


@pytest.mark.parametrize("name", ["t-0", "t-0.123-delete", "t-0-delete", "t.0123456789abcdef0123456789abcdef-delete"])
def test_other_directories_are_none(name: str) -> None:
    assert not DeletedDirectories.is_one(name)


def test_one_that_cannot_go_does_not_keep_the_others(files: FaultyFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    deleted = DeletedDirectories(files, "/data")
    for topic in "ab":
        files.make_directory(f"/data/{topic}-0")
        deleted.mark(TopicPartition(topic, 0), due_ms=1)
    files.fail("remove_tree a-*")
    assert deleted.remove_due(1) == 2
    assert [name[0] for name in names(files)] == ["a"]
    assert "cannot be removed before the next start" in caplog.text
