import threading

import pytest

from broker_embedded._log.checkpoints import CleanedOffsets, OffsetCheckpoints
from broker_embedded._platform.platform import read_file
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def files() -> FaultyFileSystem:
    files = FaultyFileSystem(MemoryFileSystem())
    files.make_directory("/data")
    files.steps = []
    return files


def test_a_checkpoint_is_written_only_if_its_offsets_changed(files: FaultyFileSystem) -> None:
    checkpoints = OffsetCheckpoints(files, "/data")
    checkpoints.write("some", lambda: {T1: 5, T0: 3})
    assert read_file(files, "/data/some") == b"0\n2\nt 0 3\nt 1 5\n"
    files.steps = []
    checkpoints.write("some", lambda: {T0: 3, T1: 5})
    assert files.steps == []
    checkpoints.write("some", lambda: {T0: 4})
    assert checkpoints.read("some") == {T0: 4}


def test_a_checkpoint_whose_write_failed_is_written_the_next_time(files: FaultyFileSystem) -> None:
    checkpoints = OffsetCheckpoints(files, "/data")
    files.fail("rename some.tmp")
    with pytest.raises(OSError, match="Input/output"):
        checkpoints.write("some", lambda: {T0: 4})
    files.heal()
    checkpoints.write("some", lambda: {T0: 4})
    assert checkpoints.read("some") == {T0: 4}


def test_the_later_of_two_writing_threads_reads_the_later_offsets(files: FaultyFileSystem) -> None:
    checkpoints, offsets = OffsetCheckpoints(files, "/data"), {T0: 4, T1: 5}
    began, released, asked = threading.Event(), threading.Event(), threading.Event()

    def slowly() -> dict[TopicPartition, int]:
        began.set()
        assert released.wait(60)
        return dict(offsets)

    def asked_later() -> dict[TopicPartition, int]:
        asked.set()
        return offsets

    first = threading.Thread(target=lambda: checkpoints.write("some", slowly))
    later = threading.Thread(target=lambda: checkpoints.write("some", asked_later))
    first.start()
    assert began.wait(60)
    later.start()
    assert not asked.wait(0.05)
    del offsets[T0]
    released.set()
    first.join()
    later.join()
    assert checkpoints.read("some") == {T1: 5}


def test_an_unreadable_checkpoint_has_no_offsets(files: FaultyFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    checkpoints = OffsetCheckpoints(files, "/data")
    assert checkpoints.read("some") == {}
    files.create("/data/some").write_at(0, b"0\n1\nt 0 x\n")
    assert checkpoints.read("some") == {}
    assert "/data/some: " in caplog.text


def test_cleaned_offsets_are_written_lowered_and_removed(files: FaultyFileSystem) -> None:
    checkpoints = OffsetCheckpoints(files, "/data")
    cleaned = CleanedOffsets(checkpoints, "cleaned")
    cleaned.load()
    assert cleaned.get(T0) is None
    cleaned.put(T0, 10)
    cleaned.put(T1, 20)
    cleaned.cut(T1, 25)
    cleaned.cut(TopicPartition("u", 0), 3)
    assert checkpoints.read("cleaned") == {T0: 10, T1: 20}
    cleaned.cut(T1, 15)
    again = CleanedOffsets(OffsetCheckpoints(files, "/data"), "cleaned")
    again.load()
    assert (again.get(T0), again.get(T1)) == (10, 15)
    again.keep({T1: None})
    assert again.get(T0) is None
    assert checkpoints.read("cleaned") == {T1: 15}
    files.steps = []
    again.keep({T1: None})
    assert files.steps == []
    again.put(T0, 10, unless=lambda: True)
    again.put(T1, 20, unless=lambda: False)
    assert (again.get(T0), checkpoints.read("cleaned")) == (None, {T1: 20})
