import re
from uuid import UUID

import pytest

from broker_embedded._log.checkpoints import CorruptCheckpoint
from broker_embedded._log.data_directory import DataDirectory, parse_directory_name
from broker_embedded._log.deleted import DeletedDirectories
from broker_embedded._platform.platform import Platform, read_file
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.disk import MemoryFileSystem

TOPIC_ID = UUID("62cec22a-8b0d-4d4f-9c3f-5d2f2d8c1a77")


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


def test_a_data_directory_is_locked_by_one_holder_at_a_time(disk: MemoryFileSystem) -> None:
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
    meta = directory.claim(3, "mine", 1)
    assert (meta.node_id, meta.cluster_id, meta.directory_id != UUID(int=0)) == (3, "mine", True)
    disk.crash()
    assert directory.claim(3, None, 0) == meta
    with pytest.raises(CorruptCheckpoint, match="belongs to cluster mine, not yours"):
        directory.claim(3, "yours", 1)
    with pytest.raises(CorruptCheckpoint, match=r"belongs to node 3, not 4; set node\.id=3, or"):
        directory.claim(4, None, 1)


def test_the_clean_shutdown_file_is_deleted_when_it_is_read(disk: MemoryFileSystem) -> None:
    directory = DataDirectory("/data", disk)
    directory.lock()
    assert not directory.take_clean_shutdown()
    directory.leave_clean_shutdown()
    assert read_file(disk, "/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    disk.crash()
    assert directory.take_clean_shutdown()
    disk.crash()
    assert not directory.take_clean_shutdown()


@pytest.mark.parametrize(("other", "file"), [(".ci", None), (".ci", "run.sh"), ("version-2", "log.1")])
def test_a_directory_of_another_program_is_refused_and_unchanged(
    disk: MemoryFileSystem, other: str, file: str | None
) -> None:
    for name in ("", "/t-0", f"/{other}"):
        disk.make_directory(f"/data{name}")
    if file is not None:
        disk.create(f"/data/{other}/{file}")
    directory = DataDirectory("/data", disk)
    problem = f"not a Kafka data directory, because it contains {other!r}; use a new or an empty directory"
    with pytest.raises(OSError, match=f"^{re.escape(problem)}$"):
        directory.lock()
    assert [entry.name for entry in disk.list_directory("/data")] == sorted([other, "t-0"])
    disk.remove_tree(f"/data/{other}")
    directory.lock()


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata", f"{7:020}.log", f"{0:020}.snapshot"])
def test_a_directory_of_logs_without_meta_properties_is_accepted(disk: MemoryFileSystem, name: str) -> None:
    for directory in ("/data", "/data/version-2"):
        disk.make_directory(directory)
    for file in ("/data/notes.txt", f"/data/version-2/{name}"):
        disk.create(file)
    DataDirectory("/data", disk).lock()


@pytest.mark.parametrize(
    ("name", "partition"),
    [("t-0", TopicPartition("t", 0)), ("a-b-12", TopicPartition("a-b", 12)), ("a.b_c--7", TopicPartition("a.b_c-", 7))],
)
def test_a_partition_of_a_directory_name(name: str, partition: TopicPartition) -> None:
    assert parse_directory_name(name) == partition


@pytest.mark.parametrize("name", ["", "t", "t-", "-0", "t-x", "t--1x", "t-1.abc-delete", "t-\N{SUPERSCRIPT TWO}"])
def test_names_that_are_no_topic_partition(name: str) -> None:
    with pytest.raises(ValueError, match="is not of the form topic-partition"):
        parse_directory_name(name)


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
    with pytest.raises(OSError, match="move it out of the data directory"):
        directory.find_logs(deleted, elapsed_ms=7)
