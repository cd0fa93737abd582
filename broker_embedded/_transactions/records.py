"""Records of ``__transaction_state``, in Apache Kafka's format.

key    =  int16 0 | transactional id
value  =  int16 version | fields      versions 0 and 1 (flexible); a tombstone deletes the id

Version 0, of Kafka before 4.0, has no fields for the previous and the next producer id and the client's version.
"""

from typing import Final

from broker_embedded._records.coordinator_record import CoordinatorRecord, RecordKind, key_version
from broker_embedded._transactions.state import Transaction, TransactionState, TransactionVersion
from spark_kafka_native._protocol.schema import Struct, field, struct
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import Int8, Int16, Int32, Int64, String
from spark_kafka_native._records.errors import CorruptBatch

_LATEST_VERSION: Final = 1


@struct
class TransactionLogKey(Struct):
    """The transactional id."""

    transactional_id: String = ""


@struct
class TopicPartitions(Struct):
    """One entry of ``transaction_partitions``."""

    topic: String = ""
    partition_ids: tuple[Int32, ...] = ()


@struct
class TransactionLogValue(Struct):
    """A transaction. ``transaction_partitions`` is null in states without partitions."""

    producer_id: Int64 = 0
    previous_producer_id: Int64 = field("1+", default=-1, tag=0, ignorable=True)
    next_producer_id: Int64 = field("1+", default=-1, tag=1, ignorable=True)
    producer_epoch: Int16 = 0
    next_producer_epoch: Int16 = field("1+", default=-1, tag=3, ignorable=True)
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: tuple[TopicPartitions, ...] | None = ()
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = field("1+", default=0, tag=2, ignorable=True)


TRANSACTION_RECORDS: Final = RecordKind(0, TransactionLogKey, TransactionLogValue, _LATEST_VERSION, flexible_since=1)


def transaction_record(transaction: Transaction, *, flexible: bool) -> CoordinatorRecord:
    """The record of a transaction; ``flexible`` from transaction.version 1 on, and if a TV_2 client needs it."""
    partitions: tuple[TopicPartitions, ...] | None = None
    if transaction.state is not TransactionState.EMPTY:
        partitions = tuple(
            TopicPartitions(topic=topic, partition_ids=tuple(numbers))
            for topic, numbers in transaction.by_topic().items()
        )
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    has_more_to_say = transaction.state.is_decided and transaction.client_version.bumps_epochs
    version = _LATEST_VERSION if flexible or has_more_to_say else 0
    key = TransactionLogKey(transactional_id=transaction.transactional_id)
    return TRANSACTION_RECORDS.write(key, value, version)


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that deletes an id."""
    return TRANSACTION_RECORDS.write(TransactionLogKey(transactional_id=transactional_id), None)


def read_transaction_record(record: CoordinatorRecord) -> tuple[str, Transaction | None] | None:
    """The id and its transaction, None for a tombstone. None for a record of an unknown kind.

    Raises CorruptBatch: the bytes do not fit their version, or the version or a state is unknown.
    """
    if key_version(record) != TRANSACTION_RECORDS.key_version:
        return None
    key, value = TRANSACTION_RECORDS.read(record)
    name = key.transactional_id
    if value is None:
        return name, None
    try:
        state = TransactionState(value.transaction_status)
        version = TransactionVersion(value.client_transaction_version)
    except ValueError as error:
        raise CorruptBatch(f"record of transactional id {name}: {error}") from None
    return name, Transaction(
        transactional_id=name,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(entry.topic, index)
            for entry in value.transaction_partitions or ()
            for index in entry.partition_ids
            if state is not TransactionState.EMPTY
        ),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=version,
    )
