"""Decisions of the transaction coordinator: pure functions of a transaction, a request and the time.

Each returns the new transaction, which takes effect when its record is in the log. Errors are KafkaErrors and change
nothing. The caller executes the requests about an id one after the other, so that Kafka's "pending transitions", which
are answered CONCURRENT_TRANSACTIONS, do not occur.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from broker_embedded._transactions.state import (
    FENCING_EPOCH,
    LAST_EPOCH,
    Transaction,
    TransactionState,
    TransactionVersion,
)
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition

_PREPARED: Final = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}
_COMPLETE: Final = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


# --- InitProducerId ---------------------------------------------------------------------------------------------------


def new_transaction(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A new transactional id, before its first epoch."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
    )


def check_claim(known: Transaction, claimed: ProducerIdAndEpoch | None) -> None:
    """Check the producer id and epoch of an InitProducerId, before an ongoing transaction is aborted for it.

    Raises KafkaError PRODUCER_FENCED: another producer has the id. Kafka checks the epoch only after it has aborted the
    ongoing transaction; here a fenced producer does not abort it. While a decided transaction is not complete, the
    claim is not checked.
    """
    if claimed is None or known.producer_epoch == NO_PRODUCER_EPOCH or known.state.is_prepared:
        return
    present = claimed == known.producer and claimed.epoch <= LAST_EPOCH
    if not present and (known.state is TransactionState.ONGOING or not _had_it_before(known, claimed)):
        raise _fenced(known, claimed)


def needs_producer_id_to_begin(known: Transaction, claimed: ProducerIdAndEpoch | None) -> bool:
    """Whether `begin_producer` needs a new producer id, because the epochs of the present one are exhausted."""
    if known.state is TransactionState.ONGOING or known.state.is_prepared:
        return False
    return known.is_exhausted and not _is_repeated(known, claimed)


def begin_producer(
    known: Transaction,
    claimed: ProducerIdAndEpoch | None,
    timeout_ms: int,
    now_ms: int,
    *,
    fresh_producer_id: int | None = None,
) -> Transaction:
    """Assign the id to a new producer, or to the present one with a new epoch if it is ``claimed`` (KIP-360).

    An ongoing transaction must be aborted before: see `fence`. ``fresh_producer_id`` is required if
    `needs_producer_id_to_begin`.

    Raises KafkaError: PRODUCER_FENCED, another producer has the id; CONCURRENT_TRANSACTIONS, its last transaction is
    not complete.
    """
    check_claim(known, claimed)
    if known.state is TransactionState.ONGOING or known.state.is_prepared:
        raise _not_over(known)
    if _is_repeated(known, claimed):
        producer = known.producer
    elif known.is_exhausted:
        assert fresh_producer_id is not None, f"{known.transactional_id} needs another producer id"
        producer = ProducerIdAndEpoch(producer_id=fresh_producer_id, epoch=0)
    else:
        producer = ProducerIdAndEpoch(producer_id=known.producer_id, epoch=known.producer_epoch + 1)
    return replace(
        known,
        producer_id=producer.producer_id,
        previous_producer_id=known.producer_id if claimed is None else claimed.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=producer.epoch,
        last_producer_epoch=NO_PRODUCER_EPOCH if claimed is None else claimed.epoch,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        started_ms=-1,
        updated_ms=now_ms,
    )


def fence(
    known: Transaction,
    version: TransactionVersion,
    now_ms: int,
    *,
    claimed: ProducerIdAndEpoch | None = None,
    fresh_producer_id: int | None = None,
) -> Transaction:
    """Abort the ongoing transaction, with a bumped epoch that fences its producer.

    ``version`` is the cluster's. Before TV_2 only a producer that requested it itself, ``claimed``, may continue; from
    TV_2 on the producer with the epoch before may continue by aborting again. ``fresh_producer_id`` is required if
    `needs_producer_id_to_end`.
    """
    decided = _prepare(known, TransactionState.PREPARE_ABORT, version, now_ms, fresh_producer_id=fresh_producer_id)
    if version.bumps_epochs:
        return decided
    return replace(
        decided,
        producer_epoch=min(known.producer_epoch + 1, FENCING_EPOCH),
        last_producer_epoch=NO_PRODUCER_EPOCH if claimed is None else claimed.epoch,
    )


def _had_it_before(known: Transaction, claimed: ProducerIdAndEpoch | None) -> bool:
    """Whether a producer had the epoch before the present one, and the present one was assigned to it."""
    before = ProducerIdAndEpoch(producer_id=known.previous_producer_id, epoch=known.last_producer_epoch)
    return claimed == before and claimed.epoch != NO_PRODUCER_EPOCH


def _is_repeated(known: Transaction, claimed: ProducerIdAndEpoch | None) -> bool:
    """Whether a producer retries the request that assigned the present epoch, because the response was lost."""
    return known.producer_epoch <= LAST_EPOCH and _had_it_before(known, claimed)


# --- partitions -------------------------------------------------------------------------------------------------------


def check_producer(known: Transaction | None, claimed: ProducerIdAndEpoch, transactional_id: str) -> Transaction:
    """The transaction of an id, for a request of its producer.

    Raises KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED; CONCURRENT_TRANSACTIONS, the producer has its next
    id, and its last transaction is not complete.
    """
    if known is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{transactional_id} has no producer")
    if known.state.is_prepared and known.producer != claimed == producer_after(known):
        raise _not_over(known)
    if known.producer_id != claimed.producer_id:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"{transactional_id} does not belong to producer {claimed.producer_id}",
        )
    if known.producer_epoch != claimed.epoch or claimed.epoch > LAST_EPOCH:
        raise _fenced(known, claimed)
    return known


def add_partitions(
    known: Transaction, partitions: AbstractSet[TopicPartition], version: TransactionVersion, now_ms: int
) -> Transaction:
    """Add partitions to the transaction, which begins if none is ongoing. ``known`` itself if they were in it before.

    Raises KafkaError CONCURRENT_TRANSACTIONS: the last transaction is not complete.
    """
    if known.state.is_prepared:
        raise _not_over(known)
    is_ongoing = known.state is TransactionState.ONGOING
    if is_ongoing and partitions <= known.partitions:
        return known
    return replace(
        known,
        previous_producer_id=known.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        state=TransactionState.ONGOING,
        partitions=(known.partitions if is_ongoing else frozenset()) | partitions,
        started_ms=known.started_ms if is_ongoing else now_ms,
        updated_ms=now_ms,
        client_version=version,
    )


def missing_partitions(known: Transaction, partitions: AbstractSet[TopicPartition]) -> frozenset[TopicPartition]:
    """The partitions that are not in the ongoing transaction (verification before appends, KIP-890).

    Raises KafkaError CONCURRENT_TRANSACTIONS: the last transaction is not complete.
    """
    if known.state.is_prepared:
        raise _not_over(known)
    return frozenset(partitions) - known.partitions


# --- EndTxn -----------------------------------------------------------------------------------------------------------


def needs_producer_id_to_end(known: Transaction, version: TransactionVersion) -> bool:
    """Whether ending a transaction of this version exhausts the producer's epochs, so that a new id is necessary."""
    return version.bumps_epochs and known.is_exhausted and not known.state.is_prepared


def end(
    known: Transaction | None,
    claimed: ProducerIdAndEpoch,
    *,
    transactional_id: str,
    commit: bool,
    version: TransactionVersion,
    now_ms: int,
    fresh_producer_id: int | None = None,
) -> Transaction:
    """Commit or abort the transaction. ``known`` itself if it is complete with the same result.

    ``version`` is the request's. Up to TV_1 the epoch is not bumped, so that EndTxn after the end is taken for a retry.
    In TV_2 a retry has the epoch before. EndTxn with the present epoch is for the next transaction, which has no
    partitions here: aborting it bumps the epoch nevertheless, so that appends in flight are refused.
    ``fresh_producer_id`` is required if `needs_producer_id_to_end`.

    Raises KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED; INVALID_TXN_STATE, there is no transaction to end,
    or it ended with the other result; CONCURRENT_TRANSACTIONS, it is decided so and not complete.
    """
    again = known is not None and version.bumps_epochs and _is_repeated_end(known, claimed)
    if known is None or not again:
        known = check_producer(known, claimed, transactional_id)
    if known.state is TransactionState.ONGOING:
        return _prepare(known, _PREPARED[commit], version, now_ms, fresh_producer_id=fresh_producer_id)
    # Up to TV_1, or if the version was upgraded since, the present epoch may be that of the last transaction.
    again = again or not (version.bumps_epochs and (known.client_version.bumps_epochs or not commit))
    if known.state.is_prepared and (not again or known.state is _PREPARED[commit]):
        raise _not_over(known)
    if again and known.state is _COMPLETE[commit]:
        return known
    if not again and not commit:
        begun = replace(known, partitions=frozenset(), started_ms=now_ms)
        return _prepare(begun, _PREPARED[False], version, now_ms, fresh_producer_id=fresh_producer_id)
    wanted = "commit" if commit else "abort"
    raise KafkaError(
        ErrorCode.INVALID_TXN_STATE, f"{transactional_id} is {known.state.label}: there is nothing to {wanted}"
    )


def complete(known: Transaction, now_ms: int) -> Transaction:
    """Complete the transaction: every partition has its marker."""
    producer = producer_after(known)
    return replace(
        known,
        producer_id=producer.producer_id,
        previous_producer_id=known.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=producer.epoch,
        state=_COMPLETE[known.state.is_commit],
        partitions=frozenset(),
        updated_ms=now_ms,
    )


def producer_after(known: Transaction) -> ProducerIdAndEpoch:
    """The producer id and epoch after a decided transaction, as in the response to EndTxn."""
    if known.state.is_prepared and known.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdAndEpoch(producer_id=known.next_producer_id, epoch=0)
    return known.producer


def _prepare(
    known: Transaction, state: TransactionState, version: TransactionVersion, now_ms: int, fresh_producer_id: int | None
) -> Transaction:
    decided = replace(
        known,
        previous_producer_id=known.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        state=state,
        updated_ms=now_ms,
        client_version=TransactionVersion.TV_0,
    )
    if not version.bumps_epochs:
        return decided
    if known.is_exhausted:
        assert fresh_producer_id is not None, f"{known.transactional_id} needs another producer id"
        decided = replace(decided, next_producer_id=fresh_producer_id)
    return replace(
        decided,
        producer_epoch=min(known.producer_epoch + 1, FENCING_EPOCH),
        last_producer_epoch=known.producer_epoch,
        client_version=version,
    )


def _is_repeated_end(known: Transaction, claimed: ProducerIdAndEpoch) -> bool:
    """Whether a producer retries the EndTxn that bumped its epoch, because the response was lost."""
    if not known.state.is_decided or not known.client_version.bumps_epochs or claimed.epoch > LAST_EPOCH:
        return False
    if claimed.epoch == LAST_EPOCH and not known.state.is_prepared:
        return known.producer_epoch == 0 and known.previous_producer_id == claimed.producer_id
    return known.producer == ProducerIdAndEpoch(producer_id=claimed.producer_id, epoch=claimed.epoch + 1)


# --- errors -----------------------------------------------------------------------------------------------------------


def _not_over(known: Transaction) -> KafkaError:
    return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{known.transactional_id} is {known.state.label}")


def _fenced(known: Transaction, claimed: ProducerIdAndEpoch) -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"{known.transactional_id} belongs to producer {known.producer_id} with epoch {known.producer_epoch}, "
        f"not to {claimed.producer_id} with epoch {claimed.epoch}",
    )
