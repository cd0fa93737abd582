import pytest

from broker_embedded._transactions.state import LAST_EPOCH, NEVER_MS, Transaction, TransactionState, TransactionVersion
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition

STATES = list(TransactionState)
IDLE = {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}


def known(
    state: TransactionState = TransactionState.ONGOING, *, epoch: int = 0, timeout_ms: int = 60_000
) -> Transaction:
    return Transaction(
        transactional_id="t",
        producer_id=7,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=state,
        started_ms=1000,
        updated_ms=2000,
    )


def test_states_have_the_names_of_kafka() -> None:
    labels = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]
    assert {state.label: int(state) for state in STATES} == {label: number for number, label in enumerate(labels)}


def test_the_outcome_of_each_state() -> None:
    assert {state for state in STATES if state.is_decided} == set(STATES) - {
        TransactionState.EMPTY,
        TransactionState.ONGOING,
    }
    assert {state.label for state in STATES if state.is_prepared} == {"PrepareCommit", "PrepareAbort"}
    assert {state.label for state in STATES if state.is_commit} == {"PrepareCommit", "CompleteCommit"}


def test_epochs_rise_with_every_transaction_from_version_2_on() -> None:
    assert [version.bumps_epochs for version in TransactionVersion] == [False, False, True]


@pytest.mark.parametrize("state", STATES)
def test_only_an_open_transaction_times_out(state: TransactionState) -> None:
    is_open = state is TransactionState.ONGOING
    assert not known(state).times_out(60_000)
    assert known(state).times_out(60_001) is is_open


def test_a_transaction_in_two_phases_never_times_out() -> None:
    assert not known(timeout_ms=NEVER_MS).times_out(1 << 60)
    assert known(timeout_ms=NEVER_MS - 1).times_out(1 << 60)


@pytest.mark.parametrize("state", STATES)
def test_an_unused_id_expires(state: TransactionState) -> None:
    assert not known(state).expires(2999, 1000)
    assert known(state).expires(3000, 1000) is (state in IDLE)


def test_a_producer_is_exhausted_while_there_is_one_epoch_left_to_fence_it_with() -> None:
    assert [known(epoch=epoch).is_exhausted for epoch in (-1, LAST_EPOCH - 1, LAST_EPOCH, LAST_EPOCH + 1)] == [
        *(False, False),
        *(True, True),
    ]
    assert known(epoch=LAST_EPOCH).producer == ProducerIdAndEpoch(producer_id=7, epoch=LAST_EPOCH)


def test_partitions_are_listed_topic_by_topic_in_order() -> None:
    partitions = frozenset({TopicPartition("b", 1), TopicPartition("a", 10), TopicPartition("a", 2)})
    transaction = Transaction(
        transactional_id="t", producer_id=7, producer_epoch=0, timeout_ms=1, partitions=partitions
    )
    assert list(transaction.by_topic().items()) == [("a", [2, 10]), ("b", [1])]
    assert known().by_topic() == {}
