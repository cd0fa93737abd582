"""The state of a partition's idempotent and transactional producers (KIP-98).

Per producer id: its epoch, the last five batches, and the first offset of its open transaction. They decide whether a
batch is a duplicate, out of order, or from a fenced producer, and the last stable offset.

Pure: batches in, decisions out. ``producer_snapshot`` keeps the entries on disk.

A producer id expires ``producer.id.expiration.ms`` after its last append by the broker's clock. Apache Kafka compares
the timestamp of the producer's last batch with the clock instead, so that a producer of old records expires at once.
The field of the snapshot is the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from broker_embedded._log.append.incoming import FROM_CLIENT, AppendConditions, AppendOrigin
from broker_embedded._log.transaction_index import AbortedTransaction
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import NO_PRODUCER_EPOCH
from spark_kafka_native._records.batch import NO_SEQUENCE, BatchHeader, increment_sequence

BATCHES_KEPT: Final = 5
"""A producer may have five requests in flight, and retry any of them."""
NO_COORDINATOR_EPOCH: Final = -1


class BatchMetadata(NamedTuple):
    """One batch that a producer appended. ``offset_delta`` is its record count less one, ``timestamp`` its largest."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return self.last_offset - self.offset_delta


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEntry:
    """One producer id. ``batches`` are the last ones of this epoch, oldest first; ``seen_ms`` by the broker's clock."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    batches: tuple[BatchMetadata, ...] = ()
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    transaction_first_offset: int | None = None
    seen_ms: int = -1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record appended, NO_SEQUENCE if there is none in this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class LastRecord(NamedTuple):
    """The last record of a producer: the last offset of its last batch, or None for a marker of the epoch."""

    last_offset: int | None
    epoch: int


class EndOfTransaction(NamedTuple):
    """The content of a control batch's marker."""

    is_abort: bool
    coordinator_epoch: int


class AppendedBatch(NamedTuple):
    """A batch with the offset it gets. ``marker`` for a control batch that ends a transaction."""

    header: BatchHeader
    base_offset: int
    max_timestamp: int
    marker: EndOfTransaction | None = None

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.header.last_offset_delta


class ProducerChange(NamedTuple):
    """The entry of a producer after its batch is appended, and the transaction that the batch aborts."""

    entry: ProducerEntry
    aborted: AbortedTransaction | None = None


class ProducerStates:
    """The producers of one partition. ``partition`` is for messages. Not safe to change from two threads."""

    def __init__(self, partition: str, *, expiration_ms: int) -> None:
        self._partition = partition
        self.expiration_ms = expiration_ms
        self._entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, int] = {}  # producer id -> first offset of its open transaction

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> Iterable[ProducerEntry]:
        """Every producer known."""
        return tuple(self._entries.values())

    def last_records(self) -> dict[int, LastRecord]:
        """The last record of each known producer id, which compaction keeps for a restart."""
        return {
            entry.producer_id: LastRecord(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
            for entry in self._entries.values()
        }

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return min(self._open.values(), default=None)

    @property
    def first_offsets_of_open(self) -> dict[int, int]:
        """The first offset of each open transaction, by producer id. Safe to call from any thread."""
        return dict(self._open)

    @property
    def open_transactions(self) -> int:
        """How many transactions are open."""
        return len(self._open)

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has an open transaction with this epoch. Safe to call from any thread."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset is not None and entry.epoch == epoch

    def duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The earlier append of a batch if it is a duplicate; None if it is new."""
        entry = self._entries.get(header.producer_id) if header.has_producer_id else None
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        last_sequence, offset_delta = header.last_sequence, header.last_offset_delta
        for batch in entry.batches:
            if batch.last_sequence == last_sequence and batch.offset_delta == offset_delta:
                return batch
        return None

    def plan(
        self, batch: AppendedBatch, *, now_ms: int, conditions: AppendConditions | None = FROM_CLIENT
    ) -> ProducerChange:
        """The change of appending a batch of a producer with an id. Nothing is changed yet.

        Without ``conditions`` the batch is not checked, because it is in the log already.

        Raises KafkaError: INVALID_PRODUCER_EPOCH, another producer with this id has a newer epoch, or a marker does not
        bump the epoch. OUT_OF_ORDER_SEQUENCE_NUMBER: records are missing between the last batch and
        this. INVALID_TXN_STATE: a batch outside of the producer's open transaction, or of an unverified transaction.
        TRANSACTION_COORDINATOR_FENCED: a marker of an old coordinator.
        """
        header = batch.header
        entry = self._entries.get(header.producer_id) or ProducerEntry(producer_id=header.producer_id)
        if header.is_control:
            return self._after_marker(entry, batch, now_ms=now_ms, conditions=conditions)
        if conditions is not None:
            self._check_data(entry, header, conditions)
        return ProducerChange(_after_data(entry, batch, now_ms))

    def put(self, entry: ProducerEntry) -> None:
        """Set the entry of a producer: that of a change after its batch was appended, or of a snapshot."""
        self._entries[entry.producer_id] = entry
        if entry.transaction_first_offset is None:
            self._open.pop(entry.producer_id, None)
        else:
            self._open[entry.producer_id] = entry.transaction_first_offset

    def clear(self) -> None:
        """Forget every producer."""
        self._entries.clear()
        self._open.clear()

    def expire(self, now_ms: int) -> int:
        """Forget the expired producers, except those with an open transaction; how many."""
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.transaction_first_offset is None and now_ms - entry.seen_ms >= self.expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def _check_data(self, entry: ProducerEntry, header: BatchHeader, conditions: AppendConditions) -> None:
        self._check_epoch(entry, header)
        if header.is_transactional:
            self._check_in_transaction(entry, header, conditions)
        if conditions.origin is AppendOrigin.CLIENT:
            self._check_sequence(entry, header)
        if entry.transaction_first_offset is not None and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"{self._partition}: producer {header.producer_id} has an open transaction, the batch is not in it",
            )

    def _check_in_transaction(self, entry: ProducerEntry, header: BatchHeader, conditions: AppendConditions) -> None:
        """A transaction must be verified by the coordinator, because otherwise no marker would ever end it."""
        if entry.transaction_first_offset is not None and entry.epoch == header.producer_epoch:
            return
        if not conditions.verified:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"{self._partition}: the batch of producer {header.producer_id} is not part of an open transaction",
            )
        if conditions.bumps_epochs and not entry.batches and header.base_sequence > 0:
            self._refuse_sequence(header, "but a transaction starts at 0")

    def _check_sequence(self, entry: ProducerEntry, header: BatchHeader) -> None:
        if entry.epoch == NO_PRODUCER_EPOCH:
            pass  # unknown producer: retention may have deleted its records, so that any sequence number is accepted
        elif header.producer_epoch != entry.epoch:
            if header.base_sequence != 0:
                self._refuse_sequence(header, f"but the first batch of epoch {header.producer_epoch} starts at 0")
        else:
            expected = increment_sequence(entry.last_sequence, 1)
            if header.base_sequence != expected:
                self._refuse_sequence(header, f"but {expected} is next")

    def _check_epoch(self, entry: ProducerEntry, header: BatchHeader) -> None:
        if header.producer_epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"{self._partition}: producer {header.producer_id} has epoch {entry.epoch}, "
                f"but the batch has {header.producer_epoch}",
            )

    def _refuse_sequence(self, header: BatchHeader, expected: str) -> None:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"{self._partition}: producer {header.producer_id} sent sequence number {header.base_sequence}, {expected}",
        )

    def _after_marker(
        self,
        entry: ProducerEntry,
        batch: AppendedBatch,
        *,
        now_ms: int,
        conditions: AppendConditions | None,
    ) -> ProducerChange:
        marker, header = batch.marker, batch.header
        if marker is None:
            return ProducerChange(entry)  # compaction has dropped the marker and the records of its transaction
        if conditions is not None:
            self._check_epoch(entry, header)
            is_open = entry.transaction_first_offset is not None
            if is_open and conditions.bumps_epochs and header.producer_epoch == entry.epoch:
                raise KafkaError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"{self._partition}: a marker that raises the epoch of producer {header.producer_id} has its "
                    f"present one, {entry.epoch}",
                )
            if marker.coordinator_epoch < entry.coordinator_epoch:
                raise KafkaError(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    f"{self._partition}: a marker of coordinator epoch {marker.coordinator_epoch}, "
                    f"after one of {entry.coordinator_epoch}",
                )
        first_offset = entry.transaction_first_offset
        aborted = None
        if marker.is_abort and first_offset is not None:
            stable = self._stable_without(entry.producer_id, default=batch.last_offset + 1)
            aborted = AbortedTransaction(entry.producer_id, first_offset, batch.last_offset, stable)
        after = replace(
            entry,
            epoch=header.producer_epoch,
            batches=entry.batches if header.producer_epoch == entry.epoch else (),
            coordinator_epoch=marker.coordinator_epoch,
            transaction_first_offset=None,
            seen_ms=now_ms,
        )
        return ProducerChange(after, aborted)

    def _stable_without(self, producer_id: int, *, default: int) -> int:
        """The last stable offset after the transaction of ``producer_id`` has ended."""
        return min((first for other, first in self._open.items() if other != producer_id), default=default)


def _after_data(entry: ProducerEntry, batch: AppendedBatch, now_ms: int) -> ProducerEntry:
    header = batch.header
    appended = BatchMetadata(header.last_sequence, batch.last_offset, header.last_offset_delta, batch.max_timestamp)
    kept = entry.batches[-(BATCHES_KEPT - 1) :] if header.producer_epoch == entry.epoch else ()
    first_offset = entry.transaction_first_offset
    if first_offset is None and header.is_transactional:
        first_offset = batch.base_offset
    return ProducerEntry(  # not dataclasses.replace, which is slower: this runs for every batch
        producer_id=entry.producer_id,
        epoch=header.producer_epoch,
        batches=(*kept, appended),
        coordinator_epoch=entry.coordinator_epoch,
        transaction_first_offset=first_offset,
        seen_ms=now_ms,
    )
