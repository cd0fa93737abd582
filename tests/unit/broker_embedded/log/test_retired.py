"""Files that leave the disk a little after they left their log."""

import pytest

from broker_embedded.log.retired import RetiredFiles
from broker_embedded.platform import Platform
from tests.support.disk import FaultyFileSystem, MemoryFileSystem


@pytest.fixture
def files() -> FaultyFileSystem:
    faults = FaultyFileSystem(MemoryFileSystem())
    for name in "abc":
        faults.create(f"/{name}")
    return faults


def test_files_go_when_their_time_has_come(files: FaultyFileSystem) -> None:
    retired = RetiredFiles(Platform(file_system=files, max_open_files=4))
    retired.add(["/a", "/b"], due_ms=100)
    retired.add(["/c"], due_ms=200)
    assert retired.take_due(99) == []
    due = retired.take_due(100)
    assert due == ["/a", "/b"]
    assert retired.remove(due) == 2
    assert not files.exists("/a")
    assert files.exists("/c")
    assert retired.take_due(100) == []
    assert retired.take_due(1000) == ["/c"]


def test_a_file_that_is_gone_or_cannot_go_does_not_keep_the_others(
    files: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    retired = RetiredFiles(Platform(file_system=files, max_open_files=4))
    files.fail("remove b")
    assert retired.remove(["/nothing", "/b", "/c"]) == 1
    assert files.exists("/b")
    assert not files.exists("/c")
    assert "/b cannot be removed" in caplog.text


def test_a_file_that_goes_is_not_kept_open(files: FaultyFileSystem) -> None:
    platform = Platform(file_system=files, max_open_files=4)
    platform.open_files.get("/a").write_at(0, b"old")
    RetiredFiles(platform).remove(["/a"])
    files.create("/a")
    assert platform.open_files.get("/a").size() == 0
