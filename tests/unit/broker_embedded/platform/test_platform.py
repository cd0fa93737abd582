import gc
import os
import random
from pathlib import Path

import pytest

from broker_embedded._platform.platform import (
    FileSystem,
    ManualClock,
    Platform,
    RealFileSystem,
    SystemClock,
    read_file,
    remove_if_exists,
    write_file,
)
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem, SimulatedCrash


@pytest.fixture(params=["real", "memory", "faulty"])
def files(request: pytest.FixtureRequest) -> FileSystem:
    if request.param == "real":
        return RealFileSystem()
    return MemoryFileSystem() if request.param == "memory" else FaultyFileSystem(MemoryFileSystem())


@pytest.fixture
def base(files: FileSystem, tmp_path: Path) -> str:
    """An empty directory on each of the file systems."""
    if isinstance(files, RealFileSystem):
        return str(tmp_path)
    files.make_directory("/base")
    return "/base"


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_write_and_read_at_positions(files: FileSystem, base: str) -> None:
    file = files.create(f"{base}/a")
    file.write_at(0, b"hello world")
    file.write_at(6, memoryview(b"there"))
    assert (file.size(), file.read_at(0, 100), file.read_at(6, 2), file.read_at(11, 5)) == (
        11,
        b"hello there",
        b"th",
        b"",
    )
    file.write_at(13, bytearray(b"!"))
    assert file.read_at(10, 5) == b"e\0\0!"
    file.truncate(5)
    assert files.open(f"{base}/a").read_at(0, 100) == b"hello"
    file.truncate(7)
    assert file.read_at(0, 100) == b"hello\0\0"


def test_create_replaces_and_open_does_not_make(files: FileSystem, base: str) -> None:
    files.create(f"{base}/a").write_at(0, b"old")
    assert files.create(f"{base}/a").size() == 0
    with pytest.raises(FileNotFoundError):
        files.open(f"{base}/b")
    assert not files.exists(f"{base}/b")


def test_directories_list_their_entries_by_name(files: FileSystem, base: str) -> None:
    files.create(f"{base}/b").write_at(0, b"12345")
    files.make_directory(f"{base}/c")
    files.create(f"{base}/a")
    files.create(f"{base}/c/inner")
    listed = [(entry.name, entry.is_directory, entry.size) for entry in files.list_directory(base)]
    assert listed == [("a", False, 0), ("b", False, 5), ("c", True, 0)]
    with pytest.raises(FileExistsError):
        files.make_directory(f"{base}/c")
    files.remove_tree(f"{base}/c")
    assert not files.exists(f"{base}/c/inner")
    with pytest.raises(FileNotFoundError):
        files.list_directory(f"{base}/c")


def test_a_volume_has_bytes_and_some_of_them_left(files: FileSystem, base: str) -> None:
    total, left = files.volume(base)
    assert 0 < left <= total
    with pytest.raises(FileNotFoundError):
        files.volume(f"{base}/missing")


def test_rename_replaces_and_moves_directories(files: FileSystem, base: str) -> None:
    files.create(f"{base}/a").write_at(0, b"new")
    files.create(f"{base}/b").write_at(0, b"old")
    files.rename(f"{base}/a", f"{base}/b")
    assert read_file(files, f"{base}/b") == b"new"
    files.make_directory(f"{base}/d")
    files.create(f"{base}/d/x")
    files.rename(f"{base}/d", f"{base}/e")
    assert files.exists(f"{base}/e/x")
    assert not files.exists(f"{base}/d")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{base}/nothing", f"{base}/b")


def test_removed_file_stays_readable_for_who_has_it_open(files: FileSystem, base: str) -> None:
    file = files.create(f"{base}/a")
    file.write_at(0, b"still here")
    assert remove_if_exists(files, f"{base}/a")
    assert not remove_if_exists(files, f"{base}/a")
    assert file.read_at(0, 100) == b"still here"


def test_a_lock_excludes_a_second_holder_in_the_same_process(files: FileSystem, base: str) -> None:
    lock = files.lock(f"{base}/.lock")
    with pytest.raises(BlockingIOError):
        files.lock(f"{base}/.lock")
    lock.release()
    lock.release()
    files.lock(f"{base}/.lock").release()


def test_write_file_is_all_or_nothing_at_every_step() -> None:
    probe = FaultyFileSystem(MemoryFileSystem())
    write_file(probe, "/name", b"new")
    assert probe.steps == ["create name.tmp", "write name.tmp", "sync name.tmp", "rename name.tmp", "sync_directory "]
    for step in range(len(probe.steps)):
        for seed in range(8):
            disk = MemoryFileSystem()
            write_file(disk, "/name", b"old")
            faults = FaultyFileSystem(disk)
            faults.crash_at, faults.torn = step, True
            with pytest.raises(SimulatedCrash):
                write_file(faults, "/name", b"new")
            disk.crash(random.Random(seed) if seed else None)
            assert read_file(disk, "/name") in {b"old", b"new"}
    disk = MemoryFileSystem()
    write_file(disk, "/name", b"new")
    disk.crash()
    assert read_file(disk, "/name") == b"new"


def test_descriptors_close_with_the_last_reference(tmp_path: Path) -> None:
    gc.collect()  # what earlier tests have left
    before = descriptors()
    file = RealFileSystem().create(str(tmp_path / "a"))
    assert descriptors() == before + 1
    kept = file
    del file
    assert descriptors() == before + 1
    assert os.fstat(kept.fileno()).st_size == 0
    del kept
    gc.collect()
    assert descriptors() == before


def test_a_full_real_disk_raises() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with pytest.raises(OSError, match="No space left"):
        RealFileSystem().open("/dev/full").write_at(0, b"x" * 10)


def test_modified_time_is_that_of_the_last_write(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    os.utime(path, ns=(5_000_000, 7_000_000))
    assert RealFileSystem().modified_ms(str(path)) == 7
    clock = ManualClock(100)
    disk = MemoryFileSystem(clock)
    file = disk.create("/a")
    clock.advance(5)
    file.write_at(0, b"x")
    clock.advance(5)
    assert disk.modified_ms("/a") == 105


def test_modified_time_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    disk = MemoryFileSystem(ManualClock(100))
    disk.create("/a")
    for files, name in ((RealFileSystem(), str(path)), (disk, "/a")):
        files.set_modified_ms(name, 1_700_000_000_123)
        assert files.modified_ms(name) == 1_700_000_000_123
        with pytest.raises(FileNotFoundError):
            files.set_modified_ms(name + "-missing", 5)


def test_the_default_platform_is_the_real_one() -> None:
    platform = Platform()
    assert isinstance(platform.clock, SystemClock)
    assert isinstance(platform.file_system, RealFileSystem)


def test_a_crash_loses_what_was_not_synced() -> None:
    disk = MemoryFileSystem()
    synced, unsynced = disk.create("/synced"), disk.create("/unsynced")
    disk.sync_directory("/")
    synced.write_at(0, b"kept")
    synced.sync()
    synced.write_at(4, b" not this")
    unsynced.write_at(0, b"lost")
    disk.create("/no-name").sync()
    disk.remove("/unsynced")
    disk.crash()
    assert read_file(disk, "/synced") == b"kept"
    assert read_file(disk, "/unsynced") == b""
    assert not disk.exists("/no-name")


def test_a_crash_by_chance_keeps_a_beginning_of_the_writes() -> None:
    seen = set()
    for seed in range(60):
        disk = MemoryFileSystem()
        file = disk.create("/a")
        disk.sync_directory("/")
        file.write_at(0, b"aa")
        file.write_at(2, b"bb")
        disk.crash(random.Random(seed))
        seen.add(read_file(disk, "/a"))
    assert seen == {b"", b"a", b"aa", b"aab", b"aabb"}


def test_files_from_before_a_crash_are_stale() -> None:
    disk = MemoryFileSystem()
    file = disk.create("/a")
    disk.crash()
    with pytest.raises(AssertionError, match="before a crash"):
        file.size()


def test_faults_are_named_counted_and_healed() -> None:
    faults = FaultyFileSystem(MemoryFileSystem())
    file = faults.create("/a")
    faults.fail("write a")
    with pytest.raises(OSError, match="Input/output error"):
        file.write_at(0, b"x")
    faults.heal()
    faults.space = 3
    with pytest.raises(OSError, match="No space left"):
        file.write_at(0, b"12345")
    assert file.read_at(0, 9) == b"123"
    faults.heal()
    faults.crash_at = "rename *"
    with pytest.raises(SimulatedCrash):
        faults.rename("/a", "/b")
    with pytest.raises(SimulatedCrash):
        file.sync()
    faults.revive()
    file.sync()
    assert faults.steps == ["sync a"]
