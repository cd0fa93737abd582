import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.local_log import RetiredSegments
from broker_embedded._log.segment import LogSegment
from broker_embedded._platform.platform import Platform
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem


@pytest.fixture
def files() -> FaultyFileSystem:
    return FaultyFileSystem(MemoryFileSystem())


def segments(files: FaultyFileSystem, *base_offsets: int) -> list[LogSegment]:
    platform = Platform(file_system=files, max_open_files=4)
    return [LogSegment.create("", base_offset, LogConfig(), platform) for base_offset in base_offsets]


def names(files: FaultyFileSystem) -> list[str]:
    return [entry.name for entry in files.list_directory("/")]


def test_files_are_removed_when_their_time_has_come(files: FaultyFileSystem) -> None:
    retired = RetiredSegments(files)
    first, second, third = segments(files, 1, 2, 3)
    retired.add([first, second], due_ms=100)
    retired.add([third], due_ms=200)
    assert retired.take_due(99) == []
    due = retired.take_due(100)
    assert due == [first, second]
    assert retired.remove(due) == 6
    assert {name.lstrip("0") for name in names(files)} == {"3.log", "3.index", "3.timeindex"}
    assert retired.take_due(100) == []
    assert retired.take_due(1000) == [third]


def test_a_file_that_cannot_be_removed_does_not_prevent_the_removal_of_others(
    files: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    retired = RetiredSegments(files)
    (segment,) = segments(files, 1)
    files.remove(segment.path)
    files.fail("remove *1.index")
    assert retired.remove([segment]) == 1
    assert [name.lstrip("0") for name in names(files)] == ["1.index"]
    assert "1.index cannot be removed" in caplog.text


def test_a_removed_segment_never_opens_another_file_of_its_name(files: FaultyFileSystem) -> None:
    retired = RetiredSegments(files)
    removed, kept = segments(files, 1, 2)
    removed.file().write_at(0, b"old")
    retired.remove([removed])
    segments(files, 1)
    with pytest.raises(FileNotFoundError, match="closed or deleted"):
        removed.file()
    retired.add([kept], due_ms=100)
    retired.close()
    with pytest.raises(FileNotFoundError, match="closed or deleted"):
        kept.file()
