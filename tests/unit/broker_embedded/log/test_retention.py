import errno
from dataclasses import dataclass
from typing import Any, cast

import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.retention import count_deletable
from broker_embedded._log.segment import LogSegment
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.broker.log_driver import LogDriver
from tests.support.refusals import refused

SMALL = {"segment.bytes": 400, "index.interval.bytes": 100}
NOW_MS = 1_000_000


@pytest.fixture
def driver() -> LogDriver:
    return LogDriver(SMALL)


@dataclass
class Segment:
    """What retention asks of a segment."""

    base_offset: int
    size: int
    timestamp: int

    def retention_timestamp(self) -> int:
        return self.timestamp


# 10 offsets and 100 bytes each, the oldest 400 ms old.
SEGMENTS = [Segment(index * 10, 100, NOW_MS - 400 + index * 100) for index in range(4)]
EMPTY = Segment(40, 0, NOW_MS - 5000)


def deletable(segments: list[Segment], *, start: int = 0, **settings: Any) -> int:
    config = LogConfig(**{"retention_ms": -1, **settings})
    return count_deletable(cast("list[LogSegment]", segments), config, log_start_offset=start, now_ms=NOW_MS)[0]


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({}, 0),
        *(({"start": start}, count) for start, count in [(9, 0), (10, 1), (19, 1), (39, 3), (40, 3)]),
        *(
            ({"retention_bytes": size}, count)
            for size, count in [(1000, 0), (301, 0), (300, 1), (101, 2), (100, 3), (0, 4)]
        ),
        *(({"retention_ms": age}, count) for age, count in [(500, 0), (400, 0), (399, 1), (250, 2), (99, 4), (0, 4)]),
        ({"start": 10, "retention_bytes": 200}, 2),
        ({"start": 10, "retention_bytes": 200, "retention_ms": 150}, 3),
    ],
)
def test_segments_are_deletable_by_log_start_offset_size_and_age(settings: dict[str, Any], count: int) -> None:
    assert deletable(SEGMENTS, **settings) == count


def test_an_empty_active_segment_and_segments_before_a_young_one_stay() -> None:
    assert deletable([*SEGMENTS, EMPTY], retention_ms=0) == 4
    assert deletable([*SEGMENTS, EMPTY], retention_bytes=0) == 4
    assert deletable([EMPTY], retention_ms=0, retention_bytes=0) == 0
    assert deletable([Segment(0, 1, NOW_MS), Segment(1, 1, 0)], retention_ms=10) == 0


@pytest.mark.parametrize(("policy", "count"), [("compact", 1), ("compact,delete", 4), ("", 1)])
def test_without_delete_in_the_policy_only_the_start_offset_counts(policy: str, count: int) -> None:
    config = LogConfig.parse({"cleanup.policy": policy})
    limits = {"cleanup_policy": config.cleanup_policy, "retention_bytes": 0, "retention_ms": 0}
    assert deletable(SEGMENTS, start=10, **limits) == count


def test_the_reason_is_given() -> None:
    def reason(**settings: Any) -> str:
        config = LogConfig(**{"retention_ms": -1, **settings})
        return count_deletable(cast("list[LogSegment]", SEGMENTS), config, log_start_offset=10, now_ms=NOW_MS)[1]

    assert reason() == "it ends before the log start offset 10"
    assert reason(retention_bytes=5) == "the later segments have retention.bytes = 5"
    assert reason(retention_ms=5) == "it is older than retention.ms = 5"


def filled(batches: int, settings: dict[str, object]) -> LogDriver:
    driver = LogDriver({**SMALL, **settings})
    for _ in range(batches):
        driver.append()
    return driver


def test_old_segments_leave_the_log_at_once_and_the_disk_later() -> None:
    driver = filled(7, {"retention.ms": 1000, "file.delete.delay.ms": 500})
    driver.clock.advance(1000)
    assert driver.log.retention.delete_old_segments() == 0
    driver.append()
    driver.clock.advance(1)
    assert driver.log.retention.delete_old_segments() == 1
    assert (driver.log.log_start_offset, driver.log.local.view.bases) == (5, (5,))
    assert sum(name.endswith(".deleted") for name in driver.files()) == 3
    assert driver.log.local.remove_retired(driver.clock.now_ms() + 499) == 0
    assert driver.log.local.remove_retired(driver.clock.now_ms() + 500) == 3
    driver.check()


def test_retention_that_cannot_read_a_segment_removes_none() -> None:
    driver = filled(12, {"retention.ms": 1000})
    driver.reopen()
    driver.clock.advance(2000)
    driver.faults.fail("read *.timeindex")
    error = refused(driver.log.retention.delete_old_segments)
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "cannot find old segments" in error.detail
    assert driver.log.log_start_offset == 0
    driver.faults.heal()
    driver.check()
    assert driver.log.retention.delete_old_segments() == 3


def test_an_active_segment_that_is_too_old_is_replaced_by_an_empty_one() -> None:
    driver = filled(7, {"retention.ms": 1000})
    driver.clock.advance(1001)
    assert driver.log.retention.delete_old_segments() == 2
    assert (driver.log.log_start_offset, driver.log.log_end_offset, driver.log.local.size_in_bytes) == (7, 7, 0)
    assert driver.log.retention.delete_old_segments() == 0
    driver.append()
    driver.reopen()
    driver.check()


@pytest.mark.parametrize("fault", [("rename *", errno.ENOSPC), ("exists *.deleted", errno.EIO)])
def test_retention_works_on_a_full_or_failing_disk(fault: tuple[str, int]) -> None:
    driver = filled(20, {"retention.bytes": 400})
    driver.faults.space = 0
    driver.faults.fail(*fault)
    assert driver.log.retention.delete_old_segments() > 0
    driver.log.local.remove_retired(driver.clock.now_ms() + 60_000)
    assert [name for name in driver.files() if name.endswith(".log")] == [
        f"{base:020d}.log" for base in driver.log.local.view.bases
    ]
    driver.check()


def test_an_active_segment_that_cannot_be_replaced_stays_but_the_others_go(caplog: pytest.LogCaptureFixture) -> None:
    driver = filled(12, {"retention.ms": 1000})
    driver.clock.advance(2000)
    driver.faults.fail("write *", errno.ENOSPC)
    assert driver.log.retention.delete_old_segments() == 2
    assert driver.log.local.view.bases == (10,)
    assert "the active segment cannot be rolled and is kept, although it is older than retention.ms" in caplog.text
    driver.faults.heal()
    assert driver.log.retention.delete_old_segments() == 1


def test_deleted_records_are_hidden_and_their_segments_go(driver: LogDriver) -> None:
    for _ in range(12):
        driver.append()
    assert driver.log.retention.delete_records(7) == 7
    assert driver.log.retention.starts_within_segment
    assert driver.log.retention.delete_records(3) == 7
    assert driver.log.retention.delete_old_segments() == 1
    assert driver.log.local.view.bases == (5, 10)
    assert refused(driver.log.retention.delete_records, 13).code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert driver.log.retention.delete_records(-1) == 12
    assert driver.log.retention.delete_old_segments() == 1
    assert driver.contents() == []
    driver.append()
    driver.check()


@pytest.mark.parametrize(("policy", "refused_"), [("compact", True), ("", False), ("compact,delete", False)])
def test_records_are_only_deleted_where_the_policy_deletes(driver: LogDriver, policy: str, refused_: bool) -> None:
    for _ in range(6):
        driver.append()
    driver.log.reconfigure(driver.config.parse({"cleanup.policy": policy}, driver.config))
    if not refused_:
        assert driver.log.retention.delete_records(3) == driver.log.log_start_offset == 3
        return
    error = refused(driver.log.retention.delete_records, 3)
    assert error.code is ErrorCode.POLICY_VIOLATION
    assert f"t-0: records cannot be deleted under cleanup.policy={policy}" in error.detail
    assert driver.log.log_start_offset == 0
