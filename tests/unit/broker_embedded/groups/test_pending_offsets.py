"""Pending positions: by group, partition and transaction, until they are ended or discarded."""

import pytest

from broker_embedded.groups.pending_offsets import OpenTransaction, PendingOffsets, Position
from broker_embedded.groups.records import OffsetCommitValue
from spark_kafka_native.protocol.topic import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
FIRST, SECOND = OpenTransaction(0, 1), OpenTransaction(0, 2)


def position(offset: int, log_offset: int) -> Position:
    return Position(OffsetCommitValue(offset=offset), log_offset)


@pytest.fixture
def pending() -> PendingOffsets:
    """Two transactions have committed for a-0 of group g, the first one also for others."""
    pending = PendingOffsets()
    pending.add(FIRST, "g", A0, position(5, 10))
    pending.add(SECOND, "g", A0, position(6, 11))
    pending.add(FIRST, "g", A1, position(7, 12))
    pending.add(FIRST, "h", A0, position(8, 13))
    return pending


def test_they_are_found_by_group_and_partition(pending: PendingOffsets) -> None:
    assert set(pending.groups) == {"g", "h"}
    assert set(pending.partitions("g")) == {A0, A1}
    assert {found.value.offset for found in pending.of("g", A0)} == {5, 6}
    assert (set(pending.partitions("i")), set(pending.of("h", A1))) == (set(), set())


def test_a_transaction_commits_anew(pending: PendingOffsets) -> None:
    pending.add(FIRST, "g", A0, position(9, 14))
    assert {found.value.offset for found in pending.of("g", A0)} == {6, 9}
    assert ("g", A0, position(9, 14)) in pending.end(FIRST, 15)


def test_the_end_of_a_transaction_takes_out_what_is_its_own(pending: PendingOffsets) -> None:
    ended = pending.end(FIRST, 20)
    assert ended == [("g", A0, position(5, 10)), ("g", A1, position(7, 12)), ("h", A0, position(8, 13))]
    assert (set(pending.groups), set(pending.partitions("g"))) == ({"g"}, {A0})
    assert pending.end(FIRST, 21) == []
    assert pending.end(SECOND, 22) == [("g", A0, position(6, 11))]
    assert set(pending.groups) == set()


def test_transactions_of_one_producer_in_two_partitions_are_two(pending: PendingOffsets) -> None:
    assert pending.end(OpenTransaction(1, FIRST.producer_id), 20) == []


def test_what_is_behind_the_marker_is_of_the_next_transaction(pending: PendingOffsets) -> None:
    assert pending.end(FIRST, 11) == [("g", A0, position(5, 10))]
    assert pending.end(FIRST, 20) == [("g", A1, position(7, 12)), ("h", A0, position(8, 13))]


def test_what_is_discarded_does_not_come_back(pending: PendingOffsets) -> None:
    for _ in range(2):
        pending.discard("g", A0)
    pending.discard("h", A0)
    assert (set(pending.groups), set(pending.partitions("g"))) == ({"g"}, {A1})
    assert pending.end(SECOND, 20) == []
    assert pending.end(FIRST, 20) == [("g", A1, position(7, 12))]


def test_all_can_be_forgotten(pending: PendingOffsets) -> None:
    pending.clear()
    assert set(pending.groups) == set()
    assert pending.end(FIRST, 20) == []
