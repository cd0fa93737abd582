"""Limiting a trigger; the table is that of the JVM connector's own suite."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.rates import delay_batch, limit_offsets

P = [TopicPartition("t", partition) for partition in range(8)]


@pytest.mark.feature("source.maxOffsetsPerTrigger")
def test_max_offsets_per_trigger_as_the_jvm_connector() -> None:
    """101, 11 and 1 records, 10 at a time: 8/1/1, then 9/1/0 each."""
    available = {P[0]: 101, P[1]: 11, P[2]: 1}
    position = dict.fromkeys(available, 0)
    taken = []
    for _ in range(4):
        end = limit_offsets(position, available, 10)
        taken.append(tuple(end[tp] - position[tp] for tp in available))
        position = end
    assert taken == [(8, 1, 1), (9, 1, 0), (9, 1, 0), (9, 1, 0)]


def test_offsets_within_the_limit_are_one_batch() -> None:
    available = {P[0]: 30, P[1]: 7}
    assert limit_offsets({P[0]: 25, P[1]: 7}, available, 5) == available
    assert limit_offsets({P[0]: 0, P[1]: 0}, available, 2**63 - 1) == available


def test_huge_offsets_do_not_overflow() -> None:
    huge = 2**63 - 1
    end = limit_offsets({P[0]: 0, P[1]: 0}, {P[0]: huge, P[1]: huge}, huge - 1)
    assert sum(end.values()) == huge - 1


@pytest.mark.feature("source.maxOffsetsPerTrigger")
def test_spark_26718_rate_limit_of_the_largest_long() -> None:
    """A limit of Long.MaxValue, read from offset 5 on."""
    assert limit_offsets({P[0]: 5}, {P[0]: 10}, 2**63 - 1) == {P[0]: 10}


def test_five_records_at_a_time_of_fifteen_in_one_of_five_partitions() -> None:
    available = dict.fromkeys(P[:5], 0) | {P[0]: 15}
    position, ends = dict.fromkeys(P[:5], 0), []
    while position != available:
        position = limit_offsets(position, available, 5)
        ends.append(position[P[0]])
    assert ends == [5, 10, 15]


@pytest.mark.feature("source.maxOffsetsPerTrigger")
def test_partitions_alternate_if_the_limit_is_smaller_than_their_number() -> None:
    """The JVM connector reads one of each, more than it was allowed."""
    available = dict.fromkeys(P[:5], 100)
    position = dict.fromkeys(P[:5], 0)
    for _ in range(5):
        end = limit_offsets(position, available, 2)
        assert sum(end[tp] - position[tp] for tp in position) == 2
        position = end
    assert set(position.values()) == {2}


def test_decreased_end_offset_is_passed_on() -> None:
    assert limit_offsets({P[0]: 50, P[1]: 0}, {P[0]: 3, P[1]: 100}, 10) == {P[0]: 3, P[1]: 10}


_backlogs = st.lists(st.integers(0, 10**6), min_size=1, max_size=8)


@given(_backlogs, st.integers(1, 5000))
def test_limited_trigger_reads_exactly_max_offsets(backlogs: list[int], limit: int) -> None:
    start = {tp: 1000 * index for index, tp in enumerate(P[: len(backlogs)])}
    available = {tp: start[tp] + size for tp, size in zip(start, backlogs, strict=True)}
    end = limit_offsets(start, available, limit)
    assert sum(end.values()) - sum(start.values()) == min(limit, sum(backlogs))
    assert all(start[tp] <= end[tp] <= available[tp] for tp in start)
    waiting = [tp for tp in start if available[tp] > start[tp]]
    if len(waiting) <= limit:
        assert all(end[tp] > start[tp] for tp in waiting)


@given(st.lists(st.integers(1, 50), min_size=2, max_size=8), st.integers(1, 7))
def test_every_partition_makes_progress_while_others_keep_growing(backlogs: list[int], limit: int) -> None:
    """A partition with little in it is not starved by partitions that grow as fast as they are read."""
    start = dict.fromkeys(P[: len(backlogs)], 0)
    available = dict(zip(start, backlogs, strict=True))
    for _ in range(3 * len(backlogs)):
        end = limit_offsets(start, available, limit)
        available = {tp: available[tp] + (10 if tp != P[0] else 0) for tp in available}
        start = end
    assert start[P[0]] > 0


# --- minOffsetsPerTrigger


def delayed(start: int, available: int, *, waited_ms: float) -> bool:
    return delay_batch({P[0]: start}, {P[0]: available}, 15, waited_ms=waited_ms, max_delay_ms=5_000)


@pytest.mark.feature("source.minOffsetsPerTrigger", "source.maxTriggerDelay")
def test_compositing_min_offsets_per_trigger_as_the_jvm_connector() -> None:
    """minOffsetsPerTrigger=15, maxTriggerDelay=5s."""
    assert not delayed(0, 16, waited_ms=math.inf)  # 10 + 5 + 1 messages: the first batch is always processed
    assert delayed(16, 22, waited_ms=100)
    assert not delayed(16, 34, waited_ms=200)  # 18 in all
    assert delayed(34, 44, waited_ms=300)
    assert delayed(34, 44, waited_ms=4_999)
    assert not delayed(34, 44, waited_ms=5_000)


@pytest.mark.feature("source.minOffsetsPerTrigger")
def test_first_batch_does_not_wait_for_min_offsets() -> None:
    assert not delayed(0, 1, waited_ms=math.inf)


def test_offsets_of_all_partitions_count_together() -> None:
    start = dict.fromkeys(P[:3], 100)
    available = {P[0]: 105, P[1]: 105, P[2]: 104}
    assert delay_batch(start, available, 15, waited_ms=0, max_delay_ms=10)
    assert not delay_batch(start, available, 14, waited_ms=0, max_delay_ms=10)


def test_batch_with_a_loss_does_not_wait_for_min_offsets() -> None:
    start = {P[0]: 10, P[1]: 10}
    assert not delay_batch(start, {P[0]: 11}, 15, waited_ms=0, max_delay_ms=10)
    assert not delay_batch(start, {P[0]: 12, P[1]: 5}, 15, waited_ms=0, max_delay_ms=10)


def test_empty_batch_waits_for_min_offsets() -> None:
    assert delay_batch({}, {}, 1, waited_ms=0, max_delay_ms=10)
    assert delay_batch({P[0]: 4}, {P[0]: 4}, 1, waited_ms=0, max_delay_ms=10)
