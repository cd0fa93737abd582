import errno
import random
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker_embedded._log.appender import AppendResult
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.broker.disk import SimulatedCrash
from tests.support.broker.log_driver import LogDriver, slice_bytes
from tests.support.records.log_batches import NOW_MS, batch, rows
from tests.support.refusals import refused

SMALL = {"segment.bytes": 400, "index.interval.bytes": 100}
SEEDS = 4


@pytest.fixture
def driver() -> LogDriver:
    return LogDriver(SMALL)


def test_offsets_are_given_in_order(driver: LogDriver) -> None:
    assert driver.append(count=3) == AppendResult(
        base_offset=0, last_offset=2, log_append_time_ms=-1, log_start_offset=0, duplicate=False
    )
    assert driver.append(leader_epoch=5).base_offset == 3
    data = driver.log.reader.read(0, max_bytes=1000)
    assert [row.offset for row in rows(slice_bytes(data))] == [0, 1, 2, 3]
    driver.check()


def test_read_only_bytes_are_not_accepted(driver: LogDriver) -> None:
    with pytest.raises(TypeError, match="writable"):
        driver.log.append(memoryview(bytes(batch(b"a"))), leader_epoch=0)


def test_the_brokers_clock_may_stamp_the_records() -> None:
    driver = LogDriver({**SMALL, "message.timestamp.type": "LogAppendTime"})
    sent = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    assert driver.append(count=2, timestamps=5, **sent).log_append_time_ms == NOW_MS
    driver.clock.advance(50)
    values = [b"000000", b"000001"]
    assert driver.append(*values, timestamps=5, **sent) == AppendResult(
        base_offset=0, last_offset=1, log_append_time_ms=NOW_MS, log_start_offset=0, duplicate=True
    )
    assert driver.append().log_append_time_ms == NOW_MS + 50


def test_new_settings_count_from_the_next_append(driver: LogDriver) -> None:
    driver.append()
    driver.log.reconfigure(driver.config.parse({"max.message.bytes": 10}))
    assert refused(driver.append).code is ErrorCode.MESSAGE_TOO_LARGE


def test_segments_are_full_by_bytes(driver: LogDriver) -> None:
    for _ in range(12):
        driver.append()
    assert driver.log.local.view.bases == (0, 5, 10)
    assert all(size <= 400 for name, size in driver.files().items() if name.endswith(".log"))
    driver.check()


def test_segments_are_full_by_time_of_their_records() -> None:
    driver = LogDriver({"segment.ms": 1000, "message.timestamp.after.max.ms": 10**6})
    for timestamp in (0, 500, 1000, 1001, 400, 2002):
        driver.append(timestamps=NOW_MS + timestamp)
    assert driver.log.local.view.bases == (0, 3, 5)


def test_a_full_segment_has_complete_indexes_and_a_snapshot(driver: LogDriver) -> None:
    for _ in range(6):
        driver.append()
    names = driver.files()
    assert names[f"{0:020d}.index"] == 2 * 8
    assert names[f"{0:020d}.timeindex"] == 12
    assert f"{5:020d}.snapshot" in names


def test_rolling_an_empty_segment_changes_nothing(driver: LogDriver) -> None:
    driver.log.local.roll()
    driver.append()
    driver.log.local.roll()
    driver.log.local.roll()
    assert driver.log.local.view.bases == (0, 1)


@pytest.mark.parametrize("space", range(0, 80, 7))
def test_a_full_disk_refuses_appends_until_there_is_space(driver: LogDriver, space: int) -> None:
    driver.append()
    before = driver.files()
    driver.faults.space = space
    sent = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    error = refused(driver.append, count=2, **sent)
    assert (error.code, "No space left" in error.detail) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
    assert driver.files() == before
    driver.check()
    driver.faults.heal()
    assert driver.append(count=2, **sent).duplicate is False
    driver.check()
    driver.reopen(clean=False)
    driver.check()


@pytest.mark.parametrize(
    "step", ["write *.index", "write *.timeindex", "create *.log", "create *index", "* *.snapshot"]
)
def test_a_segment_that_cannot_be_begun_refuses_and_is_begun_later(driver: LogDriver, step: str) -> None:
    for _ in range(5):
        driver.append()
    driver.faults.fail(step, errno.ENOSPC)
    assert refused(driver.append).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused(driver.log.local.roll).code is ErrorCode.KAFKA_STORAGE_ERROR
    driver.check()
    driver.faults.heal()
    driver.append()
    assert driver.log.local.view.bases == (0, 5)
    driver.check()
    driver.reopen(clean=False)
    driver.check()


def no_descriptors(driver: LogDriver) -> None:
    """No file is open and none can be opened; so none can be truncated, either."""
    while driver.log.local.platform.open_files.close_oldest():
        pass
    for call in ("open *", "create *", "sync_directory *"):
        driver.faults.fail(call, errno.EMFILE)


@pytest.mark.parametrize("settings", [SMALL, {**SMALL, "flush.messages": 1}], ids=["", "flushed at once"])
def test_without_descriptors_a_log_refuses_and_stays_online(settings: dict[str, int]) -> None:
    driver = LogDriver(settings)
    for _ in range(7):
        driver.append()
    no_descriptors(driver)
    for use in (
        driver.append,
        driver.log.local.flush,
        driver.log.local.roll,
        lambda: driver.log.reader.read(0, max_bytes=1),
    ):
        assert refused(use).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.log.offline is None
    driver.faults.heal()
    driver.append()
    driver.check()
    driver.flush()
    driver.crash()
    assert driver.log.log_end_offset == 8


def test_a_flush_without_descriptors_is_made_up_for_by_the_next(driver: LogDriver) -> None:
    """Names of files, snapshots and epochs included."""
    for _ in range(7):
        driver.append(leader_epoch=3)
    before = driver.log.local.flushed_offset
    no_descriptors(driver)
    assert refused(driver.log.local.flush).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused(driver.log.local.flush_rolled).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (driver.log.local.flushed_offset, driver.log.offline) == (before, None)
    driver.faults.heal()
    driver.flush()
    driver.crash()
    assert driver.log.log_end_offset == 7
    assert driver.log.epochs.epoch_of(6) == 3
    assert f"{5:020d}.snapshot" in driver.files()


def test_the_name_of_a_saved_checkpoint_is_synced_by_the_next_flush(driver: LogDriver) -> None:
    driver.append(leader_epoch=3)
    driver.flush()
    driver.append(leader_epoch=4)
    driver.faults.fail("sync_directory *", errno.EMFILE)
    assert refused(driver.log.local.flush).code is ErrorCode.KAFKA_STORAGE_ERROR
    driver.faults.heal()
    driver.flush()
    driver.crash()
    assert driver.log.epochs.epoch_of(1) == 4


def test_bytes_that_cannot_be_cut_off_take_the_log_offline(driver: LogDriver) -> None:
    driver.append()
    driver.faults.space = 10
    driver.faults.fail("truncate *.log")
    assert refused(driver.append).code is ErrorCode.KAFKA_STORAGE_ERROR
    driver.faults.heal()
    for use in (driver.append, driver.log.local.flush, driver.log.local.roll, driver.log.retention.delete_old_segments):
        assert "is offline: cannot cut off" in refused(use).detail
    driver.reopen(clean=False)
    driver.check()


def everything(driver: LogDriver) -> None:
    """Every procedure of a log, once."""
    for number in range(4):
        driver.append(count=2, producer_id=1, producer_epoch=0, base_sequence=2 * number)
    driver.flush()
    for _ in range(5):
        driver.append(leader_epoch=1)
    driver.log.local.roll()
    driver.append(count=3)
    driver.flush()
    driver.append(count=3)
    driver.clock.advance(20_000)
    driver.append()
    driver.log.retention.delete_old_segments()
    driver.clock.advance(2_000)
    driver.log.local.remove_retired(driver.clock.now_ms())
    driver.append(count=2)
    driver.log.close()
    driver.flushed, driver.checkpointed = len(driver.values), driver.log.local.recovery_point


def survivor(step: int, seed: int, *, torn: bool) -> LogDriver:
    """A log after a crash at one step of ``everything``."""
    driver = LogDriver({**SMALL, "file.delete.delay.ms": 1000, "retention.ms": 10_000})
    driver.faults.revive()
    driver.faults.crash_at, driver.faults.torn = step, torn
    with suppress(SimulatedCrash):
        everything(driver)
    driver.crash(random.Random(seed) if seed else None)
    return driver


@pytest.mark.parametrize("torn", [False, True])
def test_a_crash_at_any_step_leaves_a_beginning_with_all_that_was_flushed(*, torn: bool) -> None:
    probe = LogDriver({**SMALL, "file.delete.delay.ms": 1000, "retention.ms": 10_000})
    probe.faults.revive()
    everything(probe)
    steps = len(probe.faults.steps)
    assert {name.split()[0] for name in probe.faults.steps} >= {"create", "write", "sync", "rename", "sync_directory"}
    for step in range(steps + 1):
        for seed in range(SEEDS):
            driver = survivor(step, seed, torn=torn)
            driver.append(count=2)
            driver.reopen()
            driver.check()


@settings(max_examples=150, stateful_step_count=40)
class AnyLog(RuleBasedStateMachine):
    """A log behaves as a list under random operations."""

    @initialize(segment_bytes=st.integers(100, 1000), interval=st.sampled_from([0, 100, 4096]))
    def start(self, segment_bytes: int, interval: int) -> None:
        self.driver = LogDriver({"segment.bytes": segment_bytes, "index.interval.bytes": interval})

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.driver.append(count=count)

    @rule()
    def roll(self) -> None:
        self.driver.log.local.roll()

    @rule()
    def flush(self) -> None:
        self.driver.flush()

    @rule(clean=st.booleans())
    def reopen(self, *, clean: bool) -> None:
        self.driver.reopen(clean=clean, log_start_offset=self.driver.log.log_start_offset)

    @rule(seed=st.integers(0, 2**16))
    def crash(self, seed: int) -> None:
        self.driver.crash(random.Random(seed) if seed else None)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        driver = self.driver
        end = driver.log.truncate_to(data.draw(st.integers(driver.log.log_start_offset, driver.log.log_end_offset)))
        del driver.values[end:]
        driver.flushed = min(driver.flushed, end)
        driver.checkpointed = driver.log.local.recovery_point

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        driver = self.driver
        driver.flush()
        driver.log.retention.delete_records(data.draw(st.integers(0, driver.log.log_end_offset)))
        driver.log.retention.delete_old_segments()

    @invariant()
    def holds_what_it_should(self) -> None:
        if hasattr(self, "driver"):
            self.driver.check()


TestAnyLog = AnyLog.TestCase
