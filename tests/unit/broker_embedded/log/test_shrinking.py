"""A log that gets smaller: retention, DeleteRecords, truncation, compacted segments put in place; with any crash."""

import errno
import random
import threading
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest

from broker_embedded.config.cleaner_config import CleanerConfig
from broker_embedded.config.log_config import LogConfig
from broker_embedded.log.cleaner.log_cleaner import LogCleaner
from broker_embedded.log.manager import LogManager
from broker_embedded.log.segment import LogSegment
from broker_embedded.log.shrinking import CleaningAborted
from broker_embedded.platform.platform import Platform
from spark_kafka_native.protocol.errors import ErrorCode
from tests.support import reference_records as reference
from tests.support.batches import rows
from tests.support.compaction_driver import EAGER, PARTITION, TOPIC_ID, CompactionDriver
from tests.support.disk import SimulatedCrash
from tests.support.log_driver import DIRECTORY, LogDriver, batches_of, slice_bytes
from tests.support.refusals import refused

SMALL = {"segment.bytes": 400, "index.interval.bytes": 100}


@pytest.fixture
def driver() -> LogDriver:
    return LogDriver(SMALL)


def leave_empty_log(driver: LogDriver, base_offset: int) -> None:
    """What an earlier version left of a roll that failed: a ``.log`` without its indexes."""
    driver.disk.create(f"{DIRECTORY}/{base_offset:020d}.log")


# --- making room -----------------------------------------------------------------------------------------------------


def test_old_segments_leave_the_log_at_once_and_the_disk_later() -> None:
    driver = LogDriver({**SMALL, "retention.ms": 1000, "file.delete.delay.ms": 500})
    for _ in range(7):
        driver.append()
    driver.clock.advance(1000)
    assert driver.log.delete_old_segments() == 0
    driver.append()
    driver.clock.advance(1)
    assert driver.log.delete_old_segments() == 1
    assert (driver.log.log_start_offset, driver.log.segment_base_offsets) == (5, (5,))
    assert sum(name.endswith(".deleted") for name in driver.files()) == 3
    assert driver.log.remove_retired(driver.clock.now_ms() + 499) == 0
    assert driver.log.remove_retired(driver.clock.now_ms() + 500) == 3
    driver.check()


def test_retention_that_cannot_read_a_segment_removes_none() -> None:
    driver = LogDriver({**SMALL, "retention.ms": 1000})
    for _ in range(12):
        driver.append()
    driver.reopen()
    driver.clock.advance(2000)
    driver.faults.fail("read *.timeindex")
    error = refused(driver.log.delete_old_segments)
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "cannot look for old segments" in error.detail
    assert driver.log.log_start_offset == 0
    driver.faults.heal()
    driver.check()
    assert driver.log.delete_old_segments() == 3


def test_an_active_segment_that_is_too_old_is_replaced_by_an_empty_one() -> None:
    driver = LogDriver({**SMALL, "retention.ms": 1000})
    for _ in range(7):
        driver.append()
    driver.clock.advance(1001)
    assert driver.log.delete_old_segments() == 2
    assert (driver.log.log_start_offset, driver.log.log_end_offset, driver.log.size_in_bytes) == (7, 7, 0)
    assert driver.log.delete_old_segments() == 0
    driver.append()
    driver.reopen()
    driver.check()


@pytest.mark.parametrize("fault", [("rename *", errno.ENOSPC), ("exists *.deleted", errno.EIO)])
def test_retention_works_on_a_full_or_failing_disk(fault: tuple[str, int]) -> None:
    driver = LogDriver({**SMALL, "retention.bytes": 400})
    for _ in range(20):
        driver.append()
    driver.faults.space = 0
    driver.faults.fail(*fault)
    assert driver.log.delete_old_segments() > 0
    driver.log.remove_retired(driver.clock.now_ms() + 60_000)
    assert [name for name in driver.files() if name.endswith(".log")] == [
        f"{base:020d}.log" for base in driver.log.segment_base_offsets
    ]
    driver.check()


def test_an_active_segment_that_cannot_be_replaced_stays_but_the_others_go(caplog: pytest.LogCaptureFixture) -> None:
    driver = LogDriver({**SMALL, "retention.ms": 1000})
    for _ in range(12):
        driver.append()
    driver.clock.advance(2000)
    driver.faults.fail("write *", errno.ENOSPC)
    assert driver.log.delete_old_segments() == 2
    assert driver.log.segment_base_offsets == (10,)
    assert "the active segment stays though it is older than retention.ms" in caplog.text
    driver.faults.heal()
    assert driver.log.delete_old_segments() == 1


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
    driver.log.delete_old_segments()
    assert driver.log.segment_base_offsets == (5,)
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
    assert refused(driver.log.roll).code is ErrorCode.KAFKA_STORAGE_ERROR
    leave_empty_log(driver, 3)
    driver.faults.heal()
    for _ in range(9):
        driver.append()
    assert driver.log.segment_base_offsets == (0, 5, 10)
    if flushed:
        driver.flush()
    driver.reopen(clean=clean)
    assert driver.log.segment_base_offsets == (0, 5, 10)
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
            assert refused(driver.log.roll).code is ErrorCode.KAFKA_STORAGE_ERROR
            assert {name for name in driver.files() if not name.endswith(".snapshot")} == set(before)
        driver.faults.heal()
    driver.log.roll()
    driver.check()


def test_deleted_records_are_hidden_and_their_segments_go(driver: LogDriver) -> None:
    for _ in range(12):
        driver.append()
    assert driver.log.delete_records(7) == 7
    assert driver.log.starts_within_segment
    assert driver.log.delete_records(3) == 7
    assert driver.log.delete_old_segments() == 1
    assert driver.log.segment_base_offsets == (5, 10)
    assert refused(lambda: driver.log.delete_records(13)).code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert driver.log.delete_records(-1) == 12
    assert driver.log.delete_old_segments() == 1
    assert driver.contents() == []
    driver.append()
    driver.check()


@pytest.mark.parametrize(("policy", "refused_"), [("compact", True), ("", False), ("compact,delete", False)])
def test_records_are_only_deleted_where_the_policy_deletes(driver: LogDriver, policy: str, refused_: bool) -> None:
    for _ in range(6):
        driver.append()
    driver.log.reconfigure(driver.config.parse({"cleanup.policy": policy}, driver.config))
    if refused_:
        error = refused(lambda: driver.log.delete_records(3))
        assert error.code is ErrorCode.POLICY_VIOLATION
        assert f"t-0: records cannot be deleted under cleanup.policy={policy}" in error.detail
    else:
        assert driver.log.delete_records(3) == 3
    assert driver.log.log_start_offset == (0 if refused_ else 3)


def test_truncation_keeps_whole_batches_only(driver: LogDriver) -> None:
    sent = {"producer_id": 1, "producer_epoch": 0}
    for sequence in range(0, 24, 2):
        driver.append(count=2, base_sequence=sequence, leader_epoch=sequence // 8, **sent)
    assert driver.log.truncate_to(11) == 10
    del driver.values[10:]
    driver.check()
    assert driver.log.latest_leader_epoch == 1
    driver.append(count=2, base_sequence=10, **sent)
    assert driver.log.truncate_to(12) == 12
    assert refused(lambda: driver.log.truncate_to(13)).code is ErrorCode.OFFSET_OUT_OF_RANGE
    driver.reopen()
    driver.check()


# --- compacted segments in place of others ---------------------------------------------------------------------------


def written() -> CompactionDriver:
    """Three complete segments, everything in them on the disk, most of it to be compacted; an active one."""
    driver = CompactionDriver({"segment.bytes": 300, "file.delete.delay.ms": 1000})
    for number in range(12):
        driver.put(**{f"k{number % 4}": str(number)})
    driver.put(k0=None)
    driver.log.flush()
    driver.manager.checkpoint_recovery_points()
    assert len(driver.log.segment_base_offsets) == 4
    return driver


def steps_of_a_compaction() -> list[str]:
    driver = written()
    driver.faults.steps = []
    assert driver.clean() == 1
    return driver.faults.steps


COMPACTED = [(8, "k0", "8"), (9, "k1", "9"), (10, "k2", "10"), (11, "k3", "11"), (12, "k0", None)]


def test_a_compaction_goes_step_by_step() -> None:
    steps = steps_of_a_compaction()
    first, kinds = f"{0:020d}", (".log", ".index", ".timeindex")
    order = [
        *(f"sync {first}{kind}.cleaned" for kind in kinds),
        f"set_modified_ms {first}.log.cleaned",
        *(f"rename {first}{kind}.cleaned" for kind in kinds),
        "sync_directory t-0",
        *(f"rename {first}{kind}" for kind in kinds),
        *(f"rename {first}{kind}.swap" for kind in kinds),
        "sync_directory t-0",
    ]
    start = steps.index(order[0])
    assert steps[start : start + len(order)] == order
    assert steps[-1] == "sync_directory /data".replace("/", "")
    assert [step for step in steps if "cleaner-offset-checkpoint" in step][-1].startswith("rename")


def test_readers_find_the_new_segments_and_who_reads_an_old_one_goes_on() -> None:
    driver = written()
    before = driver.log.read(0, max_bytes=10_000)
    view = driver.log.view
    driver.clean()
    assert driver.rows() == COMPACTED
    assert [row.offset for row in rows(slice_bytes(before))] == list(range(13))
    assert view.segments[0].file().size() > 200
    assert view.segments[0].path.endswith(".log.deleted")
    assert driver.log.view.segments[0].path.endswith("0.log")
    driver.check_segments()


def test_the_originals_leave_the_disk_after_their_delay() -> None:
    driver = written()
    driver.clean()
    assert f"{0:020d}.log.deleted" in driver.files()
    driver.manager.tick(driver.clock.now_ms() + 999, driver.clock.now_ms() + 999)
    assert f"{0:020d}.log.deleted" in driver.files()
    driver.manager.tick(driver.clock.now_ms() + 1000, driver.clock.now_ms() + 1000)
    assert not [name for name in driver.files() if name.endswith(".deleted")]
    assert driver.rows() == COMPACTED


def after_a_crash(step: int, seed: int | None, *, torn: bool = False) -> CompactionDriver:
    """Stopped at a step of a compaction, started again."""
    driver = written()
    driver.faults.steps = []
    driver.faults.crash_at, driver.faults.torn = step, torn
    with suppress(SimulatedCrash):
        driver.clean()
    driver.crash(None if seed is None else random.Random(seed))
    return driver


@pytest.mark.parametrize("kept", ["nothing", "some", "other", "torn"])
def test_a_crash_at_any_step_leaves_a_log_that_opens(kept: str) -> None:
    count = len(steps_of_a_compaction())
    for step in range(count):
        seed = {"nothing": None, "some": step, "other": step + 1000}.get(kept)
        driver = after_a_crash(step, seed, torn=kept == "torn")
        found = driver.rows()
        assert found == sorted(found)
        assert set(COMPACTED) <= set(found) <= set(driver.written), f"step {step}"
        driver.check_segments()
        assert not [name for name in driver.files() if name.endswith((".cleaned", ".swap", ".deleted"))]
        driver.clean()
        assert driver.rows() == COMPACTED
        driver.check_segments()


@pytest.mark.parametrize("space", range(0, 700, 50))
def test_a_full_disk_leaves_the_log_as_it_is_until_there_is_space(space: int) -> None:
    driver = written()
    before = driver.rows()
    driver.faults.space = space
    driver.clean()
    assert driver.log.offline is None
    assert set(COMPACTED) <= set(driver.rows()) <= set(before)
    assert not [name for name in driver.files() if name.endswith((".cleaned", ".swap"))]
    driver.faults.heal()
    driver.put(k9="9")
    driver.clean()
    assert driver.rows() == [*COMPACTED, (13, "k9", "9")]
    driver.check_segments()


@pytest.mark.parametrize("restart", [True, False])
def test_a_disk_that_fails_at_any_step_loses_nothing(restart: bool) -> None:
    steps = [step for step in dict.fromkeys(steps_of_a_compaction()) if "checkpoint" not in step and "data" not in step]
    for step in steps:
        driver = written()
        driver.faults.fail(step)
        driver.clean()
        driver.faults.heal()
        midway = step.startswith("rename") and not step.endswith(".cleaned")
        assert (driver.log.offline is not None) == midway, f"{step}: {driver.log.offline}"
        if midway or restart:
            driver.restart(clean=False)
        assert driver.log.offline is None
        assert set(COMPACTED) <= set(driver.rows())
        driver.clean()
        assert driver.rows() == COMPACTED
        driver.check_segments()


def test_a_compaction_that_cannot_be_undone_takes_the_log_offline() -> None:
    driver = written()
    driver.faults.fail("sync_directory t-0")
    driver.faults.fail("remove *.swap")
    driver.clean()
    assert "cannot undo a compaction" in (driver.log.offline or "")
    driver.faults.heal()
    driver.restart(clean=False)
    driver.clean()
    assert driver.rows() == COMPACTED


def begun(driver: CompactionDriver) -> LogSegment:
    """An empty copy of the first segment, as a cleaner makes it."""
    cleaned = driver.log.begin_cleaned(0)
    cleaned.finish()
    cleaned.sync(indexes=True)
    return cleaned


def test_without_descriptors_at_its_last_step_a_compaction_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = written()
    rename, before = driver.faults.rename, driver.log.view.segments[0].size

    def rename_then_fail(source: str, target: str) -> None:
        rename(source, target)
        if target.endswith(".deleted"):
            driver.faults.fail("sync_directory *", errno.EMFILE)

    monkeypatch.setattr(driver.faults, "rename", rename_then_fail)
    driver.clean()
    assert driver.log.offline is None
    assert driver.log.view.segments[0].size < before
    driver.faults.heal()
    driver.faults.steps = []
    driver.log.flush()
    assert "sync_directory t-0" in driver.faults.steps
    monkeypatch.undo()
    driver.clean()
    assert driver.rows() == COMPACTED


def test_a_compaction_that_fails_midway_leaves_no_way_to_files_of_another_topic() -> None:
    driver = written()
    region = driver.log.read(0, max_bytes=100).regions[0]
    driver.faults.fail("rename *0.log", errno.EIO)
    driver.clean()
    assert driver.log.offline is not None
    driver.faults.heal()
    driver.manager.delete(PARTITION)
    driver.manager.create(PARTITION, UUID(int=8), driver.config)
    with pytest.raises(FileNotFoundError):
        region.owner.file()


def test_segments_that_retention_took_are_not_replaced() -> None:
    driver = written()
    originals = driver.log.view.segments[:2]
    cleaned = begun(driver)
    driver.log.reconfigure(driver.config.parse({"cleanup.policy": "compact,delete"}, driver.config))
    driver.log.delete_records(5)
    assert driver.log.delete_old_segments() == 1
    files = driver.files()
    with pytest.raises(CleaningAborted, match="are gone"):
        driver.log.replace_segments(originals, cleaned)
    assert driver.files() == files


def test_the_active_segment_is_never_replaced() -> None:
    driver = written()
    with pytest.raises(CleaningAborted):
        driver.log.replace_segments(driver.log.view.segments, begun(driver))


def test_a_log_that_is_closed_or_deleted_takes_no_segments() -> None:
    driver = written()
    originals, cleaned = driver.log.view.segments[:1], begun(driver)
    driver.log.abandon()
    for use in (lambda: driver.log.replace_segments(originals, cleaned), lambda: driver.log.begin_cleaned(0)):
        with pytest.raises(CleaningAborted, match="it was abandoned"):
            use()


def test_readers_run_beside_compactions(tmp_path: Path) -> None:
    """Every record that is the last of its key is read, at its offset, whatever is put in place meanwhile."""
    config = LogConfig.parse({**EAGER, "segment.bytes": 2000, "file.delete.delay.ms": 0})
    manager = LogManager(tmp_path, config, Platform(max_open_files=6))
    manager.load_all()
    log = manager.create(PARTITION, TOPIC_ID)
    cleaner = LogCleaner(manager, Platform(), CleanerConfig())
    wrong: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            offset, last = 0, -1
            end = log.log_end_offset
            try:
                while offset < end:
                    stored = log.read(offset, max_bytes=1500)
                    try:
                        found = rows(slice_bytes(stored))
                    except FileNotFoundError:  # regions are opened when they are sent, and file.delete.delay.ms is 0
                        continue
                    wrong.extend(f"{row} after {last}" for row in found if row.offset < offset)
                    offset = last = max(offset, *(row.offset for row in found)) + 1 if found else end
            except Exception as error:  # whatever it is, the test is to show it
                wrong.append(repr(error))

    threads = [threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for round_ in range(4):
        for number in range(40):
            record = reference.Record(b"k%d" % (number % 7), b"%d" % round_ * 20)
            log.append(bytearray(reference.write_batch(reference.Batch(records=(record,)))), leader_epoch=0)
        log.roll()
        assert cleaner.clean_one()
        manager.tick(Platform().clock.now_ms(), Platform().clock.elapsed_ms())
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert log.offline is None
    assert [row.offset for _, data in batches_of(log) for row in rows(data)] == list(range(153, 160))
    manager.close()
