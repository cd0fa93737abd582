import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._records.coordinator_record import CoordinatorRecord
from broker_embedded._transactions.records import read_transaction_record, transaction_record, transaction_tombstone
from broker_embedded._transactions.state import Transaction, TransactionState, TransactionVersion
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.errors import CorruptBatch

KEY = b"\x00\x00\x00\x02tx"
ONGOING = Transaction(
    transactional_id="tx",
    producer_id=7,
    previous_producer_id=6,
    next_producer_id=8,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({TopicPartition("u", 0), TopicPartition("t", 2), TopicPartition("t", 1)}),
    started_ms=1000,
    updated_ms=2000,
    client_version=TransactionVersion.TV_2,
)
INT64 = st.integers(-(2**63), 2**63 - 1)
TRANSACTIONS = st.builds(
    Transaction,
    transactional_id=st.text(max_size=20),
    producer_id=INT64,
    previous_producer_id=INT64,
    next_producer_id=INT64,
    producer_epoch=st.integers(-1, 32_767),
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from(TransactionState),
    partitions=st.frozensets(st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 2**31 - 1)), max_size=5),
    started_ms=INT64,
    updated_ms=INT64,
    client_version=st.sampled_from(TransactionVersion),
)


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def value_of(record: CoordinatorRecord) -> bytes:
    assert record.value is not None
    return record.value


def test_version_0_has_the_bytes_of_apache_kafka() -> None:
    record = transaction_record(ONGOING, flexible=False)
    assert record.key == KEY
    assert record.value == (
        number(0, 2)
        + number(7, 8)
        + number(3, 2)
        + number(60_000, 4)
        + number(1, 1)
        + number(2, 4)
        + (b"\x00\x01t" + number(2, 4) + number(1, 4) + number(2, 4))
        + (b"\x00\x01u" + number(1, 4) + number(0, 4))
        + number(2000, 8)
        + number(1000, 8)
    )


def test_version_1_has_the_bytes_of_apache_kafka() -> None:
    record = transaction_record(ONGOING, flexible=True)
    assert record.key == KEY
    assert record.value == (
        number(1, 2)
        + number(7, 8)
        + number(3, 2)
        + number(60_000, 4)
        + number(1, 1)
        + b"\x03"
        + (b"\x02t\x03" + number(1, 4) + number(2, 4) + b"\x00")
        + (b"\x02u\x02" + number(0, 4) + b"\x00")
        + number(2000, 8)
        + number(1000, 8)
        + (b"\x03\x00\x08" + number(6, 8) + b"\x01\x08" + number(8, 8) + b"\x02\x02" + number(2, 2))
    )


@pytest.mark.parametrize("flexible", [False, True])
def test_an_id_without_a_transaction_has_no_list_of_partitions(flexible: bool) -> None:
    empty = replace(ONGOING, state=TransactionState.EMPTY, partitions=frozenset())
    over = replace(ONGOING, state=TransactionState.COMPLETE_ABORT, partitions=frozenset())
    begin, end = 2 + 8 + 2 + 4 + 1, 2 + 8 + 2 + 4 + 1 + (1 if flexible else 4)
    assert value_of(transaction_record(empty, flexible=flexible))[begin:end] == (b"\x00" if flexible else number(-1, 4))
    if flexible:
        assert value_of(transaction_record(over, flexible=True))[begin:end] == b"\x01"


def test_a_tombstone_forgets_an_id() -> None:
    assert transaction_tombstone("tx") == CoordinatorRecord(key=KEY, value=None)
    assert read_transaction_record(transaction_tombstone("tx")) == ("tx", None)


@given(TRANSACTIONS)
def test_version_1_keeps_all_that_is_known(transaction: Transaction) -> None:
    kept = transaction
    if transaction.state is TransactionState.EMPTY:
        kept = replace(transaction, partitions=frozenset())
    record = transaction_record(kept, flexible=True)
    assert read_transaction_record(record) == (transaction.transactional_id, kept)


@given(TRANSACTIONS)
def test_version_0_keeps_what_kafka_knew_before_and_what_needs_more_is_written_in_version_1(
    transaction: Transaction,
) -> None:
    if transaction.state is TransactionState.EMPTY:
        transaction = replace(transaction, partitions=frozenset())
    record = transaction_record(transaction, flexible=False)
    kept = transaction
    if value_of(record)[:2] == number(0, 2):
        kept = replace(
            transaction, previous_producer_id=-1, next_producer_id=-1, client_version=TransactionVersion.TV_0
        )
    else:
        assert transaction.client_version is TransactionVersion.TV_2
        assert transaction.state.is_decided
    assert read_transaction_record(record) == (transaction.transactional_id, kept)


def test_an_empty_transaction_has_no_partitions_even_if_its_record_has() -> None:
    value = bytearray(value_of(transaction_record(ONGOING, flexible=True)))
    value[16] = TransactionState.EMPTY
    read = read_transaction_record(CoordinatorRecord(key=KEY, value=bytes(value)))
    assert read == ("tx", replace(ONGOING, state=TransactionState.EMPTY, partitions=frozenset()))


def test_a_null_list_of_partitions_is_an_empty_one() -> None:
    over = replace(ONGOING, state=TransactionState.COMPLETE_COMMIT, partitions=frozenset())
    value = bytearray(value_of(transaction_record(over, flexible=True)))
    assert value[17] == 1
    value[17] = 0
    assert read_transaction_record(CoordinatorRecord(key=KEY, value=bytes(value))) == ("tx", over)


def test_fields_of_two_phase_commit_are_read_over() -> None:
    value = value_of(transaction_record(ONGOING, flexible=True))
    cut = value.rindex(b"\x03\x00\x08")
    more = value[:cut] + b"\x05" + value[cut + 1 :] + b"\x03\x02" + number(4, 2) + b"\x63\x01x"
    assert read_transaction_record(CoordinatorRecord(key=KEY, value=more)) == ("tx", ONGOING)


def test_keys_of_other_versions_are_not_ours() -> None:
    assert read_transaction_record(CoordinatorRecord(key=b"\x00\x01\x00\x02tx", value=b"")) is None


@pytest.mark.parametrize("flexible", [False, True])
def test_a_truncated_record_is_an_error(flexible: bool) -> None:
    record = transaction_record(ONGOING, flexible=flexible)
    for length in range(len(KEY)):
        with pytest.raises(CorruptBatch, match="malformed record"):
            read_transaction_record(CoordinatorRecord(key=KEY[:length], value=record.value))
    for length in range(len(value_of(record))):
        with pytest.raises(CorruptBatch, match="malformed record"):
            read_transaction_record(CoordinatorRecord(key=KEY, value=value_of(record)[:length]))


@given(st.binary(max_size=8), st.binary(max_size=80), st.booleans())
def test_any_bytes_mean_something_or_are_refused(key: bytes, value: bytes, flexible: bool) -> None:
    for record in (
        CoordinatorRecord(key=key, value=value),
        CoordinatorRecord(key=KEY, value=number(flexible, 2) + value),
    ):
        with contextlib.suppress(CorruptBatch):
            read_transaction_record(record)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({0: 0xFF}, "TransactionLogValue of the unknown version -255"),
        ({1: 2}, "TransactionLogValue of the unknown version 2"),
        ({16: 6}, "record of transactional id tx: 6 is not a valid TransactionState"),
        ({16: 0xFF}, "record of transactional id tx: -1 is not a valid TransactionState"),
        ({-1: 3}, "record of transactional id tx: 3 is not a valid TransactionVersion"),
    ],
)
def test_unknown_versions_and_states_are_refused(damage: dict[int, int], says: str) -> None:
    value = bytearray(value_of(transaction_record(ONGOING, flexible=True)))
    for place, byte in damage.items():
        value[place] = byte
    with pytest.raises(CorruptBatch, match=says):
        read_transaction_record(CoordinatorRecord(key=KEY, value=bytes(value)))
