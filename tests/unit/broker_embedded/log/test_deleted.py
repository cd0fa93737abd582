import errno
import threading
from collections.abc import Callable

import pytest

from broker_embedded._log.deleted import DeletedDirectories, deleted_name, is_deleted_name
from broker_embedded._platform.platform import Platform
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem


@pytest.fixture
def files() -> FaultyFileSystem:
    files = FaultyFileSystem(MemoryFileSystem())
    files.make_directory("/data")
    return files


@pytest.fixture
def deleted(files: FaultyFileSystem) -> DeletedDirectories:
    return DeletedDirectories(Platform(file_system=files, max_open_files=4))


def names(files: FaultyFileSystem) -> list[str]:
    return [entry.name for entry in files.list_directory("/data")]


def mark(files: FaultyFileSystem, deleted: DeletedDirectories, partition: TopicPartition, due_ms: int) -> None:
    path = f"/data/{deleted_name(partition)}"
    files.rename(f"/data/{partition}", path)
    deleted.add(path, due_ms)


def test_a_directory_gets_another_name_and_goes_in_time(files: FaultyFileSystem, deleted: DeletedDirectories) -> None:
    files.make_directory("/data/t-0")
    mark(files, deleted, TopicPartition("t", 0), 100)
    (name,) = names(files)
    assert name.startswith("t-0.")
    assert is_deleted_name(name)
    assert deleted.remove_due(99) == 0
    assert names(files) == [name]
    assert deleted.remove_due(100) == 1
    assert names(files) == []
    assert deleted.remove_due(1000) == 0


def test_a_removed_directory_has_no_open_file(files: FaultyFileSystem) -> None:
    platform = Platform(file_system=files, max_open_files=4)
    deleted = DeletedDirectories(platform)
    files.make_directory("/data/t-0")
    mark(files, deleted, TopicPartition("t", 0), 100)
    (name,) = names(files)
    platform.open_files.create(f"/data/{name}/0.log")
    deleted.remove_due(100)
    assert not platform.open_files.close_oldest()


def test_names_fit_the_file_system(files: FaultyFileSystem, deleted: DeletedDirectories) -> None:
    partition = TopicPartition("t" * 249, 123456)
    files.make_directory(f"/data/{partition}")
    mark(files, deleted, partition, 100)
    (name,) = names(files)
    assert len(name) == 255
    assert is_deleted_name(name)


class SlowTime(int):
    """A time; with its first comparison ``meanwhile`` runs in another thread, until that ends or ``is_waiting``."""

    meanwhile: Callable[[], object]
    is_waiting: threading.Event
    thread: threading.Thread | None = None

    def __le__(self, other: int) -> bool:
        if self.thread is None:
            self.thread = threading.Thread(target=self._meanwhile)
            self.thread.start()
            assert self.is_waiting.wait(30)
        return int(self) <= other

    def _meanwhile(self) -> None:
        self.meanwhile()
        self.is_waiting.set()


class WatchedLock:
    """A lock that sets ``is_waiting`` when a thread has to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_waiting = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.is_waiting.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_of_two_threads_one_removes_a_directory(
    files: FaultyFileSystem, deleted: DeletedDirectories, caplog: pytest.LogCaptureFixture
) -> None:
    lock = WatchedLock()
    deleted._lock = lock  # type: ignore[assignment]  # a lock as far as it is used
    counts: list[int] = []
    files.make_directory("/data/t-0")
    due = SlowTime(1)
    due.is_waiting = lock.is_waiting
    due.meanwhile = lambda: counts.append(deleted.remove_due(1))
    mark(files, deleted, TopicPartition("t", 0), due)
    counts.append(deleted.remove_due(1))
    assert due.thread is not None
    due.thread.join(30)
    assert (sorted(counts), caplog.text) == ([0, 1], "")


@pytest.mark.parametrize("name", ["t-0", "t-0.123-delete", "t-0-delete", "t.0123456789abcdef0123456789abcdef-delete"])
def test_other_directories_are_none(name: str) -> None:
    assert not is_deleted_name(name)


def test_a_directory_that_cannot_be_removed_does_not_prevent_the_removal_of_others(
    files: FaultyFileSystem, deleted: DeletedDirectories, caplog: pytest.LogCaptureFixture
) -> None:
    for topic in "ab":
        files.make_directory(f"/data/{topic}-0")
        mark(files, deleted, TopicPartition(topic, 0), 1)
    files.fail("remove_tree a-*")
    assert deleted.remove_due(1) == 1
    assert [name[0] for name in names(files)] == ["a"]
    assert "cannot be removed" in caplog.text
    files.heal()
    assert deleted.remove_due(1) == 0


def test_without_descriptors_a_directory_is_removed_later(files: FaultyFileSystem, deleted: DeletedDirectories) -> None:
    files.make_directory("/data/t-0")
    mark(files, deleted, TopicPartition("t", 0), 100)
    files.fail("remove_tree *", errno.EMFILE)
    assert deleted.remove_due(100) == 0
    files.heal()
    assert deleted.remove_due(100) == 1
    assert names(files) == []
