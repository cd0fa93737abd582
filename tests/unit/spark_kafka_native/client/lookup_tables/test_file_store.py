import fcntl
import json
import os
import re
from pathlib import Path

import pytest

from spark_kafka_native._client.lookup_tables import file_store
from spark_kafka_native._client.lookup_tables.file_store import FileStore
from spark_kafka_native._client.partitioning.bucket_table import BucketTable
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError

T = BucketTable.create("t", 4, 12)
U = BucketTable.create("u", 2, 12)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables.json"


@pytest.fixture
def store(path: Path) -> FileStore:
    return FileStore(str(path))


def test_tables_are_created_replaced_and_deleted(store: FileStore) -> None:
    assert store.read() == {}
    assert store.change("t", lambda before: T if before is None else None) is T
    store.change("u", lambda _: U)
    wide = store.change("t", lambda before: None if before is None else before.reorganize(6))
    assert wide is not None
    found = store.read()
    assert set(found) == {"t", "u"}
    assert found["t"].same_as(T.reorganize(6))
    assert found["u"].same_as(U)
    assert set(store.read(["u", "v"])) == {"u"}
    assert store.change("t", lambda _: None) is None
    assert set(store.read()) == {"u"}


def test_the_same_table_is_not_written_again(store: FileStore, path: Path) -> None:
    store.change("t", lambda _: T)
    before = path.stat().st_ino
    assert T.same_as(store.change("t", lambda found: found))
    assert path.stat().st_ino == before


def test_a_symbolic_link_and_the_mode_of_the_file_are_kept(store: FileStore, path: Path, tmp_path: Path) -> None:
    store.change("t", lambda _: T)
    path.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    FileStore(str(link)).change("u", lambda _: U)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert set(store.read()) == {"t", "u"}


def test_an_error_of_the_change_leaves_the_file(store: FileStore) -> None:
    store.change("t", lambda _: T)

    def fail(_: BucketTable | None) -> BucketTable:
        raise LookupTableError("no")

    with pytest.raises(LookupTableError, match=r"^no$"):
        store.change("t", fail)
    assert T.same_as(store.read()["t"])


def test_a_change_during_another_one_is_an_error(store: FileStore, path: Path) -> None:
    def change(_: BucketTable | None) -> BucketTable:
        with pytest.raises(LookupTableError, match="is being changed by another process; nothing was changed"):
            FileStore(str(path)).change("u", lambda _: U)
        return T

    store.change("t", change)
    assert set(store.read()) == {"t"}


def test_a_lock_that_another_process_holds_is_an_error(store: FileStore, path: Path) -> None:
    with Path(f"{path}.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(LookupTableError, match=f"file:{path} is being changed by another process"):
            store.change("t", lambda _: T)
    assert T.same_as(store.change("t", lambda _: T))


def test_a_write_that_fails_leaves_the_old_file(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.change("t", lambda _: T)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LookupTableError, match="cannot be written: No space left on device"):
        store.change("t", lambda _: None)
    assert T.same_as(store.read()["t"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON"),
        ("[]", "is no file of look-up tables of format 1"),
        ('{"format": true, "tables": {}}', "is no file of look-up tables of format 1"),
        ('{"format": 1.0, "tables": {}}', "is no file of look-up tables of format 1"),
        ('{"format": 2, "tables": {}}', "is no file of look-up tables of format 1"),
        ('{"format": 1, "tables": {}, "more": 1}', "is no file of look-up tables of format 1"),
        ('{"format": 1, "tables": {"t": {}}}', "topic t is not of format 1"),
    ],
)
def test_a_file_that_has_no_tables_is_named(store: FileStore, path: Path, text: str, problem: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LookupTableError, match=f"file:{re.escape(str(path))}.* {problem}"):
        store.read()
    with pytest.raises(LookupTableError, match=problem):
        store.change("t", lambda _: T)
    assert path.read_text(encoding="utf-8") == text


def test_a_file_that_is_too_large(store: FileStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.change("t", lambda _: T)
    monkeypatch.setattr(file_store, "MAX_FILE_BYTES", path.stat().st_size)
    with pytest.raises(LookupTableError, match="would be larger than"):
        store.change("u", lambda _: U)
    path.write_text(json.dumps("x" * path.stat().st_size), encoding="utf-8")
    with pytest.raises(LookupTableError, match="is larger than"):
        store.read()


def test_a_directory_that_is_missing_or_a_path_that_is_one(tmp_path: Path) -> None:
    with pytest.raises(LookupTableError, match="cannot be written: No such file or directory"):
        FileStore(str(tmp_path / "missing" / "tables.json")).change("t", lambda _: T)
    with pytest.raises(LookupTableError, match="cannot be read: Is a directory"):
        FileStore(str(tmp_path)).read()


def test_a_loop_of_symbolic_links_and_an_impossible_name(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (str(loop), f"{tmp_path}/a\0b"):
        with pytest.raises(LookupTableError, match=r"is not the path of a file of look-up tables|cannot be read"):
            FileStore(path).read()
