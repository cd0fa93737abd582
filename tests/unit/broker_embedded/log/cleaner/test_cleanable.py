import pytest

from broker_embedded._log.cleaner.cleanable import CleanableRange, cleanable_range, first_dirty_offset
from tests.support.broker.compaction_driver import CompactionDriver

HOUR_MS = 3_600_000


@pytest.fixture
def driver() -> CompactionDriver:
    """Segments at 0, 4, 8, each an hour younger than the one before, and the active one at 12."""
    driver = CompactionDriver({"segment.bytes": 300})
    for number in range(13):
        driver.put(**{f"k{number % 4}": str(number)})
        if number % 4 == 3:
            driver.roll()
            driver.clock.advance(HOUR_MS)
    assert driver.log.local.view.bases == (0, 4, 8, 12)
    return driver


def found(driver: CompactionDriver, from_offset: int = 0, **settings: object) -> CleanableRange:
    driver.log.reconfigure(driver.config.parse({key.replace("_", "."): value for key, value in settings.items()}))
    return cleanable_range(driver.log, from_offset, driver.clock.now_ms())


def size(driver: CompactionDriver, *indexes: int) -> int:
    return sum(driver.log.local.view.segments[index].size for index in indexes)


def test_all_but_the_active_segment(driver: CompactionDriver) -> None:
    whole = found(driver)
    assert (whole.from_offset, whole.until_offset, whole.overdue_ms) == (0, 12, 0)
    assert (whole.clean_bytes, whole.dirty_bytes, whole.dirty_ratio) == (0, size(driver, 0, 1, 2), 1.0)
    later = found(driver, 8)
    assert (later.from_offset, later.until_offset) == (8, 12)
    assert (later.clean_bytes, later.dirty_bytes) == (size(driver, 0, 1), size(driver, 2))
    assert later.dirty_ratio == pytest.approx(1 / 3, abs=0.05)
    nothing = found(driver, 12)
    assert (nothing.until_offset, nothing.dirty_bytes, nothing.dirty_ratio) == (12, 0, 0.0)


def test_an_offset_within_a_segment_makes_all_of_it_dirty(driver: CompactionDriver) -> None:
    within = found(driver, 6)
    assert (within.until_offset, within.dirty_bytes) == (12, size(driver, 1, 2))
    assert within.clean_bytes == size(driver, 0, 1)


@pytest.mark.parametrize(
    ("lag_hours", "until"), [(0, 12), (1, 12), (1.5, 8), (2.5, 4), (3.5, 0)], ids=["none", "just", "one", "two", "all"]
)
def test_young_records_are_left_alone(driver: CompactionDriver, lag_hours: float, until: int) -> None:
    assert found(driver, min_compaction_lag_ms=int(lag_hours * HOUR_MS)).until_offset == until


def test_nothing_from_the_last_stable_offset_on() -> None:
    driver = CompactionDriver({"segment.bytes": 300})
    for number in range(6):
        driver.put(a=str(number))
    driver.send_in_transaction(7, 0, a="open")
    for number in range(8):
        driver.put(a=str(number))
    stable = driver.log.last_stable_offset
    assert stable == 6
    until = found(driver).until_offset
    assert until == max(base for base in driver.log.local.view.bases if base <= stable)
    assert found(driver, 6).dirty_bytes == 0


@pytest.mark.parametrize(("lag_hours", "overdue_hours"), [(1, 2), (2, 1), (3, 0), (4, 0)])
def test_the_time_since_max_compaction_lag_ms(driver: CompactionDriver, lag_hours: int, overdue_hours: int) -> None:
    assert found(driver, max_compaction_lag_ms=lag_hours * HOUR_MS).overdue_ms == overdue_hours * HOUR_MS
    assert found(driver, 12, max_compaction_lag_ms=lag_hours * HOUR_MS).overdue_ms == 0


def shape(*, clean: int = 0, dirty: int = 0, overdue_ms: int = 0) -> CleanableRange:
    return CleanableRange(from_offset=0, until_offset=1, clean_bytes=clean, dirty_bytes=dirty, overdue_ms=overdue_ms)


def test_when_it_is_worth_it() -> None:
    assert shape(clean=10, dirty=11).is_due(0.5)
    assert not shape(clean=10, dirty=10).is_due(0.5)
    assert shape(clean=100, dirty=1, overdue_ms=1).is_due(0.5)
    assert not shape(clean=100, overdue_ms=1).is_due(0.5)
    assert not shape().is_due(0.0)
    assert not shape(dirty=10).is_due(1.0)


def test_the_first_dirty_offset(driver: CompactionDriver, caplog: pytest.LogCaptureFixture) -> None:
    assert [first_dirty_offset(driver.log, offset) for offset in (None, 0, 4, 13)] == [0, 0, 4, 13]
    assert first_dirty_offset(driver.log, 14) == 0
    assert "t-0: compacted up to 14, but ends at 13: compacting from the start" in caplog.text
    driver.log.reconfigure(driver.config.parse({"cleanup.policy": "compact,delete"}))
    driver.log.retention.delete_records(5)
    assert [first_dirty_offset(driver.log, offset) for offset in (None, 4, 6)] == [5, 5, 6]
