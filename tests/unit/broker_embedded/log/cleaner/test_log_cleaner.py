import threading
from collections.abc import Callable
from uuid import UUID

import pytest

from broker_embedded._config.log_config import CleanerConfig, LogConfig
from broker_embedded._log.cleaner.cleanable import CleanableRange, cleanable_range, first_dirty_offset
from broker_embedded._log.log import Log
from broker_embedded._platform.platform import read_file
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.compaction_driver import DIRECTORY, EAGER, PARTITION, CompactionDriver
from tests.support.records import reference

OTHER = TopicPartition("other", 3)


@pytest.fixture
def driver() -> CompactionDriver:
    return CompactionDriver({"segment.bytes": 300})


def filled(driver: CompactionDriver, count: int = 12) -> CompactionDriver:
    for number in range(count):
        driver.put(a=str(number))
    driver.roll()
    return driver


def checkpoint(driver: CompactionDriver) -> str:
    return read_file(driver.disk, "/data/cleaner-offset-checkpoint").decode()


def test_the_cleaner_checkpoint_is_written(driver: CompactionDriver) -> None:
    filled(driver)
    assert driver.cleaner.clean_one()
    assert checkpoint(driver) == "0\n1\nt 0 12\n"
    assert not driver.cleaner.clean_one()
    driver.restart(clean=False)
    assert not driver.cleaner.clean_one()


def test_a_checkpoint_that_is_lost_costs_a_compaction(driver: CompactionDriver) -> None:
    filled(driver).clean()
    driver.manager.close()
    driver.disk.create("/data/cleaner-offset-checkpoint").write_at(0, b"nonsense")
    driver.restart(clean=False)
    assert driver.cleaner.clean_one()
    assert driver.rows() == [(11, "a", "11")]


def test_only_logs_above_min_cleanable_dirty_ratio_are_compacted(driver: CompactionDriver) -> None:
    for number in range(10):
        driver.put(**{f"k{number}": "x" * 20})
    driver.compact()
    driver.log.reconfigure(LogConfig.parse({**EAGER, "min.cleanable.dirty.ratio": 0.3}))
    driver.put(k0="y" * 20)
    driver.roll()
    assert not driver.cleaner.clean_one()
    start = first_dirty_offset(driver.log, driver.manager.cleaned_offsets.get(PARTITION))
    assert 0 < cleanable_range(driver.log, start, driver.clock.now_ms()).dirty_ratio < 0.3
    for number in range(6):
        driver.put(**{f"k{number}": "z" * 20})
    driver.roll()
    assert driver.cleaner.clean_one()


def test_a_log_that_is_overdue_is_compacted_however_clean_it_is(driver: CompactionDriver) -> None:
    driver.log.reconfigure(LogConfig.parse({**EAGER, "min.cleanable.dirty.ratio": 1, "max.compaction.lag.ms": 1000}))
    filled(driver, 2)
    assert not driver.cleaner.clean_one()
    driver.clock.advance(1001)
    assert driver.cleaner.clean_one()
    assert driver.rows() == [(1, "a", "1")]


def test_logs_of_other_policies_are_left_alone(driver: CompactionDriver) -> None:
    filled(driver)
    for policy in ("delete", ""):
        driver.log.reconfigure(LogConfig.parse({**EAGER, "cleanup.policy": policy}))
        assert not driver.cleaner.clean_one()
    driver.log.reconfigure(LogConfig.parse({**EAGER, "cleanup.policy": "compact,delete"}))
    assert driver.cleaner.clean_one()


def keyed(log: Log, count: int) -> Log:
    """So many records of one key, and the segment that holds the last is complete."""
    for number in range(count):
        record = reference.Record(b"k", b"%d" % number)
        log.append(bytearray(reference.write_batch(reference.Batch(records=(record,)))), leader_epoch=0)
    log.local.roll()
    return log


def test_the_dirtiest_log_comes_first(driver: CompactionDriver) -> None:
    driver.put(a="x" * 50, b="y" * 50)
    driver.compact()
    driver.put(a="4")
    driver.roll()
    keyed(driver.manager.create_all([OTHER], UUID(int=9), driver.config)[0], 8)
    assert driver.cleaner.clean_one()
    assert (driver.manager.cleaned_offsets.get(OTHER), driver.manager.cleaned_offsets.get(PARTITION)) == (8, 2)
    assert driver.cleaner.clean_one()
    assert driver.manager.cleaned_offsets.get(PARTITION) == 3


def test_a_log_that_does_not_read_is_given_up_until_the_next_start(
    driver: CompactionDriver, caplog: pytest.LogCaptureFixture
) -> None:
    filled(driver)
    path = f"{DIRECTORY}/{0:020d}.log"
    good = read_file(driver.disk, path)
    driver.disk.open(path).write_at(100, b"\xff")
    before = driver.files()
    assert driver.cleaner.clean_one()
    assert driver.cleaner.uncleanable == {PARTITION}
    assert "t-0 cannot be compacted, will be retried after a restart" in caplog.text
    assert "CRC-32C of the record batch is" in caplog.text
    assert path in caplog.text
    assert {name: size for name, size in driver.files().items() if ".log" in name} == {
        name: size for name, size in before.items() if ".log" in name
    }
    driver.disk.open(path).write_at(0, good)
    assert not driver.cleaner.clean_one()
    driver.restart(clean=False)
    assert driver.cleaner.clean_one()
    assert driver.rows() == [(11, "a", "11")]


def test_a_topic_made_again_is_not_given_up_for_its_name(driver: CompactionDriver) -> None:
    filled(driver)
    driver.disk.open(f"{DIRECTORY}/{0:020d}.log").write_at(100, b"\xff")
    driver.clean()
    driver.manager.delete_all([PARTITION])
    assert not driver.cleaner.clean_one()
    assert driver.cleaner.uncleanable == set()
    driver.manager.create_all([PARTITION], UUID(int=8), driver.config)
    driver.written.clear()
    filled(driver)
    assert driver.clean() == 1
    assert driver.rows() == [(11, "a", "11")]


def test_a_log_that_an_error_has_no_name_for_is_given_up_too(
    driver: CompactionDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(driver)

    def broken(*_: object) -> CleanableRange:
        raise ZeroDivisionError("a mistake of ours")

    with monkeypatch.context() as patched:
        patched.setattr("broker_embedded._log.cleaner.log_cleaner.cleanable_range", broken)
        assert not driver.cleaner.clean_one()
    assert driver.cleaner.uncleanable == {PARTITION}
    assert not driver.cleaner.clean_one()


def test_a_disk_that_fails_is_tried_again_in_the_next_round(
    driver: CompactionDriver, caplog: pytest.LogCaptureFixture
) -> None:
    filled(driver)
    driver.faults.fail("create *.cleaned")
    assert driver.clean() == 1
    assert "t-0: cannot be compacted now, will be retried" in caplog.text
    assert driver.clean() == 1
    driver.faults.heal()
    assert driver.clean() == 1
    assert driver.rows() == [(11, "a", "11")]


def test_a_failing_log_does_not_delay_the_others(driver: CompactionDriver) -> None:
    filled(driver)
    keyed(driver.manager.create_all([OTHER], UUID(int=9), driver.config)[0], 8)
    driver.disk.open(f"{DIRECTORY}/{0:020d}.log").write_at(100, b"\xff")
    driver.clean()
    assert driver.manager.cleaned_offsets.get(OTHER) == 8


def test_a_checkpoint_that_cannot_be_written_is_written_with_the_next_compaction(driver: CompactionDriver) -> None:
    filled(driver)
    driver.faults.fail("* cleaner-offset-checkpoint*")
    driver.clean()
    assert driver.rows() == [(11, "a", "11")]
    driver.faults.heal()
    filled(driver).clean()
    assert checkpoint(driver) == "0\n1\nt 0 24\n"


def on_spend(driver: CompactionDriver, act: Callable[[], object]) -> None:
    """Call ``act`` whenever a compaction spends I/O."""
    spend = driver.cleaner._throttler.spend

    def act_and_spend(size: int, rate: float) -> None:
        act()
        spend(size, rate)

    driver.cleaner._throttler.spend = act_and_spend  # type: ignore[assignment]  # a spy


def test_a_log_that_is_deleted_while_it_is_compacted(driver: CompactionDriver) -> None:
    filled(driver)
    on_spend(driver, lambda: driver.manager.delete_all([PARTITION]))
    assert driver.clean() == 1
    assert driver.cleaner.uncleanable == set()
    assert not driver.disk.exists(DIRECTORY)


def test_a_log_that_is_deleted_when_its_compaction_is_over(driver: CompactionDriver) -> None:
    """Else a recreated topic would have the checkpoints of the deleted one."""
    driver.put(a="1", b="2", c="3")
    driver.roll()
    spent = []

    def delete_at_the_end() -> None:
        spent.append(1)
        if len(spent) == 3:  # the segment was read for its keys, read again, and written as it was
            driver.manager.delete_all([PARTITION])

    on_spend(driver, delete_at_the_end)
    assert driver.clean() == 1
    assert len(spent) == 3
    assert driver.cleaner.last is not None
    assert driver.cleaner.last.until_offset == 3
    assert driver.manager.cleaned_offsets.get(PARTITION) is None
    driver.manager.create_all([PARTITION], UUID(int=8), driver.config)
    driver.written.clear()
    filled(driver, 3)
    assert driver.clean() == 1
    assert driver.rows() == [(2, "a", "2")]


def test_a_policy_that_changes_ends_a_compaction(driver: CompactionDriver) -> None:
    filled(driver)
    config = LogConfig.parse({"cleanup.policy": "delete"})
    on_spend(driver, lambda: driver.log.reconfigure(config))
    driver.clean()
    assert len(driver.rows()) == 12
    assert not [name for name in driver.files() if name.endswith(".cleaned")]


def test_a_cleaner_that_is_stopped_gives_up_soon(driver: CompactionDriver) -> None:
    driver = filled(CompactionDriver({"segment.bytes": 300}, CleanerConfig(io_max_bytes_per_second=1.0)))
    thread = threading.Thread(target=driver.clean)
    thread.start()
    driver.cleaner.stop()
    thread.join()
    assert driver.cleaner.stopped
    assert len(driver.rows()) == 12
    assert not driver.cleaner.clean_one()


def test_several_threads_compact_several_logs(driver: CompactionDriver) -> None:
    partitions = [TopicPartition("many", index) for index in range(6)]
    for log in driver.manager.create_all(partitions, UUID(int=9), driver.config):
        keyed(log, 20)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(driver.clean())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 6
    assert all(driver.manager.cleaned_offsets.get(partition) == 20 for partition in partitions)
    assert driver.cleaner._busy == set()


def test_memory_is_shared_by_the_threads() -> None:
    driver = CompactionDriver({}, CleanerConfig(threads=4, dedupe_buffer_size=24 * 40, io_buffer_size=80_000))
    tools = driver.cleaner._limits(driver.log)
    assert (tools.max_keys, tools.buffer_bytes) == (9, 10_000)
