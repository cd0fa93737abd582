from spark_kafka_native._records.arrow.aborted import AbortedTransactions
from spark_kafka_native._records.batch import BatchHeader, read_header
from tests.support.records.record_batches import Aborted
from tests.support.records.reference import Batch, Record, numbered, write_batch


def batch(first: int, producer_id: int, *, transactional: bool = True) -> BatchHeader:
    records = numbered([Record()] * 10, first)
    return read_header(
        write_batch(Batch(records=records, base_offset=first, producer_id=producer_id, transactional=transactional))
    )


def test_from_the_first_offset_until_the_marker() -> None:
    transactions = AbortedTransactions([Aborted(1, 20), Aborted(2, 10), Aborted(1, 70)])
    assert not transactions.drops(batch(0, 1))
    assert transactions.drops(batch(10, 2))
    assert transactions.drops(batch(20, 1))
    assert not transactions.drops(batch(30, 3))
    assert not transactions.drops(batch(40, 1, transactional=False))
    transactions.end(1)
    transactions.end(9)
    assert not transactions.drops(batch(50, 1))
    assert transactions.drops(batch(60, 2))
    assert transactions.drops(batch(70, 1))


def test_a_transaction_that_begins_within_a_batch_has_all_of_it() -> None:
    """A batch is of one producer and one transaction; the offset of its first record may be gone by compaction."""
    assert AbortedTransactions([Aborted(1, 5)]).drops(batch(0, 1))
    assert not AbortedTransactions([Aborted(1, 10)]).drops(batch(0, 1))


def test_the_remaining_transactions_continue_in_the_next_call() -> None:
    transactions = AbortedTransactions([Aborted(1, 0), Aborted(2, 5), Aborted(1, 40)])
    transactions.drops(batch(0, 1))
    transactions.end(1)
    left = transactions.left()
    assert left == (Aborted(2, 5), Aborted(1, 40))
    again = AbortedTransactions(left)
    assert not again.drops(batch(10, 1))
    assert again.drops(batch(20, 2))
    assert again.drops(batch(40, 1))
