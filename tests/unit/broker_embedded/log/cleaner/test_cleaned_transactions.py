from broker_embedded._log.cleaner.cleaned_transactions import CleanedTransactions
from broker_embedded._log.transaction_index import AbortedTransaction
from spark_kafka_native._records.batch import BatchHeader, read_header
from spark_kafka_native._records.control import ControlType
from tests.support.records import reference

P, Q = 7, 8
ABORTED = AbortedTransaction(producer_id=P, first_offset=10, last_offset=20, last_stable_offset=21)
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def data(producer_id: int, offset: int, *, transactional: bool = True) -> BatchHeader:
    record = reference.Record(b"k", b"v", offset=offset)
    return read_header(
        reference.write_batch(
            reference.Batch(
                records=(record,),
                base_offset=offset,
                producer_id=producer_id,
                producer_epoch=0,
                transactional=transactional,
            )
        )
    )


def marker(producer_id: int, offset: int) -> BatchHeader:
    return data(producer_id, offset)


def test_records_of_an_aborted_transaction_and_of_no_other() -> None:
    pass_ = CleanedTransactions()
    pass_.expect([ABORTED])
    assert not pass_.is_aborted(data(P, 9))  # an earlier transaction of the producer
    assert not pass_.may_drop(marker(P, 9), COMMIT)
    assert pass_.is_aborted(data(P, 10))
    assert not pass_.is_aborted(data(Q, 11))
    assert not pass_.is_aborted(data(P, 12, transactional=False))
    assert pass_.is_aborted(data(P, 13))
    assert not pass_.may_drop(marker(P, 20), ABORT)
    assert not pass_.is_aborted(data(P, 21))


def test_a_marker_stays_until_no_record_of_its_transaction_is_left() -> None:
    pass_ = CleanedTransactions()
    pass_.expect([ABORTED])
    assert pass_.may_drop(marker(P, 20), ABORT)
    assert pass_.may_drop(marker(Q, 21), COMMIT)
    pass_.is_aborted(data(Q, 22))
    assert not pass_.may_drop(marker(Q, 23), COMMIT)
    assert pass_.may_drop(marker(Q, 24), COMMIT)


def test_an_emptied_marker_may_go_and_one_that_ends_nothing_stays() -> None:
    pass_ = CleanedTransactions()
    assert pass_.may_drop(marker(P, 1), None)
    assert not pass_.may_drop(marker(P, 2), ControlType.LEADER_CHANGE)


def test_the_index_gets_the_transactions_whose_markers_stay() -> None:
    pass_ = CleanedTransactions()
    gone = AbortedTransaction(producer_id=Q, first_offset=11, last_offset=19, last_stable_offset=10)
    pass_.expect([ABORTED, gone])
    pass_.is_aborted(data(P, 10))
    assert pass_.may_drop(marker(Q, 19), ABORT)
    assert not pass_.may_drop(marker(P, 20), ABORT)
    assert pass_.take_index_entries() == [ABORTED]
    assert pass_.take_index_entries() == []


def test_a_transaction_over_several_segments_is_found_in_each() -> None:
    pass_ = CleanedTransactions()
    for offset in (10, 15):
        pass_.expect([ABORTED])
        assert pass_.is_aborted(data(P, offset))
    assert not pass_.may_drop(marker(P, 20), ABORT)
    again = AbortedTransaction(producer_id=P, first_offset=30, last_offset=40, last_stable_offset=41)
    pass_.expect([again])
    assert not pass_.is_aborted(data(P, 25))
    assert not pass_.may_drop(marker(P, 26), COMMIT)
    assert pass_.is_aborted(data(P, 30))
