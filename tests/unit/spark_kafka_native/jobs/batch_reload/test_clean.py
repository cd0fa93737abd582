import errno
import os
from typing import Any

import pytest

from spark_kafka_native._jobs.batch_reload.clean import clean, find_unneeded
from spark_kafka_native._jobs.batch_reload.errors import Conflict
from spark_kafka_native._jobs.batch_reload.leases import Lease
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.versions import versions
from spark_kafka_native._spark.planning.ranges import OffsetRange
from tests.support.spark.reload_driver import NOW_S, ReloadDriver


@pytest.fixture
def loaded(driver: ReloadDriver) -> ReloadDriver:
    driver.produce("t", 0, 10)
    driver.load()
    driver.produce("t", 0, 10)
    driver.load()
    driver.load('{"t":{"0":3}}')
    return driver


def test_clean_removes_old_versions_and_their_files(loaded: ReloadDriver) -> None:
    removed = loaded.clean(keep_versions=2)
    assert (removed.versions, removed.files, removed.dead_loads) == ((1,), (), ())
    removed = loaded.clean(keep_versions=1)
    assert (removed.versions, len(removed.files)) == ((2,), 2)
    assert removed.bytes > 0
    assert versions(loaded.storage) == [3], "a clean without dead runs makes no version"
    assert loaded.records() == loaded.produced()
    assert loaded.unnamed_files() == []


def test_a_clean_that_cannot_list_a_directory_deletes_nothing(
    loaded: ReloadDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded.clean(keep_versions=1)
    scandir, files = os.scandir, loaded.storage.list("")

    def fails(path: str) -> Any:
        if path.endswith("/_manifests"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", fails)
        with pytest.raises(OSError, match=r"Input/output error: '.*/_manifests'"):
            loaded.clean(keep_versions=1)
    assert loaded.storage.list("") == files
    assert loaded.records() == loaded.produced()


def test_clean_keeps_files_of_a_live_run(loaded: ReloadDriver) -> None:
    loaded.produce("t", 0, 10)

    def clean_in_between(_: OffsetRange) -> None:
        assert loaded.clean(lease_s=3600.0, keep_versions=1).dead_loads == ()

    loaded.load(max_records_per_task=4, before_task=clean_in_between)
    assert loaded.records() == loaded.produced()


def test_clean_keeps_files_of_a_run_without_a_lease_yet(loaded: ReloadDriver) -> None:
    loaded.storage.create("_loads/fresh/t/1.json", b"")
    assert loaded.clean(lease_s=3600.0).dead_loads == ()
    assert "_loads/fresh/t/1.json" in loaded.unnamed_files()
    assert loaded.clean(lease_s=-1.0).dead_loads == ("fresh",)
    assert loaded.clean().files == ()


def test_clean_names_a_dead_run_before_it_removes_files(loaded: ReloadDriver) -> None:
    Lease(loaded.storage, "dead").take()
    loaded.storage.create("_loads/dead/t/1.json", b"123")
    removed = loaded.clean()
    assert (removed.dead_loads, removed.leases) == (("dead",), ("_leases/dead.json",))
    assert loaded.version().removed_loads == ("dead",)
    assert loaded.version().kind == "clean"
    assert loaded.records() == loaded.produced()
    loaded.load("earliest")
    assert loaded.version().removed_loads == ("dead",), "it may resume at any time"


def test_resumed_dead_run_stops_the_clean(loaded: ReloadDriver) -> None:
    loaded.produce("t", 0, 5)
    awake = ReloadDriver(loaded.root)
    awake.cluster = loaded.cluster

    class Slow(LocalStorage):
        """Publishes the run that was taken for dead just before the clean's own version."""

        woken = False

        def create(self, path: str, data: bytes) -> None:
            if path.startswith("_manifests/") and not self.woken:
                self.woken = True
                awake.load(load_id="sleeper")
            super().create(path, data)

    loaded.storage.create("_loads/sleeper/t/0.json", b"")
    with pytest.raises(Conflict, match="run sleeper has resumed and published"):
        loaded.clean(storage=Slow(loaded.storage.url))
    assert loaded.records() == loaded.produced()


def test_target_where_nothing_has_been_published(driver: ReloadDriver) -> None:
    driver.storage.create("_loads/dead/t/1.json", b"123")
    assert driver.clean().dead_loads == ("dead",)
    assert driver.version().files == ()
    driver.produce("t", 0, 5)
    driver.load()
    assert driver.records() == driver.produced()
    empty = LocalStorage(str(driver.root / "other"))
    removed = clean(empty, now_s=NOW_S, lease_s=-1.0, keep_versions=1)
    assert (removed.files, removed.versions) == ((), ())
    assert versions(empty) == []


def test_clean_removes_old_temporary_files(loaded: ReloadDriver) -> None:
    (loaded.root / "_manifests" / ".creating-1").write_bytes(b"12")
    assert find_unneeded(loaded.storage, 0.0, lease_s=0.0, keep_versions=9).files == ()
    assert loaded.clean(keep_versions=9).files == ("_manifests/.creating-1",)
