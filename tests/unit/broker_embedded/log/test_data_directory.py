"""A data directory: made, locked, claimed, and which logs are in it. Whole starts are in test_manager."""

from uuid import UUID

import pytest

from broker_embedded.log.checkpoints import CorruptCheckpoint
from broker_embedded.log.data_directory import DataDirectory
from broker_embedded.log.deleted import DeletedDirectories
from broker_embedded.platform.platform import Platform
from spark_kafka_native.protocol.topic import TopicPartition
from tests.support.disk import MemoryFileSystem


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


def test_one_holder_at_a_time(disk: MemoryFileSystem) -> None:
    first, second = DataDirectory("/a/b", disk), DataDirectory("/a/b", disk)
    first.lock()
    assert first.locked
    with pytest.raises(OSError, match="in use by another broker"):
        second.lock()
    assert not second.locked
    first.unlock()
    first.unlock()
    second.lock()
    assert str(second) == second.path == "/a/b"


def test_a_new_directory_survives_a_crash_as_it_was_claimed(disk: MemoryFileSystem) -> None:
    directory = DataDirectory("/a/b", disk)
    directory.lock()
    meta = directory.claim(3, "mine")
    assert (meta.node_id, meta.cluster_id, meta.directory_id != UUID(int=0)) == (3, "mine", True)
    disk.crash()
    assert directory.claim(3, None) == meta
    with pytest.raises(CorruptCheckpoint, match="belongs to cluster mine, not yours"):
        directory.claim(3, "yours")
    with pytest.raises(CorruptCheckpoint, match=r"belongs to node 3, not 4; is it node\.id=3\?"):
        directory.claim(4, None)


def test_the_word_of_a_clean_shutdown_is_taken_once(disk: MemoryFileSystem) -> None:
    directory = DataDirectory("/data", disk)
    directory.lock()
    assert not directory.take_clean_shutdown()
    directory.leave_clean_shutdown()
    disk.crash()
    assert directory.take_clean_shutdown()
    disk.crash()
    assert not directory.take_clean_shutdown()


def test_logs_and_what_is_none(disk: MemoryFileSystem) -> None:
    directory = DataDirectory("/data", disk)
    directory.lock()
    aside = "t-3.0123456789abcdef0123456789abcdef-stray"
    gone = "t-1.0123456789abcdef0123456789abcdef-delete"
    for name in ("t-0", "a-b-12", gone, aside, "lost+found", "__cluster_metadata-0", "remote-log-index-cache"):
        disk.make_directory(directory.file(name))
    disk.create(directory.file("some-file"))
    deleted = DeletedDirectories(Platform(file_system=disk, max_open_files=4))
    assert directory.find_logs(deleted, elapsed_ms=7) == [TopicPartition("a-b", 12), TopicPartition("t", 0)]
    assert (deleted.remove_due(6), deleted.remove_due(7)) == (0, 1)
    assert disk.exists(directory.file(aside))
    disk.make_directory("/data/nonsense")
    with pytest.raises(OSError, match="a data directory must contain only logs"):
        directory.find_logs(deleted, elapsed_ms=7)
