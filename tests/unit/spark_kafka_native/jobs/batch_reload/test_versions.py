import dataclasses

import pytest

from spark_kafka_native._jobs.batch_reload.errors import Conflict, ReloadError
from spark_kafka_native._jobs.batch_reload.manifest import Manifest, to_json
from spark_kafka_native._jobs.batch_reload.merge import with_history
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.storage.storage import Stored
from spark_kafka_native._jobs.batch_reload.versions import manifest_path, publish, read_version, versions
from tests.support.spark.reload_driver import JSON, ReloadDriver


def version_of(head: Manifest | None, load_id: str) -> Manifest:
    number = head.version + 1 if head else 1
    return with_history(Manifest(version=number, load_id=load_id, kind="load", created_ms=0, format=JSON), head)


def publish_as(storage: LocalStorage, base: Manifest | None, load_id: str) -> Manifest:
    return publish(storage, base, lambda head: version_of(head, load_id))


@pytest.fixture
def storage(driver: ReloadDriver) -> LocalStorage:
    assert isinstance(driver.storage, LocalStorage)
    return driver.storage


def test_versions_count_up_and_stay(storage: LocalStorage) -> None:
    assert read_version(storage) is None
    first = publish_as(storage, None, "a")
    second = publish_as(storage, first, "b")
    assert versions(storage) == [1, 2]
    assert read_version(storage) == second
    assert read_version(storage, 1) == first
    with pytest.raises(ReloadError, match="does not have version 3; its versions are 1 to 2"):
        read_version(storage, 3)


def test_run_with_an_old_base_publishes_after_the_last_version(storage: LocalStorage) -> None:
    first = publish_as(storage, None, "a")
    publish_as(storage, first, "b")
    assert publish_as(storage, first, "c").version == 3
    assert publish_as(storage, None, "d").version == 4


def test_version_published_meanwhile_is_rebased(storage: LocalStorage) -> None:
    quick: list[int] = []

    def after(head: Manifest | None) -> Manifest:
        if not quick:
            quick.append(1)
            publish_as(storage, None, "quick")
        return version_of(head, "slow")

    assert publish(storage, None, after).version == 2
    assert [made.load_id for made in publish_as(storage, None, "x").history] == ["quick", "slow", "x"]


class LosesResponses(LocalStorage):
    """Executes each request and then fails, as a store whose response is lost."""

    error: OSError = TimeoutError("no response")

    def create(self, path: str, data: bytes) -> None:
        super().create(path, data)
        raise self.error


@pytest.mark.parametrize("error", [TimeoutError("no response"), FileExistsError("it is there, I made it myself")])
def test_lost_response_of_a_create_is_looked_up(storage: LocalStorage, error: OSError) -> None:
    flaky = LosesResponses(storage.url)
    flaky.error = error
    assert publish_as(flaky, None, "a").version == 1
    assert versions(storage) == [1]


def test_failed_create_is_raised(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(storage, "create", refuse)
    with pytest.raises(PermissionError):
        publish_as(storage, None, "a")


def test_suspended_run_cannot_publish_an_old_number(storage: LocalStorage) -> None:
    first = publish_as(storage, None, "a")

    def after(_: Manifest | None) -> Manifest:
        head = first
        for name in ("b", "c", "d"):
            head = publish_as(storage, head, name)
        for number in (2, 3):
            storage.remove(manifest_path(number))
        return version_of(first, "sleeper")

    with pytest.raises(Conflict, match="has version 4 without this run"):
        publish(storage, first, after)
    assert versions(storage) == [1, 4]


def test_later_versions_of_other_runs_are_no_conflict(storage: LocalStorage) -> None:
    class Busy(LocalStorage):
        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if path == manifest_path(1):
                publish_as(self, None, "right after")

    assert publish_as(Busy(storage.url), None, "a").version == 1
    assert versions(storage) == [1, 2]


def test_executed_put_without_a_response_is_published_once(storage: LocalStorage) -> None:
    class Late(LocalStorage):
        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if path == manifest_path(1):
                for name in ("b", "c"):
                    publish_as(storage, None, name)
                storage.remove(path)
                raise FileExistsError("it is there, I made it myself")

    assert publish_as(Late(storage.url), None, "a").version == 1
    head = read_version(storage)
    assert head is not None
    assert [made.load_id for made in head.history] == ["a", "b", "c"]


@pytest.mark.parametrize("made_before", [0, 1])
def test_stale_listing_does_not_undo_the_version(storage: LocalStorage, made_before: int) -> None:
    class Lags(LocalStorage):
        lagging: dict[str, Stored] | None = None

        def create(self, path: str, data: bytes) -> None:
            before = self.list("_manifests")
            super().create(path, data)
            self.lagging = before

        def list(self, folder: str) -> dict[str, Stored]:
            return super().list(folder) if self.lagging is None else self.lagging

    for _ in range(made_before):
        publish_as(storage, None, "before")
    made = publish_as(Lags(storage.url), read_version(storage), "a")
    assert versions(storage)[-1] == made.version == made_before + 1


def test_repeated_conflicts_end_the_run(storage: LocalStorage) -> None:
    def after(head: Manifest | None) -> Manifest:
        publish_as(storage, None, "quick")
        return version_of(head, "slow")

    with pytest.raises(Conflict, match="have published 20 versions"):
        publish(storage, None, after)


def test_invalid_version_is_not_published(storage: LocalStorage, driver: ReloadDriver) -> None:
    driver.produce("t", 0, 10)
    driver.load(max_records_per_task=5)
    good = driver.version()
    bad = dataclasses.replace(good, version=2, entries=good.entries[:1])
    with pytest.raises(ReloadError, match="would be invalid and is not published: t-0 has the position 10"):
        publish(storage, good, lambda _: bad)
    assert versions(storage) == [1]


def test_invalid_manifest_is_named(storage: LocalStorage) -> None:
    storage.create(manifest_path(1), b"{}")
    with pytest.raises(ReloadError, match=r"_manifests/0000000001\.json: not a manifest"):
        read_version(storage)
    storage.create("_manifests/notes.txt", b"")
    assert versions(storage) == [1]


def test_manifest_deleted_after_the_listing(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    first = publish_as(storage, None, "a")
    really_list = storage.list
    gone: list[int] = []

    def list_with_one_too_many(folder: str) -> object:
        found = really_list(folder)
        if not gone:
            gone.append(1)
            found[manifest_path(9)] = found[manifest_path(1)]
        return found

    monkeypatch.setattr(storage, "list", list_with_one_too_many)
    assert read_version(storage) == first
    assert storage.read(manifest_path(1)) == to_json(first)
