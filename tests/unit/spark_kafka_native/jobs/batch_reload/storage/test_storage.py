"""What a load asks of its storage, of a directory and of an object store in memory alike; and what crashes leave."""

import os
import threading
from pathlib import Path

import pytest

from spark_kafka_native._jobs.batch_reload.errors import UsageError
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.storage.location import StorageLocation
from spark_kafka_native._jobs.batch_reload.storage.object_storage import ObjectStorage
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage, is_whole


def test_storage_creates_a_file_once(storage: Storage) -> None:
    storage.create("x/1.json", b"one")
    with pytest.raises(FileExistsError):
        storage.create("x/1.json", b"two")
    assert storage.read("x/1.json") == b"one"
    storage.put("x/1.json", b"three")
    assert storage.read("x/1.json") == b"three"
    assert list(storage.list("x")) == ["x/1.json"]


def test_storage_streams(storage: Storage) -> None:
    with storage.open_output("y/z/data") as stream:
        stream.write(b"ab")
        stream.write(b"c")
    with storage.open_input("y/z/data") as stream:
        assert stream.read() == b"abc"
    (stored,) = storage.list("y").values()
    assert stored.size == 3
    assert stored.modified_s > 1_700_000_000


def test_missing_files_of_a_storage(storage: Storage) -> None:
    assert storage.list("nothing") == {}
    storage.remove("nothing/at/all")
    with pytest.raises(FileNotFoundError):
        storage.read("nothing")
    with pytest.raises(FileNotFoundError), storage.open_input("nothing"):
        pass


def test_removed_files_are_not_listed(storage: Storage) -> None:
    storage.create("x/y/1", b"")
    storage.create("x/y/2", b"")
    storage.remove("x/y/1")
    assert list(storage.list("x")) == ["x/y/2"]
    storage.remove("x/y/2")
    assert storage.list("x") == {}


def test_storage_sample_has_top_level_names(storage: Storage) -> None:
    assert storage.sample("") == ()
    storage.create("x/y/1", b"")
    storage.create("x/y/2", b"")
    storage.create("file", b"")
    assert storage.sample("") == ("file", "x")
    assert storage.sample("x/y") == ("1", "2")
    assert storage.sample("nothing") == ()


def test_storage_sample_is_bounded(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("local", "object_storage"):
        monkeypatch.setattr(f"spark_kafka_native._jobs.batch_reload.storage.{module}.SAMPLE_SIZE", 2)
    for number in range(5):
        storage.create(f"{number}", b"")
    assert len(storage.sample("")) == 2


def test_prepared_storage_holds_nothing_yet(storage: Storage, tmp_path: Path) -> None:
    storage.prepare()
    storage.prepare()
    assert storage.sample("") == ()
    if isinstance(storage, LocalStorage):
        assert (tmp_path / "a" / "b").is_dir()


def test_concurrent_create_succeeds_once(storage: Storage) -> None:
    made: list[int] = []

    def make(number: int) -> None:
        try:
            storage.create("one", b"%d" % number)
        except FileExistsError:
            return
        made.append(number)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = made
    assert storage.read("one") == b"%d" % winner


def test_local_storage_removes_empty_directories(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.create("_loads/l/t/1", b"")
    storage.remove("_loads/l/t/1")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["_loads"]


def test_failed_create_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(str(tmp_path))

    def fail(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(OSError, match="no links here"):
        storage.create("x", b"1")
    assert storage.list("") == {}
    assert not is_whole("a/.creating-12")
    assert is_whole("a/0000000001.json")


def test_storage_locations(tmp_path: Path) -> None:
    assert StorageLocation(url=str(tmp_path)).open().url == str(tmp_path)
    with_space = StorageLocation(url=(tmp_path / "a b").as_uri()).open()
    assert with_space.url == str(tmp_path / "a b")
    assert with_space.location("x").endswith("/a b/x")
    assert isinstance(StorageLocation(url="memory://x").open(), ObjectStorage)
    secret = StorageLocation(url="s3://bucket/x", options=(("secret", "geheim"),))
    assert "geheim" not in repr(secret)
    with pytest.raises(UsageError, match="ftp://host/x: cannot publish there"):
        StorageLocation(url="ftp://host/x").open()
