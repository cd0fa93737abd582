import errno
from pathlib import Path

import pytest

from spark_kafka_native._jobs.batch_reload.errors import ReloadError, UsageError
from spark_kafka_native._jobs.batch_reload.leases import Lease
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.storage.location import StorageLocation
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage
from spark_kafka_native._jobs.batch_reload.target import check_own, prepare
from tests.support.spark.reload_driver import ReloadDriver


def test_new_or_empty_target(storage: Storage) -> None:
    assert not check_own(storage, "--target")
    storage.prepare()
    assert not check_own(storage, "--target")


def test_other_entries_of_a_target_are_named(storage: Storage) -> None:
    storage.put("README.md", b"")
    with pytest.raises(
        UsageError, match=r"^--state: .* is not a target of this job and not empty: it has README\.md; name"
    ):
        check_own(storage, "--state")
    for name in ("bin/python", "lib/x", "share/y"):
        storage.put(name, b"")
    with pytest.raises(UsageError, match=r"it has README\.md, bin, lib, \.\.\.; name"):
        check_own(storage, "--target")


@pytest.mark.parametrize("path", ["_loads/1/t/x.json", "_leases/1.json", "_manifests/0000000001.json"])
def test_interrupted_first_load_can_be_repeated(storage: Storage, path: str) -> None:
    storage.put(path, b"")
    storage.put("notes.txt", b"")
    assert check_own(storage, "--target")


def test_folders_of_the_job_are_found_outside_the_sample(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = storage.sample
    storage.put("0", b"")
    storage.put("_loads/1/t/x.json", b"")
    monkeypatch.setattr(storage, "sample", lambda folder: sample(folder) if folder else ("0",))
    assert check_own(storage, "--target")


def test_released_lease_of_a_run_that_failed_leaves_a_loadable_directory(tmp_path: Path) -> None:
    driver = ReloadDriver(tmp_path / "t")
    with Lease(driver.storage, "1").held():
        pass
    assert driver.storage.sample("") == ("_leases",)
    assert check_own(driver.storage, "--target")


def test_entries_of_a_new_volume_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".snapshot").mkdir()
    assert not check_own(LocalStorage(str(tmp_path)), "--target")


def test_target_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--target: .*/file is not a directory"):
        check_own(LocalStorage(str(tmp_path / "file")), "--target")
    with pytest.raises(UsageError, match=r"--target: .*/file/a cannot be written to: Not a directory"):
        prepare(LocalStorage(str(tmp_path / "file" / "a")), "--target")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (PermissionError("Access Denied"), 2, "--state: s3://b/p: Access Denied"),
        (PermissionError(errno.EACCES, "Permission denied", "/p/_loads"), 2, "--state: /p/_loads: Permission denied"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "/p/"), 2, "--state: /p: File name too long"),
        (OSError(errno.ELOOP, "Too many levels", "/p/"), 2, "--state: /p: Too many levels"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "/p"), 2, "--state: s3://b/p is not a directory"),
        (OSError(errno.EIO, "Input/output error"), 1, "--state: s3://b/p: Input/output error"),
        (OSError("s3://b/p: NoCredentialsError: none"), 1, "--state: s3://b/p: NoCredentialsError: none"),
    ],
)
def test_errors_of_a_target_name_the_option(
    error: OSError, status: int, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Status 2 where another target is needed, and 1 where the same one may work later."""

    def fail(*_: object) -> tuple[str, ...]:
        raise error

    storage = LocalStorage(str(tmp_path))
    monkeypatch.setattr(LocalStorage, "url", "s3://b/p")
    monkeypatch.setattr(storage, "sample", fail)
    with pytest.raises(ReloadError) as caught:
        check_own(storage, "--state")
    assert (caught.value.status, str(caught.value)) == (status, said)


@pytest.mark.parametrize("url", ["a\0b", "file:///a%00b"])
def test_target_with_a_nul_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="NUL"):
        StorageLocation(url=url).open()
