import random
from collections.abc import Callable
from uuid import UUID

import pytest

from broker_embedded._log import checkpoints
from broker_embedded._log.checkpoints import CorruptCheckpoint, MetaProperties
from broker_embedded._platform.platform import read_file, write_file
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem, SimulatedCrash

PATH = "/file"
TOPIC_ID = UUID("62cec22a-8b0d-4d4f-9c3f-5d2f2d8c1a77")


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


def test_offsets_are_written_as_kafka_does(disk: MemoryFileSystem) -> None:
    offsets = {TopicPartition("b-c", 10): 2**40, TopicPartition("a", 0): 0}
    checkpoints.write_offsets(disk, PATH, offsets)
    assert read_file(disk, PATH) == b"0\n2\na 0 0\nb-c 10 1099511627776\n"
    assert checkpoints.read_offsets(disk, PATH) == offsets


@pytest.mark.parametrize("raw", [None, b"", b"0\n0\n"])
def test_a_checkpoint_without_entries_or_without_a_file_is_empty(disk: MemoryFileSystem, raw: bytes | None) -> None:
    if raw is not None:
        write_file(disk, PATH, raw)
    assert checkpoints.read_offsets(disk, PATH) == {}


@pytest.mark.parametrize(
    ("read", "raw", "problem"),
    [
        (checkpoints.read_offsets, b"1\n0\n", "format '1' is not 0"),
        (checkpoints.read_offsets, b"0\n", "the number of entries is 0, the file says nothing"),
        (checkpoints.read_offsets, b"0\n1\na 0 1", "cut off within a line"),
        (checkpoints.read_offsets, b"0\n2\na 0 1\n", "the number of entries is 1, the file says 2"),
        (checkpoints.read_offsets, b"0\n1\na 0\n", "does not have 3 words"),
        (checkpoints.read_offsets, b"0\n1\na x 5\n", "invalid literal"),
        (checkpoints.read_offsets, b"0\n1\na 0 five\n", "invalid literal"),
        (checkpoints.read_offsets, b"\xff\xfe", "not UTF-8 text"),
        (checkpoints.read_offsets, b"garbage\n", "format 'garbage'"),
        (checkpoints.read_partition_metadata, b"version: 0\n", ""),
        (checkpoints.read_partition_metadata, b"topic_id: Ys7CKosNTU-cP10vLYwadw\n", ""),
        (checkpoints.read_partition_metadata, b"version: x\ntopic_id: Ys7CKosNTU-cP10vLYwadw", ""),
        (checkpoints.read_partition_metadata, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", ""),
        (checkpoints.read_partition_metadata, b"version: 0\ntopic_id: !!", ""),
        (checkpoints.read_meta_properties, b"version=2\n", "version must be 0 or 1, not '2'"),
        (checkpoints.read_meta_properties, b"version=1\nnode.id=1\n", "cluster.id is missing"),
        (checkpoints.read_meta_properties, b"version=1\ncluster.id=a\n", "node.id is missing"),
        (checkpoints.read_meta_properties, b"version=1\ncluster.id=a\nnode.id=one\n", "invalid literal"),
        (checkpoints.read_meta_properties, b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=x\n", "no base64 id"),
    ],
)
def test_a_corrupt_checkpoint_is_refused_with_the_reason(
    disk: MemoryFileSystem, read: Callable[[MemoryFileSystem, str], object], raw: bytes, problem: str
) -> None:
    write_file(disk, PATH, raw)
    with pytest.raises(CorruptCheckpoint, match=r"^/file: ") as caught:
        read(disk, PATH)
    assert problem in str(caught.value)


def test_a_checkpoint_cut_off_anywhere_is_noticed(disk: MemoryFileSystem) -> None:
    checkpoints.write_offsets(disk, PATH, {TopicPartition("a", 0): 100, TopicPartition("b", 1): 20})
    whole = read_file(disk, PATH)
    for length in range(1, len(whole)):
        write_file(disk, PATH, whole[:length])
        with pytest.raises(CorruptCheckpoint):
            checkpoints.read_offsets(disk, PATH)


def test_partition_metadata_has_the_topic_id(disk: MemoryFileSystem) -> None:
    assert checkpoints.read_partition_metadata(disk, PATH) is None
    checkpoints.write_partition_metadata(disk, PATH, TOPIC_ID)
    assert read_file(disk, PATH) == b"version: 0\ntopic_id: Ys7CKosNTU-cP10vLYwadw"
    assert checkpoints.read_partition_metadata(disk, PATH) == TOPIC_ID


def test_meta_properties_are_those_of_kafka(disk: MemoryFileSystem) -> None:
    meta = MetaProperties(cluster_id="my-cluster", node_id=3, directory_id=TOPIC_ID)
    assert checkpoints.read_meta_properties(disk, PATH) is None
    checkpoints.write_meta_properties(disk, PATH, meta)
    assert read_file(disk, PATH) == (
        b"cluster.id=my-cluster\ndirectory.id=Ys7CKosNTU-cP10vLYwadw\nnode.id=3\nversion=1\n"
    )
    assert checkpoints.read_meta_properties(disk, PATH) == meta


def test_meta_properties_of_kafka_read(disk: MemoryFileSystem) -> None:
    write_file(disk, PATH, b"#\n#Thu Nov 20 12:00:00 UTC 2025\nbroker.id=7\nversion=0\ncluster.id=abc\n")
    found = checkpoints.read_meta_properties(disk, PATH)
    assert found is not None
    assert (found.cluster_id, found.node_id) == ("abc", 7)


def offsets(files: FaultyFileSystem, value: int) -> None:
    checkpoints.write_offsets(files, PATH, {TopicPartition("t", 0): value})


def metadata(files: FaultyFileSystem, value: int) -> None:
    checkpoints.write_partition_metadata(files, PATH, UUID(int=value))


@pytest.mark.parametrize("write", [offsets, metadata])
def test_a_crash_leaves_the_old_or_the_new_file(write: Callable[[FaultyFileSystem, int], None]) -> None:
    probe = FaultyFileSystem(MemoryFileSystem())
    write(probe, 1)
    old = read_file(probe, PATH)
    write(probe, 2)
    new = read_file(probe, PATH)
    for step in range(len(probe.steps) // 2 + 1):
        for seed in range(10):
            disk = MemoryFileSystem()
            faults = FaultyFileSystem(disk)
            write(faults, 1)
            faults.revive()
            faults.crash_at, faults.torn = step, True
            finished = step == len(probe.steps) // 2
            if finished:
                write(faults, 2)
            else:
                with pytest.raises(SimulatedCrash):
                    write(faults, 2)
            disk.crash(random.Random(seed) if seed else None)
            assert read_file(disk, PATH) in ({new} if finished else {old, new})
