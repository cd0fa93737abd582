import pytest

from spark_kafka_native._jobs.batch_reload.errors import UsageError
from spark_kafka_native._jobs.batch_reload.leases import Lease, new_load_id, other_runs
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from tests.support.spark.reload_driver import NOW_S, ReloadDriver


def test_ids_sort_by_time_and_differ() -> None:
    assert new_load_id(NOW_S) < new_load_id(NOW_S + 1)
    assert new_load_id(NOW_S) != new_load_id(NOW_S)
    assert new_load_id(0.0).startswith("19700101T000000Z-")


def test_lease_is_listed_until_its_release(driver: ReloadDriver) -> None:
    lease = Lease(driver.storage, "mine")
    lease.take()
    now_s = lease.written_at_s()
    assert other_runs(driver.storage, "mine", now_s) == []
    (run,) = other_runs(driver.storage, "yours", now_s + 7)
    assert (run.load_id, run.age_s) == ("mine", 7.0)
    assert run.holder.startswith("process ")
    lease.release()
    assert other_runs(driver.storage, "yours", now_s) == []


def test_lease_is_renewed_after_its_interval(driver: ReloadDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease(driver.storage, "mine")
    lease.take()
    puts: list[str] = []
    monkeypatch.setattr(driver.storage, "put", lambda path, _: puts.append(path))
    lease.renew()
    assert puts == []
    monkeypatch.setattr("spark_kafka_native._jobs.batch_reload.leases.RENEW_EVERY_S", 0.0)
    lease.renew()
    assert puts == ["_leases/mine.json"]


def test_failed_lease_renewal_is_retried(driver: ReloadDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease(driver.storage, "mine")
    tries: list[str] = []

    def fail(path: str, _: bytes) -> None:
        tries.append(path)
        raise OSError("stale file handle")

    with lease.held():
        monkeypatch.setattr("spark_kafka_native._jobs.batch_reload.leases.RENEW_EVERY_S", 0.0)
        monkeypatch.setattr(driver.storage, "put", fail)
        lease.renew()
        lease.renew()
    assert tries == ["_leases/mine.json"] * 2
    assert driver.storage.list("_leases") == {}


def test_failed_lease_release_is_ignored(driver: ReloadDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise OSError("stale file handle")

    monkeypatch.setattr(driver.storage, "remove", fail)
    with Lease(driver.storage, "mine").held():
        pass
    assert list(driver.storage.list("_leases")) == ["_leases/mine.json"]


def test_storage_that_makes_a_file_twice_is_refused(driver: ReloadDriver) -> None:
    class Overwrites(LocalStorage):
        def create(self, path: str, data: bytes) -> None:
            self.put(path, data)

    with pytest.raises(UsageError, match="loads need conditional writes"):
        Lease(Overwrites(driver.storage.url), "mine").take()


def test_lease_that_a_listing_does_not_show_is_an_error_that_names_it(driver: ReloadDriver) -> None:
    with pytest.raises(OSError, match=r"_leases/mine\.json is not listed.* run the clean again"):
        Lease(driver.storage, "mine").written_at_s()


def test_unreadable_lease_of_another_run(driver: ReloadDriver) -> None:
    driver.storage.create("_leases/odd.json", b"[")
    (run,) = other_runs(driver.storage, "mine", NOW_S)
    assert (run.load_id, run.holder) == ("odd", "another run")
