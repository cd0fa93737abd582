from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_embedded._groups.classic.group import ClassicGroup, ClassicState
from broker_embedded._groups.classic.member import ClassicMember
from broker_embedded._groups.pending_offsets import PendingOffsets, PendingTransaction, Position
from broker_embedded._groups.records import OffsetCommitValue
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID
from tests.support.groups.offsets_driver import CONFIG, ID, OffsetsDriver

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
P, Q = 7, 8


@pytest.fixture
def driver() -> OffsetsDriver:
    return OffsetsDriver()


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("commit", "offset"), [(True, 7), (False, 5)])
def test_a_commit_is_pending_until_the_marker(driver: OffsetsDriver, commit: bool, offset: int, restarts: bool) -> None:
    driver.commit(A0, A1, to=5)
    driver.commit(A0, to=7, producer=P)
    if restarts:
        driver.restart()
    assert (driver.offset(A0), driver.unstable(A0, A1, B0)) == (5, [True, False, False])
    driver.end(P, commit=commit)
    for _ in range(2):
        assert (driver.offset(A0), driver.offset(A1), driver.unstable(A0)) == (offset, 5, [False])
        driver.restart()


def test_a_commit_in_a_transaction_makes_a_simple_group(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5, producer=P)
    assert driver.groups == {"g": ClassicGroup(group_id="g", config=CONFIG)}
    assert driver.state.all_committed("g") == {}
    before = driver.groups
    driver.restart()
    assert driver.groups == before


def test_markers_of_other_producers_decide_nothing(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5, producer=P)
    driver.end(Q, commit=True)
    driver.state.end_transaction(PendingTransaction(1, P), driver.end_offset, commit=True)
    assert (driver.offset(A0), driver.unstable(A0)) == (None, [True])


def test_the_commit_written_last_counts_not_the_one_decided_last(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=1, producer=P)
    driver.commit(A0, to=2, producer=Q)
    driver.end(Q, commit=True)
    driver.end(P, commit=True)
    driver.commit(A1, to=3, producer=P)
    driver.commit(A1, to=4)
    driver.end(P, commit=True)
    for _ in range(2):
        assert (driver.offset(A0), driver.offset(A1)) == (2, 4)
        driver.restart()


def test_an_offset_of_a_recreated_topic_is_not_pending(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5, producer=P)
    unstable = [driver.state.is_unstable("g", A0, topic_id) for topic_id in (ID, UUID(int=2), ZERO_UUID)]
    assert unstable == [True, False, True]
    driver.state.clear()
    assert driver.unstable(A0) == [False]


def test_commit_metadata_that_is_too_long_is_refused_for_its_partition(driver: OffsetsDriver) -> None:
    assert driver.commit(A0, to=5, producer=P, metadata="x" * 9) == {A0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert (driver.log, driver.groups) == ([], {})


def test_the_group_checks_transactional_commits(driver: OffsetsDriver) -> None:
    member = ClassicMember(member_id="m", session_timeout_ms=10_000, rebalance_timeout_ms=0, protocols=())
    group = ClassicGroup(
        group_id="g", config=CONFIG, state=ClassicState.STABLE, generation=3, leader="m", members={"m": member}
    )
    request = TxnOffsetCommitRequest(group_id="g", producer_id=P, generation_id=2, member_id="m")
    for known in (None, group):
        with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
            driver.state.commit_in_transaction(known, request, [], now_ms=0, config=CONFIG)
    outcome = driver.state.commit_in_transaction(group, replace(request, generation_id=3), [], now_ms=0, config=CONFIG)
    assert (outcome.response, outcome.timers) == ({}, ())


def test_offset_delete_deletes_pending_offsets_too(driver: OffsetsDriver) -> None:
    driver.commit(A1, to=1)
    driver.commit(A0, A1, to=5, producer=P)
    driver.forget(A0)
    assert driver.unstable(A0, A1) == [False, True]
    driver.end(P, commit=True)
    for _ in range(2):
        assert (driver.offset(A0), driver.offset(A1)) == (None, 5)
        driver.restart()


def test_pending_offsets_of_a_deleted_topic_are_deleted(driver: OffsetsDriver) -> None:
    driver.commit(A0, B0, to=5, producer=P)
    driver.commit(B0, to=6, group="h")
    assert (driver.state.groups_in("a"), driver.state.groups_in("b")) == (["g"], ["h", "g"])
    driver.carry_out("g", driver.state.forget_topic("g", "a"))
    driver.end(P, commit=True)
    for _ in range(2):
        assert (driver.offset(A0), driver.offset(B0)) == (None, 5)
        driver.restart()


def test_pending_offsets_of_a_deleted_group_are_deleted(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=1)
    driver.commit(A0, A1, to=5, producer=P)
    outcome = driver.state.delete_group(driver.groups["g"], "g")
    assert len(outcome.records) == 3
    driver.carry_out("g", outcome)
    driver.end(P, commit=True)
    for _ in range(2):
        assert (driver.groups, driver.state.all_committed("g")) == ({}, {})
        driver.restart()


def test_neither_a_committed_offset_nor_a_group_expires_while_an_offset_is_pending(
    driver: OffsetsDriver,
) -> None:
    driver.commit(A0, A1, to=1)
    driver.commit(A0, to=5, producer=P)
    driver.commit(A0, to=5, producer=P, group="h")
    driver.now_ms += 100
    for group in "gh":
        driver.expire(group)
    assert set(driver.state.all_committed("g")) == {A0}
    assert set(driver.groups) == {"g", "h"}
    driver.end(P, commit=False)
    for group in "gh":
        driver.expire(group)
    for _ in range(2):
        assert (driver.groups, driver.state.all_committed("g")) == ({}, {})
        driver.restart()


_PARTITIONS = st.sampled_from([A0, A1])
_PRODUCERS = st.sampled_from([P, Q, 9])
_STEPS = st.one_of(
    st.tuples(st.just("commit"), _PARTITIONS, st.none() | _PRODUCERS),
    st.tuples(st.just("end"), _PRODUCERS, st.booleans()),
    st.tuples(st.just("forget"), _PARTITIONS),
)


def play(driver: OffsetsDriver, steps: Iterable[tuple[object, ...]]) -> None:
    for number, step in enumerate(steps):
        match step:
            case "commit", TopicPartition() as partition, int() | None as producer:
                driver.commit(partition, to=number, producer=producer)
            case "end", int() as producer, bool() as commit:
                driver.end(producer, commit=commit)
            case "forget", TopicPartition() as partition:
                driver.forget(partition)


@settings(max_examples=150)
@given(st.lists(_STEPS, max_size=20), st.lists(_STEPS, max_size=10))
def test_replaying_the_log_gives_the_offsets_of_the_run(
    before: list[tuple[object, ...]], after: list[tuple[object, ...]]
) -> None:
    running, restarted = OffsetsDriver(), OffsetsDriver()
    for driver in (running, restarted):
        play(driver, before)
    restarted.restart()
    for driver in (running, restarted):
        driver.groups.setdefault("g", ClassicGroup(group_id="g", config=CONFIG))  # it is empty after an abort
        play(driver, after)
    assert restarted.state.all_committed("g") == running.state.all_committed("g")
    assert restarted.unstable(A0, A1) == running.unstable(A0, A1)


FIRST, SECOND = PendingTransaction(0, 1), PendingTransaction(0, 2)


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


def test_pending_offsets_are_found_by_group_and_partition(pending: PendingOffsets) -> None:
    assert set(pending.groups) == {"g", "h"}
    assert set(pending.partitions("g")) == {A0, A1}
    assert {found.value.offset for found in pending.of("g", A0)} == {5, 6}
    assert (set(pending.partitions("i")), set(pending.of("h", A1))) == (set(), set())


def test_a_pending_commit_replaces_the_one_before(pending: PendingOffsets) -> None:
    pending.add(FIRST, "g", A0, position(9, 14))
    assert {found.value.offset for found in pending.of("g", A0)} == {6, 9}
    assert ("g", A0, position(9, 14)) in pending.end(FIRST, 15)


def test_the_end_of_a_transaction_removes_its_pending_offsets_only(pending: PendingOffsets) -> None:
    ended = pending.end(FIRST, 20)
    assert ended == [("g", A0, position(5, 10)), ("g", A1, position(7, 12)), ("h", A0, position(8, 13))]
    assert (set(pending.groups), set(pending.partitions("g"))) == ({"g"}, {A0})
    assert pending.end(FIRST, 21) == []
    assert pending.end(SECOND, 22) == [("g", A0, position(6, 11))]
    assert set(pending.groups) == set()


def test_transactions_of_one_producer_in_two_partitions_are_two(pending: PendingOffsets) -> None:
    assert pending.end(PendingTransaction(1, FIRST.producer_id), 20) == []


def test_a_pending_commit_after_the_marker_is_of_the_next_transaction(pending: PendingOffsets) -> None:
    assert pending.end(FIRST, 11) == [("g", A0, position(5, 10))]
    assert pending.end(FIRST, 20) == [("g", A1, position(7, 12)), ("h", A0, position(8, 13))]


def test_discarded_pending_offsets_do_not_return(pending: PendingOffsets) -> None:
    for _ in range(2):
        pending.discard("g", A0)
    pending.discard("h", A0)
    assert (set(pending.groups), set(pending.partitions("g"))) == ({"g"}, {A1})
    assert pending.end(SECOND, 20) == []
    assert pending.end(FIRST, 20) == [("g", A1, position(7, 12))]
    pending.add(FIRST, "g", A0, position(5, 21))
    pending.clear()
    assert (set(pending.groups), pending.end(FIRST, 22)) == (set(), [])
