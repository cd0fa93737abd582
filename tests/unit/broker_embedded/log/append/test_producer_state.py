from collections.abc import Callable
from typing import Any

import pytest

from broker_embedded._log.append.incoming import AppendConditions, AppendOrigin
from broker_embedded._log.append.producer_state import (
    AppendedBatch,
    BatchMetadata,
    EndOfTransaction,
    LastRecord,
    ProducerEntry,
    ProducerStates,
)
from broker_embedded._log.transaction_index import AbortedTransaction
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._records.batch import BatchHeader, read_header
from tests.support.records.log_batches import NOW_MS, batch
from tests.support.refusals import refused

LAST = 2**31 - 1
UNVERIFIED = AppendConditions()
VERIFIED = AppendConditions(verified=True)
OWN_EPOCHS = AppendConditions(verified=True, bumps_epochs=True)
COORDINATOR = AppendConditions(origin=AppendOrigin.COORDINATOR)


class Producers:
    """A partition's producers, driven batch by batch; offsets are given as a log would."""

    def __init__(self) -> None:
        self.states = ProducerStates("t-0", expiration_ms=1000)
        self.end = 0
        self.aborted: list[AbortedTransaction] = []

    def header(self, pid: int, sequence: int, count: int = 1, epoch: int = 0, **more: Any) -> BatchHeader:
        values = [b"v"] * count
        return read_header(
            batch(*values, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, **more), whole=False
        )

    def send(
        self,
        pid: int,
        sequence: int,
        count: int = 1,
        *,
        epoch: int = 0,
        at: int = NOW_MS,
        conditions: AppendConditions = VERIFIED,
        **more: Any,
    ) -> int:
        return self.append(self.header(pid, sequence, count, epoch, **more), at=at, conditions=conditions)

    def append(self, header: BatchHeader, *, at: int = NOW_MS, conditions: AppendConditions = VERIFIED) -> int:
        known = self.states.duplicate(header) if conditions.origin is AppendOrigin.CLIENT else None
        if known is not None:
            return known.first_offset
        first = self.end
        appended = AppendedBatch(header=header, base_offset=first, max_timestamp=header.max_timestamp)
        change = self.states.plan(appended, now_ms=at, conditions=conditions)
        self.states.put(change.entry)
        self.end = appended.last_offset + 1
        return first

    def end_transaction(
        self, pid: int, *, abort: bool, epoch: int = 0, coordinator_epoch: int = 0, bumps_epochs: bool = False
    ) -> None:
        header = self.header(pid, -1, epoch=epoch, transactional=True, control=True)
        marker = EndOfTransaction(abort, coordinator_epoch)
        planned = AppendedBatch(header=header, base_offset=self.end, max_timestamp=NOW_MS, marker=marker)
        conditions = COORDINATOR._replace(bumps_epochs=bumps_epochs)
        change = self.states.plan(planned, now_ms=NOW_MS, conditions=conditions)
        self.states.put(change.entry)
        if change.aborted is not None:
            self.aborted.append(change.aborted)
        self.end += 1

    def refused(self, *args: Any, **more: Any) -> ErrorCode:
        return self._refused(lambda: self.send(*args, **more))

    def refused_end(self, *args: Any, **more: Any) -> ErrorCode:
        return self._refused(lambda: self.end_transaction(*args, **more))

    def _refused(self, append: Callable[[], object]) -> ErrorCode:
        before = tuple(self.states.entries)
        error = refused(append)
        assert tuple(self.states.entries) == before
        assert error.detail.startswith("t-0: ")
        return error.code


@pytest.fixture
def producers() -> Producers:
    return Producers()


def test_sequences_continue_after_the_last_batch(producers: Producers) -> None:
    assert [producers.send(1, 0, 3), producers.send(1, 3, 2), producers.send(1, 5)] == [0, 3, 5]
    assert producers.refused(1, 7) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.refused(1, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.send(1, 6) == 6


def test_a_batch_that_comes_again_gets_its_first_offset(producers: Producers) -> None:
    offsets = [producers.send(1, sequence, 10) for sequence in range(0, 70, 10)]
    assert offsets == list(range(0, 70, 10))
    assert [producers.send(1, sequence, 10) for sequence in range(20, 70, 10)] == list(range(20, 70, 10))
    assert producers.end == 70
    assert producers.refused(1, 10, 10) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # only five are remembered


def test_the_same_sequence_with_another_count_is_no_repetition(producers: Producers) -> None:
    producers.send(1, 0, 10)
    assert producers.refused(1, 0, 9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_around_after_the_largest(producers: Producers) -> None:
    producers.send(1, LAST - 1)
    producers.send(1, LAST)
    assert producers.send(1, 0) == 2
    producers.send(2, LAST - 1, 4)  # LAST - 1, LAST, 0, 1
    assert producers.refused(2, LAST + 1 - 2**31) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.send(2, 2) == 7
    assert producers.send(2, LAST - 1, 4) == 3


def test_an_unknown_producer_may_begin_anywhere(producers: Producers) -> None:
    """Its earlier records may have been deleted (KIP-360)."""
    assert producers.send(1, 500) == 0
    assert producers.refused(1, 502) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_begins_at_zero_and_ends_the_old(producers: Producers) -> None:
    producers.send(1, 0, 5)
    assert producers.refused(1, 5, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.send(1, 0, 5, epoch=1) == 5
    assert producers.refused(1, 5, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.refused(1, 0, 5, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.send(1, 0, 5, epoch=1) == 5


def test_silent_producers_are_forgotten_by_the_brokers_clock(producers: Producers) -> None:
    """Not by their records' timestamps: who writes records of the past must not be forgotten at once."""
    producers.send(1, 0, timestamps=5)
    producers.send(2, 0, at=NOW_MS + 500)
    producers.send(3, 0, transactional=True)
    assert producers.states.expire(NOW_MS + 999) == 0
    assert producers.states.expire(NOW_MS + 1000) == 1
    assert producers.states.is_in_transaction(3, 0)
    assert producers.send(1, 77) == 3
    assert producers.refused(2, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_replayed_batches_are_not_checked(producers: Producers) -> None:
    for offset, header in ((9, producers.header(1, 50, epoch=3)), (10, producers.header(1, 7, epoch=2))):
        replayed = AppendedBatch(header=header, base_offset=offset, max_timestamp=5)
        change = producers.states.plan(replayed, now_ms=NOW_MS, conditions=None)
        producers.states.put(change.entry)
    (entry,) = producers.states.entries
    assert (entry.epoch, entry.batches) == (2, (BatchMetadata(7, 10, 0, 5),))


def test_the_stable_part_ends_before_the_oldest_open_transaction(producers: Producers) -> None:
    producers.send(9, 0)
    assert producers.states.first_unstable_offset is None
    producers.send(1, 0, transactional=True)
    producers.send(2, 0, transactional=True)
    producers.send(1, 1, transactional=True)
    assert producers.states.first_unstable_offset == 1
    producers.end_transaction(1, abort=False)
    assert producers.states.first_unstable_offset == 2
    producers.end_transaction(2, abort=True)
    assert producers.states.first_unstable_offset is None
    assert producers.aborted == [AbortedTransaction(2, 2, 5, 6)]


def test_an_aborted_transaction_has_the_last_stable_offset(producers: Producers) -> None:
    producers.end_transaction(3, abort=True)
    assert producers.aborted == [], "a marker without records aborts nothing"
    producers.end = 0
    producers.send(1, 0, transactional=True)
    producers.send(2, 0, transactional=True)
    producers.end_transaction(2, abort=True)
    producers.end_transaction(1, abort=True)
    assert producers.aborted == [AbortedTransaction(2, 1, 2, 0), AbortedTransaction(1, 0, 3, 4)]


def test_amid_a_transaction_every_batch_belongs_to_it(producers: Producers) -> None:
    producers.send(1, 0, transactional=True)
    assert producers.refused(1, 1) is ErrorCode.INVALID_TXN_STATE
    producers.end_transaction(1, abort=False)
    assert producers.send(1, 1) == 2


def test_a_transaction_that_the_coordinator_does_not_know_is_refused(producers: Producers) -> None:
    assert producers.refused(1, 0, transactional=True, conditions=UNVERIFIED) is ErrorCode.INVALID_TXN_STATE
    producers.send(1, 0, transactional=True)
    assert producers.send(1, 1, transactional=True, conditions=UNVERIFIED) == 1
    assert producers.refused(1, 0, epoch=1, transactional=True, conditions=UNVERIFIED) is ErrorCode.INVALID_TXN_STATE
    producers.end_transaction(1, abort=False)
    assert producers.refused(1, 2, transactional=True, conditions=UNVERIFIED) is ErrorCode.INVALID_TXN_STATE


def test_a_fenced_epoch_is_checked_before_the_verification(producers: Producers) -> None:
    """Before that its transaction is unknown: it may begin again with another epoch."""
    producers.send(1, 0, transactional=True)
    producers.end_transaction(1, abort=True, epoch=1)
    assert producers.refused(1, 1, transactional=True, conditions=UNVERIFIED) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.refused(1, 1, transactional=True) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_is_in_a_transaction_from_its_first_transactional_batch(producers: Producers) -> None:
    assert not producers.states.is_in_transaction(1, 0)
    producers.send(1, 0)
    assert not producers.states.is_in_transaction(1, 0)
    producers.send(1, 1, transactional=True)
    assert producers.states.is_in_transaction(1, 0)
    assert not producers.states.is_in_transaction(1, 1)
    producers.end_transaction(1, abort=False)
    assert not producers.states.is_in_transaction(1, 0)


def test_a_coordinator_writes_records_without_sequence_numbers(producers: Producers) -> None:
    """Offset records of a group under the producer id of a client."""
    offsets = AppendConditions(origin=AppendOrigin.COORDINATOR, verified=True)
    assert [producers.send(1, -1, 3, transactional=True, conditions=offsets, epoch=4) for _ in range(2)] == [0, 3]
    assert producers.states.first_unstable_offset == 0
    code = producers.refused(1, -1, transactional=True, conditions=offsets, epoch=3)
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.refused(2, -1, transactional=True, conditions=COORDINATOR) is ErrorCode.INVALID_TXN_STATE
    producers.end_transaction(1, abort=True, epoch=4)
    assert producers.aborted == [AbortedTransaction(1, 0, 6, 7)]


@pytest.mark.parametrize("knows", ["nothing", "the epoch", "an older epoch"])
def test_a_transaction_with_an_epoch_of_its_own_begins_at_zero(producers: Producers, knows: str) -> None:
    """The batches before may have been refused: those after them must be, too."""
    if knows != "nothing":
        producers.end_transaction(1, abort=False, epoch=1 if knows == "the epoch" else 0, bumps_epochs=True)
    code = producers.refused(1, 7, epoch=1, transactional=True, conditions=OWN_EPOCHS)
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    at = producers.send(1, 0, epoch=1, transactional=True, conditions=OWN_EPOCHS)
    assert producers.send(1, 1, epoch=1, transactional=True) == at + 1


def test_a_marker_that_has_to_raise_the_epoch_does(producers: Producers) -> None:
    """A late marker of the transaction before, with its epoch, would end this one."""
    producers.send(1, 0, transactional=True, epoch=3)
    for epoch in (3, 2):
        code = producers.refused_end(1, abort=False, epoch=epoch, bumps_epochs=True)
        assert code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.states.is_in_transaction(1, 3)
    producers.end_transaction(1, abort=False, epoch=4, bumps_epochs=True)
    assert not producers.states.is_in_transaction(1, 3)


def test_a_marker_that_comes_again_is_no_harm(producers: Producers) -> None:
    """As after a crash of the coordinator before it has written the completion."""
    producers.send(1, 0, transactional=True)
    for _ in range(2):
        producers.end_transaction(1, abort=True, epoch=1, bumps_epochs=True)
    assert producers.aborted == [AbortedTransaction(1, 0, 1, 2)]
    producers.send(1, 0, epoch=1, transactional=True, conditions=OWN_EPOCHS)
    producers.refused_end(1, abort=True, epoch=1, bumps_epochs=True)


def test_markers_of_the_past_are_fenced(producers: Producers) -> None:
    producers.send(1, 0, transactional=True, epoch=2)
    assert producers.refused_end(1, abort=True, epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    producers.end_transaction(1, abort=True, epoch=2, coordinator_epoch=5)
    code = producers.refused_end(1, abort=True, epoch=2, coordinator_epoch=4)
    assert code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_restored_entries_count(producers: Producers) -> None:
    producers.states.put(ProducerEntry(producer_id=1, epoch=0, transaction_first_offset=5, seen_ms=NOW_MS))
    assert producers.states.first_unstable_offset == 5
    producers.states.clear()
    producers.end = 9
    assert not producers.states.entries
    assert producers.send(1, 3) == 9


def test_compaction_keeps_the_last_batch_of_each_producer() -> None:
    producers = Producers()
    producers.send(1, 0, count=3)
    producers.send(1, 3)
    producers.send(2, 0, transactional=True)
    producers.end_transaction(2, abort=False)
    producers.send(3, 0, transactional=True)
    producers.end_transaction(3, abort=True, epoch=5)
    assert producers.states.last_records() == {1: LastRecord(3, 0), 2: LastRecord(4, 0), 3: LastRecord(None, 5)}
