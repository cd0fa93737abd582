import os
import resource
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_embedded._platform.open_files import OpenFiles
from broker_embedded._platform.platform import Platform, RealFileSystem
from tests.support.broker.disk import MemoryFileSystem


@dataclass
class Owner:
    path: str


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_open_files_keep_the_latest_and_close_the_rest(tmp_path: Path) -> None:
    cache = OpenFiles(RealFileSystem(), capacity=2)
    before = descriptors()
    for name in "abcd":
        cache.create(str(tmp_path / name)).write_at(0, name.encode())
    assert descriptors() == before + 2
    held = cache.get(str(tmp_path / "a"))
    cache.get(str(tmp_path / "b"))
    cache.get(str(tmp_path / "c"))
    assert descriptors() == before + 3
    assert held.read_at(0, 1) == b"a"
    assert cache.get(str(tmp_path / "c")) is cache.get(str(tmp_path / "c"))


def test_open_files_forget_what_is_renamed(tmp_path: Path) -> None:
    files = RealFileSystem()
    cache = OpenFiles(files, capacity=8)
    path, other = str(tmp_path / "a"), str(tmp_path / "b")
    cache.create(path).write_at(0, b"first")
    cache.forget(path)
    files.rename(path, other)
    with pytest.raises(FileNotFoundError):
        cache.get(path)
    cache.create(path).write_at(0, b"second")
    assert (cache.get(path).read_at(0, 9), cache.get(other).read_at(0, 9)) == (b"second", b"first")


def test_files_that_are_only_cached_are_closed_when_descriptors_run_out(tmp_path: Path) -> None:
    platform = Platform()
    paths = [str(tmp_path / str(number)) for number in range(20)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 8, hard))
    try:
        for path in paths:
            platform.open_files.create(path).write_at(0, path.encode())
        platform.file_system.sync_directory(str(tmp_path))
        assert len(platform.file_system.list_directory(str(tmp_path))) == 20
        held = [platform.open_files.get(path) for path in paths[:4]]
        assert [file.read_at(0, 1000) for file in held] == [path.encode() for path in paths[:4]]
        with pytest.raises(OSError, match="Too many open files"):
            held += [platform.open_files.get(path) for path in paths]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_closed_owner_never_gets_another_file_of_its_name(tmp_path: Path) -> None:
    cache, owner = OpenFiles(RealFileSystem(), capacity=8), Owner(str(tmp_path / "a"))
    cache.create(owner.path).write_at(0, b"old")
    assert cache.of(owner).read_at(0, 9) == b"old"
    cache.close(owner)
    cache.create(str(tmp_path / "a"))
    with pytest.raises(FileNotFoundError, match="closed or deleted"):
        cache.of(owner)


def test_open_files_serve_many_threads(tmp_path: Path) -> None:
    cache = OpenFiles(RealFileSystem(), capacity=3)
    paths = [str(tmp_path / str(number)) for number in range(10)]
    for path in paths:
        cache.create(path).write_at(0, path.encode())
    wrong: list[str] = []

    def read() -> None:
        for _ in range(20):
            wrong.extend(path for path in paths if cache.get(path).read_at(0, 1000) != path.encode())

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_file_whose_name_is_taken_over_is_still_its_owners() -> None:
    """As in a compaction: the old log leaves its name to the new one, and both have readers."""
    files = MemoryFileSystem()
    open_files = OpenFiles(files, 4)
    old, new = Owner("/a"), Owner("/b")
    for part, content in ((old, b"old"), (new, b"new")):
        files.create(part.path).write_at(0, content)
        assert open_files.of(part).read_at(0, 9) == content
    open_files.rename(old, "/gone")
    open_files.rename(new, "/a")
    assert (open_files.of(old).read_at(0, 9), open_files.of(new).read_at(0, 9)) == (b"old", b"new")
    assert open_files.get("/a").read_at(0, 9) == b"new"
