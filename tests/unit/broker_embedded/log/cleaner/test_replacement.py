import errno
import random
import threading
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest

from broker_embedded._config.log_config import CleanerConfig, LogConfig
from broker_embedded._log.cleaner.log_cleaner import LogCleaner
from broker_embedded._log.cleaner.replacement import CleaningAborted, begin_cleaned, replace_segments
from broker_embedded._log.manager import LogManager
from broker_embedded._log.segment import LogSegment
from broker_embedded._platform.platform import Platform
from tests.support.broker.compaction_driver import EAGER, PARTITION, TOPIC_ID, CompactionDriver
from tests.support.broker.disk import SimulatedCrash
from tests.support.broker.log_driver import batches_of, slice_bytes
from tests.support.records import reference
from tests.support.records.log_batches import rows


def written() -> CompactionDriver:
    """Three complete segments, everything in them on the disk, most of it to be compacted; an active one."""
    driver = CompactionDriver({"segment.bytes": 300, "file.delete.delay.ms": 1000})
    for number in range(12):
        driver.put(**{f"k{number % 4}": str(number)})
    driver.put(k0=None)
    driver.log.local.flush()
    driver.manager.checkpoint_recovery_points()
    assert len(driver.log.local.view.bases) == 4
    return driver


def steps_of_a_compaction() -> list[str]:
    driver = written()
    driver.faults.steps = []
    assert driver.clean() == 1
    return driver.faults.steps


COMPACTED = [(8, "k0", "8"), (9, "k1", "9"), (10, "k2", "10"), (11, "k3", "11"), (12, "k0", None)]


@pytest.fixture
def driver() -> CompactionDriver:
    return written()


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


def test_new_reads_use_the_new_segments_and_open_reads_the_old_ones(driver: CompactionDriver) -> None:
    before = driver.log.reader.read(0, max_bytes=10_000)
    view = driver.log.local.view
    driver.clean()
    assert driver.rows() == COMPACTED
    assert [row.offset for row in rows(slice_bytes(before))] == list(range(13))
    assert view.segments[0].file().size() > 200
    assert view.segments[0].path.endswith(".log.deleted")
    assert driver.log.local.view.segments[0].path.endswith("0.log")
    driver.check_segments()


def test_the_originals_are_deleted_after_file_delete_delay_ms(driver: CompactionDriver) -> None:
    driver.clean()
    assert f"{0:020d}.log.deleted" in driver.files()
    driver.manager.remove_files(driver.clock.now_ms() + 999)
    assert f"{0:020d}.log.deleted" in driver.files()
    driver.manager.remove_files(driver.clock.now_ms() + 1000)
    assert not [name for name in driver.files() if name.endswith(".deleted")]
    assert driver.rows() == COMPACTED


def after_a_crash(step: int, seed: int | None, *, torn: bool = False) -> CompactionDriver:
    """The log after a crash at a step of a compaction and a restart."""
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
def test_a_full_disk_leaves_the_log_as_it_is_until_there_is_space(space: int, driver: CompactionDriver) -> None:
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


def test_a_compaction_that_cannot_be_undone_takes_the_log_offline(driver: CompactionDriver) -> None:
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
    cleaned = begin_cleaned(driver.log.local, 0)
    cleaned.finish()
    cleaned.sync(indexes=True)
    return cleaned


def test_without_descriptors_at_its_last_step_a_compaction_is_complete(
    monkeypatch: pytest.MonkeyPatch, driver: CompactionDriver
) -> None:
    rename, before = driver.faults.rename, driver.log.local.view.segments[0].size

    def rename_then_fail(source: str, target: str) -> None:
        rename(source, target)
        if target.endswith(".deleted"):
            driver.faults.fail("sync_directory *", errno.EMFILE)

    monkeypatch.setattr(driver.faults, "rename", rename_then_fail)
    driver.clean()
    assert driver.log.offline is None
    assert driver.log.local.view.segments[0].size < before
    driver.faults.heal()
    driver.faults.steps = []
    driver.log.local.flush()
    assert "sync_directory t-0" in driver.faults.steps
    monkeypatch.undo()
    driver.clean()
    assert driver.rows() == COMPACTED


def test_a_compaction_that_fails_midway_leaves_no_way_to_files_of_another_topic(driver: CompactionDriver) -> None:
    region = driver.log.reader.read(0, max_bytes=100).regions[0]
    driver.faults.fail("rename *0.log", errno.EIO)
    driver.clean()
    assert driver.log.offline is not None
    driver.faults.heal()
    driver.manager.delete_all([PARTITION])
    driver.manager.create_all([PARTITION], UUID(int=8), driver.config)
    with pytest.raises(FileNotFoundError):
        region.owner.file()


def test_segments_that_retention_took_are_not_replaced(driver: CompactionDriver) -> None:
    originals = driver.log.local.view.segments[:2]
    cleaned = begun(driver)
    driver.log.reconfigure(driver.config.parse({"cleanup.policy": "compact,delete"}, driver.config))
    driver.log.retention.delete_records(5)
    assert driver.log.retention.delete_old_segments() == 1
    files = driver.files()
    with pytest.raises(CleaningAborted, match="are gone"):
        replace_segments(driver.log.local, originals, cleaned)
    assert driver.files() == files


def test_the_active_segment_is_never_replaced(driver: CompactionDriver) -> None:
    with pytest.raises(CleaningAborted):
        replace_segments(driver.log.local, driver.log.local.view.segments, begun(driver))


def test_a_log_that_is_closed_or_deleted_takes_no_segments(driver: CompactionDriver) -> None:
    originals, cleaned = driver.log.local.view.segments[:1], begun(driver)
    driver.log.local.abandon()
    for use in (
        lambda: replace_segments(driver.log.local, originals, cleaned),
        lambda: begin_cleaned(driver.log.local, 0),
    ):
        with pytest.raises(CleaningAborted, match="it was abandoned"):
            use()


def test_readers_run_beside_compactions(tmp_path: Path) -> None:
    """Every last record of a key is read at its offset while segments are replaced."""
    config = LogConfig.parse({**EAGER, "segment.bytes": 2000, "file.delete.delay.ms": 0})
    manager = LogManager(tmp_path, config, Platform(max_open_files=6))
    manager.load_all()
    (log,) = manager.create_all([PARTITION], TOPIC_ID)
    cleaner = LogCleaner(manager, Platform(), CleanerConfig())
    wrong: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            offset, last = 0, -1
            end = log.log_end_offset
            try:
                while offset < end:
                    stored = log.reader.read(offset, max_bytes=1500)
                    try:
                        found = rows(slice_bytes(stored))
                    except FileNotFoundError:  # regions are opened when they are sent, and file.delete.delay.ms is 0
                        continue
                    wrong.extend(f"{row} after {last}" for row in found if row.offset < offset)
                    offset = last = max(offset, *(row.offset for row in found)) + 1 if found else end
            except Exception as error:  # whatever it is, the test is to show it
                wrong.append(repr(error))

    reader = threading.Thread(target=read)
    reader.start()
    for round_ in range(4):
        for number in range(40):
            record = reference.Record(b"k%d" % (number % 7), b"%d" % round_ * 20)
            log.append(bytearray(reference.write_batch(reference.Batch(records=(record,)))), leader_epoch=0)
        log.local.roll()
        assert cleaner.clean_one()
        manager.remove_files(Platform().clock.elapsed_ms())
    done.set()
    reader.join()
    assert wrong == []
    assert log.offline is None
    assert [row.offset for _, data in batches_of(log) for row in rows(data)] == list(range(153, 160))
    manager.close()
