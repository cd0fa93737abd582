from dataclasses import replace
from typing import Any

import pytest

from broker_embedded._transactions.decisions import (
    add_partitions,
    begin_producer,
    check_claim,
    check_producer,
    complete,
    end,
    fence,
    missing_partitions,
    needs_producer_id_to_begin,
    needs_producer_id_to_end,
    new_transaction,
    producer_after,
)
from broker_embedded._transactions.state import (
    FENCING_EPOCH,
    LAST_EPOCH,
    Transaction,
    TransactionState,
    TransactionVersion,
)
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.refusals import refused

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
DONE = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)
TV_0, TV_1, TV_2 = TransactionVersion
A, B = TopicPartition("a", 0), TopicPartition("b", 1)
NOW_MS = 5000
ID, PREVIOUS_ID, OTHER_ID, FRESH_ID = 100, 99, 50, 101
MAPPING, FENCED = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED
CONCURRENT, NO_STATE = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE


def transaction(state: TransactionState, epoch: int = 5, **others: Any) -> Transaction:
    is_open = state is ONGOING or state.is_prepared
    fields: dict[str, Any] = {
        "transactional_id": "t",
        "producer_id": ID,
        "previous_producer_id": ID,
        "timeout_ms": 60_000,
        "partitions": frozenset({A}) if is_open else frozenset(),
        "started_ms": -1 if state is EMPTY else 1000,
        "updated_ms": 2000,
    }
    return Transaction(state=state, producer_epoch=epoch, **(fields | others))


def producer(epoch: int = 5, producer_id: int = ID) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(producer_id=producer_id, epoch=epoch)


def refusal(call: Any, *arguments: Any, **named: Any) -> ErrorCode:
    return refused(call, *arguments, **named).code


@pytest.mark.parametrize("claimed", [None, producer(7, OTHER_ID)])
def test_an_unknown_transactional_id_starts_at_epoch_0(claimed: ProducerIdAndEpoch | None) -> None:
    new = new_transaction("t", ID, 60_000, NOW_MS)
    check_claim(new, claimed)
    assert not needs_producer_id_to_begin(new, claimed)
    begun = begin_producer(new, claimed, 30_000, NOW_MS)
    assert begun.producer == producer(0)
    assert (begun.state, begun.timeout_ms, begun.started_ms, begun.updated_ms) == (EMPTY, 30_000, -1, NOW_MS)
    if claimed is not None:
        assert begin_producer(begun, claimed, 30_000, NOW_MS).producer == producer(0), "the response was lost"


@pytest.mark.parametrize("state", DONE)
def test_a_new_producer_takes_over_with_the_next_epoch(state: TransactionState) -> None:
    begun = begin_producer(transaction(state, last_producer_epoch=4), None, 30_000, NOW_MS)
    assert begun == transaction(EMPTY, 6, timeout_ms=30_000, updated_ms=NOW_MS, last_producer_epoch=-1)


@pytest.mark.parametrize("state", DONE)
def test_a_producer_gets_the_next_epoch_after_an_error_and_the_same_for_a_retry(state: TransactionState) -> None:
    begun = begin_producer(transaction(state), producer(5), 60_000, NOW_MS)
    for _ in range(3):
        assert begun == transaction(EMPTY, 6, updated_ms=NOW_MS, last_producer_epoch=5)
        begun = begin_producer(begun, producer(5), 60_000, NOW_MS)
    begun = begin_producer(begun, producer(6), 60_000, NOW_MS)
    assert (begun.producer, begun.last_producer_epoch) == (producer(7), 6)
    assert refusal(begin_producer, begun, producer(5), 60_000, NOW_MS) is FENCED


@pytest.mark.parametrize("state", DONE)
@pytest.mark.parametrize(
    "claimed", [producer(3), producer(4), producer(6), producer(5, OTHER_ID), producer(LAST_EPOCH, OTHER_ID)]
)
def test_a_producer_id_of_another_transactional_id_is_refused(
    state: TransactionState, claimed: ProducerIdAndEpoch
) -> None:
    known = transaction(state, previous_producer_id=PREVIOUS_ID)
    assert refusal(check_claim, known, claimed) is FENCED
    assert refusal(begin_producer, known, claimed, 60_000, NOW_MS) is FENCED


@pytest.mark.parametrize("claimed", [None, producer(5)])
@pytest.mark.parametrize("state", [ONGOING, *PREPARED])
def test_a_producer_begins_only_after_the_last_transaction_is_complete(
    state: TransactionState, claimed: ProducerIdAndEpoch | None
) -> None:
    known = transaction(state)
    check_claim(known, claimed)
    assert not needs_producer_id_to_begin(transaction(state, LAST_EPOCH), claimed)
    assert refusal(begin_producer, known, claimed, 60_000, NOW_MS) is CONCURRENT


@pytest.mark.parametrize("claimed", [producer(4), producer(6), producer(5, OTHER_ID)])
def test_a_fenced_producer_does_not_abort_the_open_transaction(claimed: ProducerIdAndEpoch) -> None:
    assert refusal(check_claim, transaction(ONGOING, last_producer_epoch=4), claimed) is FENCED


@pytest.mark.parametrize("claimed", [producer(4), producer(6), producer(0, FRESH_ID), producer(5, OTHER_ID)])
def test_a_claim_amid_the_markers_is_answered_concurrent_transactions(claimed: ProducerIdAndEpoch) -> None:
    known = transaction(PREPARE_COMMIT, 6, client_version=TV_2, next_producer_id=FRESH_ID)
    check_claim(known, claimed)
    assert refusal(begin_producer, known, claimed, 60_000, NOW_MS) is CONCURRENT


@pytest.mark.parametrize("claimed", [None, producer(LAST_EPOCH)])
@pytest.mark.parametrize("state", DONE)
def test_after_the_last_epoch_comes_another_producer_id(
    state: TransactionState, claimed: ProducerIdAndEpoch | None
) -> None:
    known = transaction(state, LAST_EPOCH)
    assert needs_producer_id_to_begin(known, claimed)
    begun = begin_producer(known, claimed, 60_000, NOW_MS, fresh_producer_id=FRESH_ID)
    assert (begun.producer, begun.previous_producer_id) == (producer(0, FRESH_ID), ID)
    if claimed is None:
        assert refusal(begin_producer, begun, producer(LAST_EPOCH), 60_000, NOW_MS) is FENCED
        return
    for _ in range(2):
        assert not needs_producer_id_to_begin(begun, claimed)
        begun = begin_producer(begun, claimed, 60_000, NOW_MS)
        assert begun.producer == producer(0, FRESH_ID), "the response was lost"


def test_the_last_epoch_is_given_again_for_a_retry() -> None:
    known = transaction(EMPTY, LAST_EPOCH - 1)
    assert not needs_producer_id_to_begin(known, None)
    begun = begin_producer(known, producer(LAST_EPOCH - 1), 60_000, NOW_MS)
    assert begun.producer == producer(LAST_EPOCH)
    assert not needs_producer_id_to_begin(begun, producer(LAST_EPOCH - 1))
    assert begin_producer(begun, producer(LAST_EPOCH - 1), 60_000, NOW_MS).producer == producer(LAST_EPOCH)


def test_a_new_producer_id_has_to_be_there_where_it_is_needed() -> None:
    with pytest.raises(AssertionError, match="t needs another producer id"):
        begin_producer(transaction(EMPTY, LAST_EPOCH), None, 60_000, NOW_MS)
    with pytest.raises(AssertionError, match="t needs another producer id"):
        fence(transaction(ONGOING, LAST_EPOCH), TV_2, NOW_MS)


def test_no_producer_has_the_epoch_that_fenced_the_last_one() -> None:
    known = transaction(COMPLETE_ABORT, FENCING_EPOCH)
    claimed = producer(FENCING_EPOCH)
    assert refusal(check_claim, known, claimed) is FENCED
    assert refusal(check_producer, known, claimed, "t") is FENCED
    for version in TransactionVersion:
        assert refusal(finish, known, claimed, commit=False, version=version) is FENCED
    assert needs_producer_id_to_begin(known, None)


@pytest.mark.parametrize("version", [TV_0, TV_1])
def test_an_open_transaction_is_aborted_with_a_higher_epoch(version: TransactionVersion) -> None:
    decided = fence(transaction(ONGOING, last_producer_epoch=4, client_version=TV_2), version, NOW_MS)
    assert decided == transaction(PREPARE_ABORT, 6, updated_ms=NOW_MS)
    over = complete(decided, NOW_MS)
    assert over.producer == producer(6)
    assert refusal(check_claim, over, producer(5)) is FENCED
    for commit in (True, False):
        assert refusal(finish, over, producer(5), commit=commit, version=version) is FENCED


def test_from_version_2_a_producer_fenced_by_a_timeout_continues_with_the_next_epoch() -> None:
    decided = fence(transaction(ONGOING), TV_2, NOW_MS)
    assert decided == transaction(PREPARE_ABORT, 6, updated_ms=NOW_MS, last_producer_epoch=5, client_version=TV_2)
    over = complete(decided, NOW_MS)
    assert refusal(finish, over, producer(5), commit=True, version=TV_2) is NO_STATE
    assert producer_after(finish(over, producer(5), commit=False, version=TV_2)) == producer(6)
    assert begin_producer(over, producer(5), 60_000, NOW_MS).producer == producer(6)
    assert refusal(check_producer, over, producer(5), "t") is FENCED


@pytest.mark.parametrize("version", TransactionVersion)
@pytest.mark.parametrize("epoch", [5, LAST_EPOCH - 1, LAST_EPOCH])
def test_a_producer_that_initializes_again_amid_a_transaction_aborts_it_first(
    version: TransactionVersion, epoch: int
) -> None:
    claimed, known = producer(epoch), transaction(ONGOING, epoch)
    check_claim(known, claimed)
    fresh = FRESH_ID if needs_producer_id_to_end(known, version) else None
    over = complete(fence(known, version, NOW_MS, claimed=claimed, fresh_producer_id=fresh), NOW_MS)
    fresh = FRESH_ID if needs_producer_id_to_begin(over, claimed) else None
    begun = begin_producer(over, claimed, 60_000, NOW_MS, fresh_producer_id=fresh)
    assert begun.producer == (producer(epoch + 1) if epoch < LAST_EPOCH else producer(0, FRESH_ID))
    assert begin_producer(begun, claimed, 60_000, NOW_MS).producer == begun.producer, "the response was lost"


@pytest.mark.parametrize("version", TransactionVersion)
def test_fencing_the_last_epoch_takes_the_one_that_is_left(version: TransactionVersion) -> None:
    known = transaction(ONGOING, LAST_EPOCH)
    assert needs_producer_id_to_end(known, version) is version.bumps_epochs
    decided = fence(known, version, NOW_MS, fresh_producer_id=FRESH_ID if version.bumps_epochs else None)
    assert decided.producer == producer(FENCING_EPOCH), "who writes the markers"
    over = complete(decided, NOW_MS)
    assert over.producer == (producer(0, FRESH_ID) if version.bumps_epochs else producer(FENCING_EPOCH))
    assert needs_producer_id_to_begin(over, None) is not version.bumps_epochs


@pytest.mark.parametrize("state", [EMPTY, ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT])
@pytest.mark.parametrize(
    ("claimed", "code"),
    [
        (producer(), None),
        (producer(4), FENCED),
        (producer(6), FENCED),
        (producer(5, OTHER_ID), MAPPING),
        (producer(5, PREVIOUS_ID), MAPPING),
    ],
)
def test_check_producer_by_state_and_claimed_epoch(
    state: TransactionState, claimed: ProducerIdAndEpoch, code: ErrorCode | None
) -> None:
    known = transaction(state, previous_producer_id=PREVIOUS_ID, last_producer_epoch=4)
    if code is None:
        assert check_producer(known, claimed, "t") is known
    else:
        assert refusal(check_producer, known, claimed, "t") is code


def test_an_unknown_transactional_id_has_no_producer() -> None:
    assert refusal(check_producer, None, producer(), "t") is MAPPING
    assert refusal(finish, None, producer(), commit=True, version=TV_0) is MAPPING


def test_the_next_producer_id_is_refused_until_the_transaction_has_ended() -> None:
    known = transaction(PREPARE_COMMIT, FENCING_EPOCH, client_version=TV_2, next_producer_id=FRESH_ID)
    assert refusal(check_producer, known, producer(0, FRESH_ID), "t") is CONCURRENT
    assert refusal(check_producer, known, producer(1, FRESH_ID), "t") is MAPPING
    assert refusal(check_producer, known, producer(LAST_EPOCH), "t") is FENCED


@pytest.mark.parametrize("version", TransactionVersion)
@pytest.mark.parametrize("state", DONE)
def test_the_first_partition_begins_a_transaction(state: TransactionState, version: TransactionVersion) -> None:
    begun = add_partitions(transaction(state, last_producer_epoch=4), {A, B}, version, NOW_MS)
    assert begun == transaction(
        ONGOING, partitions=frozenset({A, B}), started_ms=NOW_MS, updated_ms=NOW_MS, client_version=version
    )


def test_more_partitions_join_and_those_that_are_in_it_change_nothing() -> None:
    known = transaction(ONGOING)
    assert add_partitions(known, {A}, TV_0, NOW_MS) is known
    assert add_partitions(known, {A, B}, TV_0, NOW_MS) == replace(
        known, partitions=frozenset({A, B}), updated_ms=NOW_MS
    )


@pytest.mark.parametrize("state", PREPARED)
def test_partitions_join_only_once_the_last_transaction_is_over(state: TransactionState) -> None:
    assert refusal(add_partitions, transaction(state), {A}, TV_0, NOW_MS) is CONCURRENT
    assert refusal(missing_partitions, transaction(state), {A}) is CONCURRENT


@pytest.mark.parametrize("state", [ONGOING, *DONE])
def test_the_partitions_of_a_transaction(state: TransactionState) -> None:
    assert missing_partitions(transaction(state), {A, B}) == ({B} if state is ONGOING else {A, B})
    assert missing_partitions(transaction(state), frozenset()) == frozenset()


def finish(
    known: Transaction | None, claimed: ProducerIdAndEpoch, *, commit: bool, version: TransactionVersion
) -> Transaction:
    needs = known is not None and needs_producer_id_to_end(known, version)
    return end(
        known,
        claimed,
        transactional_id="t",
        commit=commit,
        version=version,
        now_ms=NOW_MS,
        fresh_producer_id=FRESH_ID if needs else None,
    )


@pytest.mark.parametrize(("commit", "state"), [(True, PREPARE_COMMIT), (False, PREPARE_ABORT)])
@pytest.mark.parametrize("version", TransactionVersion)
def test_end_txn_of_an_open_transaction_is_decided(
    version: TransactionVersion, commit: bool, state: TransactionState
) -> None:
    decided = finish(transaction(ONGOING), producer(), commit=commit, version=version)
    if version is TV_2:
        assert decided == transaction(state, 6, updated_ms=NOW_MS, last_producer_epoch=5, client_version=TV_2)
    else:
        assert decided == transaction(state, updated_ms=NOW_MS)
    over = complete(decided, NOW_MS + 1)
    ended = COMPLETE_COMMIT if commit else COMPLETE_ABORT
    assert over == replace(decided, state=ended, partitions=frozenset(), updated_ms=NOW_MS + 1)
    assert producer_after(decided) == producer_after(over) == producer(6 if version is TV_2 else 5)


@pytest.mark.parametrize("state", TransactionState)
@pytest.mark.parametrize("version", TransactionVersion)
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(
    ("claimed", "code"),
    [
        (producer(3), FENCED),
        (producer(6), FENCED),
        (producer(5, OTHER_ID), MAPPING),
        (producer(LAST_EPOCH, PREVIOUS_ID), MAPPING),
    ],
)
def test_end_txn_of_another_producer_or_state_is_refused(
    state: TransactionState, version: TransactionVersion, commit: bool, claimed: ProducerIdAndEpoch, code: ErrorCode
) -> None:
    known = transaction(state, client_version=version, previous_producer_id=PREVIOUS_ID)
    assert refusal(finish, known, claimed, commit=commit, version=version) is code


AGAIN = "as before"
RAISES = "raises the epoch"


def outcome(known: Transaction, claimed: ProducerIdAndEpoch, *, commit: bool, version: TransactionVersion) -> object:
    """The result of EndTxn without an open transaction."""
    try:
        ended = finish(known, claimed, commit=commit, version=version)
    except KafkaError as error:
        return error.code
    if ended is known:
        return AGAIN
    assert (ended.state, ended.partitions, ended.started_ms) == (PREPARE_ABORT, frozenset(), NOW_MS)
    assert (ended.producer_epoch, ended.last_producer_epoch) == (claimed.epoch + 1, claimed.epoch)
    return RAISES


@pytest.mark.parametrize("version", [TV_0, TV_1])
@pytest.mark.parametrize("last", TransactionVersion)
@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (EMPTY, NO_STATE, NO_STATE),
        (PREPARE_COMMIT, CONCURRENT, NO_STATE),
        (PREPARE_ABORT, NO_STATE, CONCURRENT),
        (COMPLETE_COMMIT, AGAIN, NO_STATE),
        (COMPLETE_ABORT, NO_STATE, AGAIN),
    ],
)
def test_up_to_version_1_what_has_ended_has_ended(
    version: TransactionVersion, last: TransactionVersion, state: TransactionState, commit: object, abort: object
) -> None:
    known = transaction(state, client_version=last, last_producer_epoch=4)
    for commits, expected in ((True, commit), (False, abort)):
        assert outcome(known, producer(5), commit=commits, version=version) is expected
        assert outcome(known, producer(4), commit=commits, version=version) is FENCED


@pytest.mark.parametrize(
    ("state", "claimed", "commit", "abort"),
    [
        (EMPTY, producer(4), FENCED, FENCED),
        (EMPTY, producer(5), NO_STATE, RAISES),
        (ONGOING, producer(4), FENCED, FENCED),
        (PREPARE_COMMIT, producer(4), CONCURRENT, NO_STATE),
        (PREPARE_COMMIT, producer(5), CONCURRENT, CONCURRENT),
        (PREPARE_ABORT, producer(4), NO_STATE, CONCURRENT),
        (PREPARE_ABORT, producer(5), CONCURRENT, CONCURRENT),
        (COMPLETE_COMMIT, producer(4), AGAIN, NO_STATE),
        (COMPLETE_COMMIT, producer(5), NO_STATE, RAISES),
        (COMPLETE_ABORT, producer(4), NO_STATE, AGAIN),
        (COMPLETE_ABORT, producer(5), NO_STATE, RAISES),
    ],
)
def test_from_version_2_on_the_epoch_tells_a_repeated_request_from_the_next(
    state: TransactionState, claimed: ProducerIdAndEpoch, commit: object, abort: object
) -> None:
    known = transaction(state, client_version=TV_2)
    assert outcome(known, claimed, commit=True, version=TV_2) is commit
    assert outcome(known, claimed, commit=False, version=TV_2) is abort


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (EMPTY, NO_STATE, RAISES),
        (PREPARE_COMMIT, CONCURRENT, CONCURRENT),
        (PREPARE_ABORT, NO_STATE, CONCURRENT),
        (COMPLETE_COMMIT, AGAIN, RAISES),
        (COMPLETE_ABORT, NO_STATE, RAISES),
    ],
)
def test_a_request_repeated_after_the_version_rose_is_known(
    state: TransactionState, commit: object, abort: object
) -> None:
    known = transaction(state, client_version=TV_0)
    assert outcome(known, producer(5), commit=True, version=TV_2) is commit
    assert outcome(known, producer(5), commit=False, version=TV_2) is abort
    assert outcome(known, producer(4), commit=True, version=TV_2) is FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_the_last_epoch_of_version_2_is_followed_by_another_producer_id(commit: bool) -> None:
    known, claimed = transaction(ONGOING, LAST_EPOCH), producer(LAST_EPOCH)
    assert [needs_producer_id_to_end(known, version) for version in TransactionVersion] == [False, False, True]
    decided = finish(known, claimed, commit=commit, version=TV_2)
    assert decided.producer == producer(FENCING_EPOCH), "who writes the markers"
    assert producer_after(decided) == producer(0, FRESH_ID)
    assert not needs_producer_id_to_end(decided, TV_2)
    assert refusal(finish, decided, claimed, commit=commit, version=TV_2) is CONCURRENT
    assert refusal(finish, decided, producer(0, FRESH_ID), commit=commit, version=TV_2) is CONCURRENT
    over = complete(decided, NOW_MS)
    assert (over.producer, over.previous_producer_id, over.next_producer_id) == (producer(0, FRESH_ID), ID, -1)
    assert finish(over, claimed, commit=commit, version=TV_2) is over, "the response was lost"
    assert refusal(finish, over, claimed, commit=not commit, version=TV_2) is NO_STATE
    assert begin_producer(over, claimed, 60_000, NOW_MS).producer == producer(0, FRESH_ID)


def test_aborting_nothing_at_the_last_epoch_rotates_too() -> None:
    known = transaction(EMPTY, LAST_EPOCH)
    decided = finish(known, producer(LAST_EPOCH), commit=False, version=TV_2)
    assert (decided.state, decided.next_producer_id) == (PREPARE_ABORT, FRESH_ID)
    assert complete(decided, NOW_MS).producer == producer(0, FRESH_ID)


@pytest.mark.parametrize("version", [TV_0, TV_1])
def test_before_version_2_the_last_epoch_stays_in_use(version: TransactionVersion) -> None:
    over = complete(
        finish(transaction(ONGOING, LAST_EPOCH), producer(LAST_EPOCH), commit=True, version=version), NOW_MS
    )
    assert over.producer == producer(LAST_EPOCH)
    assert add_partitions(over, {A}, version, NOW_MS).producer == producer(LAST_EPOCH)
