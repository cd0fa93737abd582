import pytest

from broker_embedded._log.checkpoints import CorruptCheckpoint
from broker_embedded._log.leader_epochs import LeaderEpochFileCache
from broker_embedded._platform.platform import read_file, write_file
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem

PATH = "/leader-epoch-checkpoint"


@pytest.fixture
def files() -> FaultyFileSystem:
    return FaultyFileSystem(MemoryFileSystem())


@pytest.fixture
def epochs(files: FaultyFileSystem) -> LeaderEpochFileCache:
    return LeaderEpochFileCache(PATH, files)


def test_epochs_begin_with_their_first_batch(epochs: LeaderEpochFileCache) -> None:
    for epoch, offset in [(0, 0), (0, 10), (2, 20), (2, 30), (1, 40), (3, 50)]:
        epochs.assign(epoch, offset)
    assert epochs.entries == ((0, 0), (2, 20), (3, 50))
    assert epochs.latest == 3
    assert [epochs.epoch_of(offset) for offset in (0, 19, 20, 49, 50, 99)] == [0, 0, 2, 2, 3, 3]


def test_epoch_minus_1_is_not_stored(epochs: LeaderEpochFileCache) -> None:
    epochs.assign(-1, 0)
    assert (epochs.latest, epochs.epoch_of(5), epochs.entries, epochs.end_of(0, 77)) == (None, None, (), None)


def test_an_epoch_without_records_gives_way(epochs: LeaderEpochFileCache) -> None:
    epochs.assign(0, 0)
    epochs.assign(1, 10)
    epochs.assign(2, 10)
    assert epochs.entries == ((0, 0), (2, 10))


def test_truncation_from_the_end(epochs: LeaderEpochFileCache) -> None:
    for epoch in range(4):
        epochs.assign(epoch, epoch * 10)
    epochs.truncate_from_end(20)
    assert epochs.entries == ((0, 0), (1, 10))
    epochs.assign(7, 15)
    assert epochs.latest == 7


def test_an_epoch_that_wrote_nothing_is_remembered(files: FaultyFileSystem, epochs: LeaderEpochFileCache) -> None:
    assert epochs.highest == 0
    write_file(files, PATH, b"0\n2\n0 0\n5 10\n")
    epochs.load()
    epochs.truncate_from_end(10)
    assert (epochs.latest, epochs.highest) == (0, 5)
    epochs.assign(7, 10)
    assert epochs.highest == 7


def test_truncation_from_the_start_keeps_the_epoch_of_the_log_start_offset(epochs: LeaderEpochFileCache) -> None:
    for epoch in range(4):
        epochs.assign(epoch, epoch * 10)
    for start_offset, left in [(15, [(1, 15), (2, 20), (3, 30)]), (20, [(2, 20), (3, 30)]), (0, [(2, 20), (3, 30)])]:
        epochs.truncate_from_start(start_offset)
        assert list(epochs.entries) == left


def test_the_file_is_kafkas_and_written_only_when_something_changed(
    files: FaultyFileSystem, epochs: LeaderEpochFileCache
) -> None:
    epochs.assign(0, 0)
    epochs.assign(5, 1234)
    assert epochs.save_if_changed()
    assert read_file(files, PATH) == b"0\n2\n0 0\n5 1234\n"
    steps = len(files.steps)
    assert not epochs.save_if_changed()
    epochs.assign(5, 2000)
    assert not epochs.save_if_changed()
    assert len(files.steps) == steps
    again = LeaderEpochFileCache(PATH, files)
    again.load()
    assert again.entries == epochs.entries
    again.save_if_changed()
    assert len(files.steps) == steps


@pytest.mark.parametrize("raw", [b"0\n1\n0 x\n", b"0\n2\n1 0\n0 5\n", b"0\n2\n0 9\n1 5\n", b"0\n9\n"])
def test_a_damaged_file_is_noticed(files: FaultyFileSystem, epochs: LeaderEpochFileCache, raw: bytes) -> None:
    write_file(files, PATH, raw)
    with pytest.raises(CorruptCheckpoint):
        epochs.load()
    assert epochs.entries == ()


def test_clear_removes_all_entries(files: FaultyFileSystem, epochs: LeaderEpochFileCache) -> None:
    epochs.assign(3, 0)
    epochs.save_if_changed()
    epochs.clear()
    assert (epochs.entries, epochs.latest) == ((), None)
    assert epochs.save_if_changed()
    assert read_file(files, PATH) == b"0\n0\n"


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, None), (0, (0, 5)), (1, (1, 10)), (2, (2, 30)), (3, (2, 30)), (4, (2, 30)), (5, (5, 77)), (6, None)],
)
def test_the_end_offset_of_an_epoch(epochs: LeaderEpochFileCache, epoch: int, expected: tuple[int, int] | None) -> None:
    for known, offset in ((1, 5), (2, 10), (5, 30)):
        epochs.assign(known, offset)
    assert epochs.end_of(epoch, 77) == expected
