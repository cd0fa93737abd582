"""What is particular to object stores; what they share with directories is in test_storage.py."""

import sys

import pytest

from spark_kafka_native._jobs.batch_reload.errors import UsageError
from spark_kafka_native._jobs.batch_reload.storage.object_storage import ObjectStorage
from tests.support.spark.reload_driver import ReloadDriver


def test_locations_are_urls() -> None:
    assert ObjectStorage("memory://bucket/raw/", {}).location("_loads/x") == "memory://bucket/raw/_loads/x"


@pytest.mark.parametrize(
    ("url", "missing", "packages"),
    [
        ("memory://x", "fsspec.core", "package fsspec"),
        ("s3://bucket/a", "fsspec.core", "packages fsspec and s3fs"),
        ("s3a://bucket/a", "s3fs", "packages fsspec and s3fs"),
        ("gs://bucket/a", "gcsfs", "packages fsspec and gcsfs"),
        ("abfs://container/a", "adlfs", "packages fsspec and adlfs"),
    ],
)
def test_packages_of_a_missing_client_are_named(
    monkeypatch: pytest.MonkeyPatch, url: str, missing: str, packages: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    names = packages.partition(" ")[2].replace(" and ", " ")
    with pytest.raises(UsageError) as caught:
        ObjectStorage(url, {})
    assert str(caught.value) == f"{url} needs the {packages}: run `pip install {names}`"


def test_errors_of_a_store_client_are_os_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = ObjectStorage("memory://bucket", {})

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no credentials")

    monkeypatch.setattr(storage._files, "cat_file", refuse)
    with pytest.raises(OSError, match="memory://bucket: RuntimeError: no credentials"):
        storage.read("x")


def test_loads_on_an_object_store(driver: ReloadDriver) -> None:
    driver.storage = ObjectStorage("memory://loads", {})
    driver.produce("t", 0, 20)
    driver.load(max_records_per_task=7)
    driver.produce("t", 0, 20)
    driver.load(max_records_per_task=7)
    assert driver.records() == driver.produced()
    driver.load("earliest")
    assert driver.records() == driver.produced()
    driver.clean()
    assert driver.unnamed_files() == []
