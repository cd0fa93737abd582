"""Which segments may go: by start offset, by size, by age, and never an empty active one."""

from dataclasses import dataclass
from typing import Any, cast

import pytest

from broker_embedded.config.log_config import LogConfig
from broker_embedded.log.retention import count_deletable
from broker_embedded.log.segment import LogSegment

NOW_MS = 1_000_000


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


def test_without_limits_all_stay() -> None:
    assert deletable(SEGMENTS) == 0


@pytest.mark.parametrize(("start", "count"), [(0, 0), (9, 0), (10, 1), (19, 1), (39, 3), (40, 3)])
def test_segments_before_the_start_offset_go_but_never_the_last(start: int, count: int) -> None:
    assert deletable(SEGMENTS, start=start) == count


@pytest.mark.parametrize(
    ("limit", "count"), [(1000, 0), (400, 0), (399, 0), (301, 0), (300, 1), (101, 2), (100, 3), (0, 4)]
)
def test_by_size_the_rest_never_falls_below_the_limit(limit: int, count: int) -> None:
    assert deletable(SEGMENTS, retention_bytes=limit) == count


@pytest.mark.parametrize(("limit", "count"), [(500, 0), (400, 0), (399, 1), (250, 2), (99, 4), (0, 4)])
def test_by_age_of_the_youngest_record(limit: int, count: int) -> None:
    assert deletable(SEGMENTS, retention_ms=limit) == count


def test_a_young_segment_keeps_older_ones_behind_it() -> None:
    assert deletable([Segment(0, 1, NOW_MS), Segment(1, 1, 0)], retention_ms=10) == 0


def test_an_empty_active_segment_stays() -> None:
    assert deletable([*SEGMENTS, EMPTY], retention_ms=0) == 4
    assert deletable([*SEGMENTS, EMPTY], retention_bytes=0) == 4
    assert deletable([EMPTY], retention_ms=0, retention_bytes=0) == 0


@pytest.mark.parametrize(("policy", "count"), [("compact", 1), ("compact,delete", 4), ("", 1)])
def test_without_delete_in_the_policy_only_the_start_offset_counts(policy: str, count: int) -> None:
    config = LogConfig.parse({"cleanup.policy": policy})
    limits = {"cleanup_policy": config.cleanup_policy, "retention_bytes": 0, "retention_ms": 0}
    assert deletable(SEGMENTS, start=10, **limits) == count


def test_the_limits_add_up() -> None:
    assert deletable(SEGMENTS, start=10, retention_bytes=200) == 2
    assert deletable(SEGMENTS, start=10, retention_bytes=200, retention_ms=150) == 3


def test_the_reason_is_given() -> None:
    def reason(**settings: Any) -> str:
        config = LogConfig(**{"retention_ms": -1, **settings})
        return count_deletable(cast("list[LogSegment]", SEGMENTS), config, log_start_offset=10, now_ms=NOW_MS)[1]

    assert reason() == "it ends before the log start offset 10"
    assert reason(retention_bytes=5) == "the rest has retention.bytes = 5"
    assert reason(retention_ms=5) == "it is older than retention.ms = 5"
