import errno
from contextlib import suppress
from uuid import UUID

import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.manager import LogManager
from broker_embedded._platform.platform import Platform, write_file
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.broker.log_manager_driver import SMALL, T0, T1, TOPIC_ID, U0, ManagerDriver
from tests.support.refusals import refused


@pytest.fixture
def driver() -> ManagerDriver:
    return ManagerDriver()


def test_a_new_data_directory_is_made_and_named(driver: ManagerDriver) -> None:
    meta = driver.manager.meta
    assert driver.names() == [".lock", "meta.properties", "recovery-point-offset-checkpoint"]
    assert driver.text("meta.properties").splitlines()[0] == f"cluster.id={meta.cluster_id}"
    driver.restart()
    assert driver.manager.meta == meta
    assert len(meta.cluster_id) == 22


def test_a_data_directory_is_made_with_all_that_is_missing_above_it(driver: ManagerDriver) -> None:
    platform = Platform(clock=driver.clock, file_system=driver.faults)
    manager = LogManager("/some/where/else", SMALL, platform)
    manager.load_all()
    manager.create_all([T0], TOPIC_ID)
    driver.disk.crash()
    assert driver.disk.exists("/some/where/else/t-0/partition.metadata")


def test_logs_come_back_with_their_topics_settings(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0], TOPIC_ID)
    driver.manager.create_all([U0], TOPIC_ID)
    driver.append(T0, 3)
    driver.manager.close()
    driver.start({"u": LogConfig(segment_bytes=999)})
    assert driver.ends() == {"t-0": 3, "u-0": 0}
    logs = driver.manager.logs
    assert (logs[T0].config, logs[U0].config.segment_bytes, logs[T0].topic_id) == (SMALL, 999, TOPIC_ID)


def test_a_topic_that_could_not_be_created_for_lack_of_descriptors_can_be_created_later(driver: ManagerDriver) -> None:
    for step in ("create partition.metadata*", "remove_tree *"):
        driver.faults.fail(step, errno.EMFILE)
    for _ in range(2):
        assert refused(driver.manager.create_all, [T0], TOPIC_ID).code is ErrorCode.KAFKA_STORAGE_ERROR
    driver.faults.heal()
    driver.create(T0, 3)
    assert driver.ends() == {"t-0": 3}


def test_a_clean_shutdown_writes_its_file_and_the_checkpoints(driver: ManagerDriver) -> None:
    driver.create(T0, 7)
    driver.manager.delete_records(T0, 2)
    driver.manager.close()
    driver.manager.close()
    assert driver.text("recovery-point-offset-checkpoint") == "0\n1\nt 0 7\n"
    assert driver.text("log-start-offset-checkpoint") == "0\n1\nt 0 2\n"
    assert driver.text("replication-offset-checkpoint") == "0\n1\nt 0 7\n"
    assert driver.text(".kafka_cleanshutdown") == '{"version":0,"brokerEpoch":-1}'
    driver.disk.crash()
    driver.start()
    assert ".kafka_cleanshutdown" not in driver.names()
    assert (driver.ends(), driver.manager.logs[T0].log_start_offset) == ({"t-0": 7}, 2)


def test_after_a_kill_every_log_is_recovered(driver: ManagerDriver, caplog: pytest.LogCaptureFixture) -> None:
    driver.manager.create_all([T0, T1], TOPIC_ID)
    driver.append(T0, 7)
    driver.append(T1, 2)
    driver.kill()
    assert driver.ends() == {"t-0": 7, "t-1": 2}
    assert "/data was not closed cleanly: recovering 2 logs" in caplog.text


def test_a_directory_in_use_is_not_touched(driver: ManagerDriver) -> None:
    error = refused(driver.new_manager().load_all)
    assert (error.code, "in use by another broker" in error.detail) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
    driver.manager.create_all([T0], TOPIC_ID)
    driver.restart()


def test_a_directory_of_another_cluster_or_node_is_not_touched(driver: ManagerDriver) -> None:
    driver.manager.close()
    assert "belongs to cluster" in refused(driver.start, cluster_id="other").detail
    assert "belongs to node 1, not 2" in refused(driver.start, node_id=2).detail
    driver.start()


@pytest.mark.parametrize("name", ["stray", "t-x", "t-0-delete", "t-0.abc-delete", "-0"])
def test_a_directory_that_is_no_log_stops_the_start(driver: ManagerDriver, name: str) -> None:
    driver.manager.create_all([T0], TOPIC_ID)
    driver.append(T0)
    driver.manager.close()
    driver.disk.make_directory(f"/data/{name}")
    error = refused(driver.start)
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert error.detail == (
        f"data directory /data: {name!r} is not of the form topic-partition, as the directory of a log is; "
        "move it out of the data directory"
    )
    driver.disk.remove_tree(f"/data/{name}")
    driver.start()
    assert driver.ends() == {"t-0": 1}


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_damaged_checkpoint_costs_time_only(
    driver: ManagerDriver, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    driver.create(T0, 7)
    driver.manager.checkpoint_recovery_points()
    driver.manager.checkpoint_log_start_offsets()
    write_file(driver.disk, f"/data/{name}", b"nonsense\n")
    driver.kill()
    assert driver.ends() == {"t-0": 7}
    assert f"{name}: format 'nonsense' is not 0; ignored" in caplog.text


def test_damaged_meta_properties_stop_the_start(driver: ManagerDriver) -> None:
    driver.manager.close()
    write_file(driver.disk, "/data/meta.properties", b"version=9\n")
    assert "version must be 0 or 1, not '9'" in refused(driver.start).detail


def test_a_directory_that_is_closed_before_its_logs_are_loaded_is_as_before(driver: ManagerDriver) -> None:
    driver.create(T0, 3)
    driver.kill()
    driver.manager.abandon()
    before = driver.disk.list_directory("/data")
    manager = driver.new_manager()
    manager.lock()
    manager.close()
    assert driver.disk.list_directory("/data") == before
    driver.start()
    assert driver.ends() == {"t-0": 3}


def test_a_disk_error_at_the_start_is_raised_and_releases_the_lock(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0], TOPIC_ID)
    driver.manager.close()
    driver.faults.fail("open *.properties")
    assert refused(driver.start).code is ErrorCode.KAFKA_STORAGE_ERROR
    driver.faults.heal()
    driver.start()
    with pytest.raises(RuntimeError, match=r"call lock\(\) first"):
        _ = driver.new_manager().meta


def test_after_a_failed_close_of_a_log_the_shutdown_is_unclean(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0, T1], TOPIC_ID)
    driver.append(T0, 3)
    driver.append(T1, 3)
    driver.faults.fail("sync *.log")
    assert "not closed cleanly: t-0, t-1" in refused(driver.manager.close).detail
    driver.faults.heal()
    assert ".kafka_cleanshutdown" not in driver.names()
    driver.start()
    assert driver.ends() == {"t-0": 3, "t-1": 3}


def test_a_damaged_log_does_not_make_the_others_recover(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0, T1], TOPIC_ID)
    driver.append(T0, 3)
    driver.append(T1, 3)
    driver.faults.fail("write *000003.snapshot")
    with suppress(KafkaError):
        driver.manager.logs[T0].close()
    driver.faults.heal()
    assert driver.manager.logs[T0].offline is not None
    assert "not closed cleanly: t-0" in refused(driver.manager.close).detail
    assert driver.text("recovery-point-offset-checkpoint") == "0\n2\nt 0 0\nt 1 3\n"


def test_after_a_failed_write_of_a_checkpoint_the_shutdown_is_unclean(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0], TOPIC_ID)
    driver.append(T0)
    driver.faults.fail("rename *checkpoint.tmp")
    assert refused(driver.manager.close).code is ErrorCode.KAFKA_STORAGE_ERROR
    driver.faults.heal()
    driver.start()
    assert driver.ends() == {"t-0": 1}


def test_new_logs_survive_a_crash(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0, T1], TOPIC_ID)
    driver.crash()
    assert driver.ends() == {"t-0": 0, "t-1": 0}
    assert {log.topic_id for log in driver.manager.logs.values()} == {TOPIC_ID}


def test_a_log_that_is_there_is_not_made_again(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0], TOPIC_ID)
    assert refused(driver.manager.create_all, [T1, T0], TOPIC_ID).code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert driver.ends() == {"t-0": 0}


@pytest.mark.parametrize("step", ["make_directory t-1", "create 0*.log", "sync partition.metadata.tmp"])
def test_logs_are_made_all_or_none(driver: ManagerDriver, step: str) -> None:
    driver.faults.fail(step)
    error = refused(driver.manager.create_all, [T0, T1], TOPIC_ID)
    assert (error.code, "cannot create t" in error.detail) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
    driver.faults.heal()
    assert (driver.ends(), "t-0" in driver.names()) == ({}, False)
    driver.manager.create_all([T0, T1], TOPIC_ID)
    driver.append(T1)
    driver.restart()
    assert driver.ends() == {"t-0": 0, "t-1": 1}


def test_a_deleted_log_is_gone_at_once_and_its_files_later(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0, T1], TOPIC_ID)
    driver.append(T0, 3)
    log = driver.manager.logs[T0]
    driver.manager.delete_all([T0])
    driver.manager.delete_all([T0])
    assert (driver.manager.get(T0), log.offline) == (None, "it was deleted")
    (renamed,) = [name for name in driver.names() if name.endswith("-delete")]
    assert renamed.startswith("t-0.")
    assert driver.manager.remove_files(driver.clock.now_ms() + 999) == 0
    assert driver.manager.remove_files(driver.clock.now_ms() + 1000) == 1
    assert renamed not in driver.names()
    assert driver.ends() == {"t-1": 0}


def test_logs_deleted_before_a_restart_are_removed_after_it(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0], TOPIC_ID)
    driver.manager.delete_all([T0])
    driver.kill()
    assert driver.ends() == {}
    assert driver.manager.remove_files(driver.clock.now_ms()) == 1
    assert not any(name.endswith("-delete") for name in driver.names())


def test_a_topic_made_again_starts_from_nothing(driver: ManagerDriver) -> None:
    """Neither offsets nor checkpoints of the old one are used, even after a crash."""
    driver.create(T0, 30)
    driver.manager.delete_records(T0, 22)
    driver.manager.logs[T0].local.flush()
    driver.manager.checkpoint_recovery_points()
    driver.manager.delete_all([T0])
    driver.manager.create_all([T0], UUID(int=78))
    assert driver.manager.logs[T0].log_end_offset == 0
    driver.append(T0, 12)
    driver.disk.open("/data/t-0/00000000000000000005.log").write_at(100, b"damage")
    driver.kill()
    assert driver.ends() == {"t-0": 6}


def test_retention_of_all_logs_continues_if_one_fails(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0, T1], TOPIC_ID)
    for partition in (T0, T1):
        driver.append(partition, 6)
        driver.manager.logs[partition].reconfigure(LogConfig(retention_bytes=0, file_delete_delay_ms=0))
    driver.manager.logs[T0].local.abandon()
    driver.manager.delete_old_segments()
    driver.manager.remove_files(driver.clock.now_ms())
    assert driver.manager.logs[T1].log_start_offset == 6
    names = [entry.name for entry in driver.disk.list_directory("/data/t-1")]
    assert [name for name in names if ".log" in name] == [f"{6:020d}.log"]


def test_logs_are_flushed_when_their_time_has_come(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0, T1], TOPIC_ID, LogConfig(flush_ms=100))
    driver.append(T0)
    assert driver.manager.flush_due(driver.clock.now_ms() + 99) == 0
    assert driver.manager.flush_due(driver.clock.now_ms() + 100) == 1
    assert driver.manager.logs[T0].local.flushed_offset == 1
    driver.append(T1)
    driver.faults.fail("sync *")
    assert driver.manager.flush_due(driver.clock.now_ms() + 200) == 1
    assert driver.manager.logs[T1].offline is not None


def test_hidden_records_stay_hidden_after_a_crash(driver: ManagerDriver) -> None:
    driver.create(T0, 6)
    driver.manager.logs[T0].local.flush()
    assert driver.manager.delete_records(T0, 3) == 3
    driver.crash()
    assert (driver.manager.logs[T0].log_start_offset, driver.ends()) == (3, {"t-0": 6})
    assert refused(driver.manager.delete_records, U0, 0).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_hidden_records_that_cannot_be_written_down_are_an_error(driver: ManagerDriver) -> None:
    driver.create(T0, 6)
    driver.faults.fail("* log-start-offset-checkpoint*")
    error = refused(driver.manager.delete_records, T0, 3)
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "t-0: " in str(error)
    driver.faults.heal()
    assert driver.manager.delete_records(T0, 3) == 3
    assert driver.text("log-start-offset-checkpoint") == "0\n1\nt 0 3\n"


def test_a_deleted_log_leaves_the_cleaner_checkpoint(driver: ManagerDriver) -> None:
    driver.manager.create_all([T0, T1], TOPIC_ID)
    for partition in (T0, T1):
        driver.append(partition, 12)
        driver.manager.cleaned_offsets.put(partition, 10)
    driver.manager.delete_all([T0])
    assert driver.text("cleaner-offset-checkpoint") == "0\n1\nt 1 10\n"
    driver.manager.truncate_to(T1, 7)
    assert driver.text("cleaner-offset-checkpoint") == "0\n1\nt 1 7\n"


def test_remains_of_a_deleted_log_are_removed_at_the_start(driver: ManagerDriver) -> None:
    """Else a recreated topic would have the recovery point of the deleted one."""
    driver.create(T0, 12)
    driver.manager.cleaned_offsets.put(T0, 10)
    driver.faults.fail("* cleaner-offset-checkpoint*")
    assert refused(driver.manager.delete_all, [T0]).code is ErrorCode.KAFKA_STORAGE_ERROR
    driver.faults.heal()
    driver.kill()
    assert driver.text("cleaner-offset-checkpoint") == "0\n0\n"


def test_a_compacted_log_needs_no_recovery(driver: ManagerDriver) -> None:
    """A compaction flushes before it begins, so that the recovery point may be the older of the two."""
    driver.create(T0, 12)
    driver.manager.logs[T0].local.flush()
    driver.manager.cleaned_offsets.put(T0, 10)
    driver.disk.crash()
    driver.faults.steps = []
    driver.start()
    assert driver.ends() == {"t-0": 12}
    assert not [step for step in driver.faults.steps if step.startswith(f"write {0:020d}")]
    assert driver.manager.logs[T0].local.recovery_point == 10


def test_truncation_is_written_down_before_anything_is_appended(driver: ManagerDriver) -> None:
    driver.create(T0, 12)
    driver.manager.logs[T0].local.flush()
    driver.manager.checkpoint_recovery_points()
    assert driver.manager.truncate_to(T0, 3) == 3
    assert driver.text("recovery-point-offset-checkpoint") == "0\n1\nt 0 0\n"
