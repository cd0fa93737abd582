import errno

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.broker.log_driver import DIRECTORY, LogDriver
from tests.support.refusals import refused

SMALL = {"segment.bytes": 400, "index.interval.bytes": 100}


@pytest.fixture
def driver() -> LogDriver:
    return LogDriver(SMALL)


def test_a_flush_that_fails_takes_the_log_offline(driver: LogDriver) -> None:
    """The system may drop pages whose write failed, and a second flush would succeed without them."""
    driver.append()
    driver.faults.fail("sync *.log")
    assert refused(driver.log.local.flush).code is ErrorCode.KAFKA_STORAGE_ERROR
    driver.faults.heal()
    assert "is offline: cannot flush" in refused(driver.log.local.flush).detail
    driver.crash()


def test_flushed_records_survive_and_others_need_not(driver: LogDriver) -> None:
    driver.append(count=3)
    driver.flush()
    driver.append()
    assert driver.log.local.flushed_offset == 3
    driver.crash()
    assert driver.log.log_end_offset == 3


def test_the_recovery_point_is_where_the_active_segment_begins(driver: LogDriver) -> None:
    """Its indexes are not on the disk: the whole of it is read again after a crash."""
    for _ in range(7):
        driver.append()
    driver.flush()
    assert (driver.log.local.recovery_point, driver.log.local.flushed_offset) == (5, 7)
    driver.log.local.roll()
    assert driver.log.local.recovery_point == 5
    driver.crash()
    assert driver.log.log_end_offset == 7


def test_flushing_a_complete_segment_includes_all_that_stands_beside_it(driver: LogDriver) -> None:
    for _ in range(6):
        driver.append()
    driver.faults.steps = []
    driver.flush()
    complete, active = f"sync {0:020d}", f"sync {5:020d}"
    expected = {f"{complete}{suffix}" for suffix in (".log", ".index", ".timeindex")}
    expected |= {f"{active}.log", f"{active}.snapshot", "sync_directory t-0"}
    assert {step for step in driver.faults.steps if "leader-epoch" not in step} >= expected
    assert not {f"{active}.index", f"{active}.timeindex"} & set(driver.faults.steps)


def test_flush_messages_flushes_while_appending() -> None:
    driver = LogDriver({**SMALL, "flush.messages": 3})
    for flushed in (0, 0, 3, 3):
        driver.append()
        assert driver.log.local.flushed_offset == flushed
    driver.append(count=2)
    assert driver.log.local.flushed_offset == 6
    driver.flushed = 6
    driver.append()
    driver.crash()
    assert driver.log.log_end_offset == 6


def test_flush_ms_makes_a_log_due_for_a_flush() -> None:
    driver = LogDriver({"flush.ms": 100})
    driver.clock.advance(1000)
    assert not driver.log.local.flush_due(driver.clock.now_ms())
    driver.append()
    assert driver.log.local.flush_due(driver.clock.now_ms())
    driver.log.local.flush()
    driver.append()
    assert not driver.log.local.flush_due(driver.clock.now_ms() + 99)
    assert driver.log.local.flush_due(driver.clock.now_ms() + 100)


def test_a_closed_log_is_whole_and_needs_no_recovery(driver: LogDriver) -> None:
    for _ in range(7):
        driver.append()
    driver.log.close()
    driver.log.close()
    assert driver.log.local.recovery_point == 7
    driver.disk.crash()
    driver.checkpointed = 7
    driver.reopen()
    driver.check()
    driver.log.close()
    assert "is offline: it is closed" in refused(driver.append).detail


def test_an_abandoned_log_writes_nothing(driver: LogDriver) -> None:
    driver.append()
    driver.faults.steps = []
    driver.log.local.abandon()
    assert driver.faults.steps == []
    assert "it was abandoned" in refused(driver.append).detail


def test_complete_segments_are_flushed_in_the_background(driver: LogDriver) -> None:
    driver.append()
    assert not driver.log.local.flush_rolled()
    for _ in range(6):
        driver.append()
    driver.faults.steps = []
    assert driver.log.local.flush_rolled()
    assert f"sync {5:020d}.log" not in driver.faults.steps
    assert (driver.log.local.recovery_point, driver.log.local.flushed_offset) == (5, 5)
    driver.faults.steps = []
    assert not driver.log.local.flush_rolled()
    assert driver.faults.steps == []
    driver.flushed = driver.checkpointed = 5
    driver.crash()
    assert driver.log.log_end_offset == 5


def test_a_flush_counts_what_was_flushed_by_itself_before(driver: LogDriver) -> None:
    for _ in range(12):
        driver.append()
    driver.log.local.flush_rolled()
    driver.faults.steps = []
    driver.flush()
    assert [step for step in driver.faults.steps if step.startswith("sync 0")] == [f"sync {10:020d}.log"]
    driver.crash()
    assert driver.log.log_end_offset == 12


def test_complete_segments_that_cannot_be_flushed_take_the_log_offline(driver: LogDriver) -> None:
    for _ in range(7):
        driver.append()
    driver.faults.fail("sync *.timeindex")
    assert refused(driver.log.local.flush_rolled).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "cannot flush" in (driver.log.offline or "")
    assert refused(driver.log.local.flush_rolled).code is ErrorCode.KAFKA_STORAGE_ERROR


def test_segments_deleted_by_retention_need_no_flush() -> None:
    driver = LogDriver({**SMALL, "retention.bytes": 400})
    for _ in range(20):
        driver.append()
    view = driver.log.local.view
    assert driver.log.retention.delete_old_segments() == 2
    driver.clock.advance(driver.config.file_delete_delay_ms)
    assert driver.log.local.remove_retired(driver.clock.now_ms()) > 0
    driver.log.local._sync(view, until=len(view.segments), complete=15)
    assert driver.log.offline is None


def leave_empty_log(driver: LogDriver, base_offset: int) -> None:
    """What an earlier version left of a roll that failed: a ``.log`` without its indexes."""
    driver.disk.create(f"{DIRECTORY}/{base_offset:020d}.log")


ROLL_STEPS = ("create *.log", "create *.index", "create *.timeindex", "truncate *.log")


@pytest.mark.parametrize("undone", [True, False], ids=["undone", "undo fails too"])
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("step", ROLL_STEPS)
def test_a_roll_that_fails_halfway_loses_no_acknowledged_record(step: str, clean: bool, undone: bool) -> None:
    """Retention wants a roll that fails; a later append needs none and goes to the old segment."""
    driver = LogDriver({**SMALL, "retention.ms": 1000, "preallocate": True})
    for _ in range(7):
        driver.append()
    driver.clock.advance(2000)
    driver.faults.fail(step, errno.ENOSPC)
    if not undone:
        driver.faults.fail("remove *", errno.EIO)
    driver.log.retention.delete_old_segments()
    assert driver.log.local.view.bases == (5,)
    driver.faults.heal()
    driver.append()
    driver.append()
    driver.reopen(clean=clean)
    assert driver.log.log_end_offset == 9
    driver.append()
    driver.check()


@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "not flushed"])
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_a_later_roll_hides_nothing_after_a_roll_that_failed_halfway(clean: bool, flushed: bool) -> None:
    driver = LogDriver(SMALL)
    for _ in range(3):
        driver.append()
    driver.faults.fail("create *", errno.EMFILE)
    driver.faults.fail("remove *", errno.EIO)
    assert refused(driver.log.local.roll).code is ErrorCode.KAFKA_STORAGE_ERROR
    leave_empty_log(driver, 3)
    driver.faults.heal()
    for _ in range(9):
        driver.append()
    assert driver.log.local.view.bases == (0, 5, 10)
    if flushed:
        driver.flush()
    driver.reopen(clean=clean)
    assert driver.log.local.view.bases == (0, 5, 10)
    driver.check()


def test_a_preallocated_file_of_a_failed_roll_is_removed(caplog: pytest.LogCaptureFixture) -> None:
    """As an earlier version left it."""
    driver = LogDriver({**SMALL, "preallocate": True})
    for _ in range(4):
        driver.append()
    driver.disk.create(f"{DIRECTORY}/{2:020d}.log").truncate(400)
    driver.reopen()
    assert "the segment before it has later records" in caplog.text
    driver.check()


def test_a_failed_roll_leaves_no_file(driver: LogDriver) -> None:
    driver.append()
    before = driver.files()
    for step in ROLL_STEPS:
        driver.faults.fail(step, errno.ENOSPC)
        if step.startswith("create"):
            assert refused(driver.log.local.roll).code is ErrorCode.KAFKA_STORAGE_ERROR
            assert {name for name in driver.files() if not name.endswith(".snapshot")} == set(before)
        driver.faults.heal()
    driver.log.local.roll()
    driver.check()


def test_truncation_keeps_whole_batches_only(driver: LogDriver) -> None:
    sent = {"producer_id": 1, "producer_epoch": 0}
    for sequence in range(0, 24, 2):
        driver.append(count=2, base_sequence=sequence, leader_epoch=sequence // 8, **sent)
    assert driver.log.truncate_to(11) == 10
    del driver.values[10:]
    driver.check()
    assert driver.log.epochs.latest == 1
    driver.append(count=2, base_sequence=10, **sent)
    assert driver.log.truncate_to(12) == 12
    assert refused(driver.log.truncate_to, 13).code is ErrorCode.OFFSET_OUT_OF_RANGE
    driver.reopen()
    driver.check()
