"""The batches of one partition on their way to its leader: order, sequence numbers and retries.

    waiting --take--> in flight --acknowledge--> done
       ^                  |
       +----- fail -------+   once no batch of the partition is in flight

After a batch failed, no other batch of the partition is sent until every batch in flight has a response or is given up.
Then the failed batches are sent first, unchanged and with their sequence numbers, so that a broker which has one of
them answers DUPLICATE_SEQUENCE_NUMBER (KIP-98). Without idempotence only one batch is in flight. With it, the first
batch of a producer or epoch is sent alone: a broker that does not know the producer accepts any sequence number from it
(KIP-360), so the second batch could be written although the first was refused.

A broker accepts a batch only if it has all batches before it. So an acknowledged batch proves that an earlier batch
whose response was lost is written, too, if the broker answers OUT_OF_ORDER_SEQUENCE_NUMBER to it: a broker recognises
the last five batches of a producer as duplicates, after a restart only the last one. That error alone does not prove a
gap: before a new epoch begins, every batch that may be written is sent once more, and the epoch begins only if the
broker knows none of them. Nothing is concluded from the acknowledgements of a broker that never answers
OUT_OF_ORDER_SEQUENCE_NUMBER, because it may not check sequence numbers.

A batch that is too large for the broker is replaced by smaller ones, which share its sequence numbers and are sent
without a pause. So is each later batch that is not smaller than a refused one, before it is sent. The new batches have
half of the refused size, so that a limit far below the size of batches is found with few refused batches.

Pure: no socket and no clock; times are seconds that the caller passes in.
"""

import dataclasses
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from spark_kafka_native._client.retry import Backoff
from spark_kafka_native._protocol.errors import ErrorCode, counted
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.encode import EncodedBatch
from spark_kafka_native._records.batch import RECORD_BATCH_OVERHEAD, increment_sequence

MAX_EPOCH: Final = 2**15 - 1
_UNLIMITED: Final = 2**31 - 1
_DONE: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class OutgoingBatch:
    """One encoded batch and what became of it so far."""

    encoded: EncodedBatch
    expires_at: float
    """When it must have been acknowledged."""
    order: tuple[int, ...] = ()
    """Its place among the partition's batches."""
    first_record: int = 0
    """The number of its first record among the partition's records."""
    base_sequence: int | None = None
    tries: int = 0
    last_error: str = ""
    may_be_written: bool = False
    """Whether an earlier try ended without a response."""
    out_of_order: bool = False
    """Whether the broker's last response was that its sequence number is not the next."""
    passed_over: bool = False
    """Whether a later batch was taken although this one was surely not written."""
    whole_may_be_written: bool = False
    """Whether it is a piece of a batch that may be written: then the broker does not recognise it as a duplicate."""

    @property
    def records_count(self) -> int:
        """Rows in the batch."""
        return self.encoded.records_count

    @property
    def size_in_bytes(self) -> int:
        """Bytes on the wire."""
        return len(self.encoded.buffer)


class BatchOutcome(Enum):
    """What a response means for a batch."""

    DONE = auto()
    RETRY = auto()
    SPLIT = auto()
    """Too large for the broker: send its records in several batches (see ``PartitionQueue.pieces_of``)."""
    FATAL = auto()


class PartitionQueue:
    """One partition's batches in order."""

    def __init__(
        self,
        partition: TopicPartition,
        *,
        idempotent: bool,
        max_in_flight: int,
        backoff: Backoff,
        transactional: bool = False,
    ) -> None:
        """``transactional``: the epoch is the transaction's; a batch that needs another epoch fails."""
        self.partition = partition
        self.identity: ProducerIdAndEpoch | None = None
        """Set by ``continue_at`` before ``take``, and again whenever it is None; stays None without idempotence."""
        self.used_up_producer_id: int | None = None
        """The producer id of which the partition has used the last epoch, if any: the next one must be another."""
        self.is_abandoned = False
        """Whether its batches were dropped: responses to them mean nothing."""
        self.in_flight: deque[OutgoingBatch] = deque()
        self.too_large_bytes = _UNLIMITED
        """The size of the smallest batch that was too large for the broker."""
        self._idempotent = idempotent
        self._transactional = transactional
        self._max_in_flight = max_in_flight
        self._backoff = backoff
        self._waiting: deque[OutgoingBatch] = deque()
        self._failed: list[OutgoingBatch] = []
        self._not_before = 0.0
        self._node_id = -1
        self._is_known = False
        self._next_order = 0
        self._next_record = 0
        self._next_sequence = 0
        self._acknowledged: tuple[int, ...] = ()
        self._new_epoch_wanted = False
        self._epochs_since_progress = 0

    def __len__(self) -> int:
        """Batches that are not acknowledged."""
        return len(self._waiting) + len(self._failed) + len(self.in_flight)

    def add(self, batch: OutgoingBatch) -> None:
        """Append a batch."""
        batch.order = (self._next_order,)
        self._next_order += 1
        batch.first_record = self._next_record
        self._next_record += batch.records_count
        self._waiting.append(batch)

    def is_ready(self, now: float) -> bool:
        """Whether ``take`` may be called, if ``may_go_to`` agrees."""
        return (
            bool(self._waiting)
            and (not self._failed or self._must_resend())
            and now >= self._not_before
            and len(self.in_flight) < (self._max_in_flight if self._is_known else 1)
        )

    def may_go_to(self, node_id: int) -> bool:
        """False while batches are in flight to another broker, because two connections keep no order."""
        return not self.in_flight or self._node_id == node_id

    @property
    def next_size(self) -> int:
        """Bytes of the batch that ``take`` would return."""
        return self._waiting[0].size_in_bytes

    @property
    def next_too_large(self) -> OutgoingBatch | None:
        """The batch that ``take`` would return, if it has to be replaced by smaller ones before."""
        batch = self._waiting[0]
        must_stay = batch.records_count == 1 or batch.may_be_written
        return None if must_stay or batch.size_in_bytes < self.too_large_bytes else batch

    def pieces_of(self, batch: OutgoingBatch) -> int:
        """How many batches to make of one that is too large: at least two, of about half of the refused size."""
        size, refused = (each - RECORD_BATCH_OVERHEAD for each in (batch.size_in_bytes, self.too_large_bytes))
        return round(2 * size / refused)

    def wakes_at(self) -> float | None:
        """The end of the queue's pause; None if it waits for responses, or for batches."""
        return self._not_before if self._waiting and (not self._failed or self._must_resend()) else None

    def expires_at(self) -> float:
        """The earliest time at which one of its batches must have been acknowledged; the queue is not empty."""
        return min(batches[0].expires_at for batches in (self.in_flight, self._failed, self._waiting) if batches)

    @property
    def attempts(self) -> int:
        """How often the first unacknowledged batch was sent; the queue is not empty."""
        return self._first.tries

    def describe_attempts(self) -> str:
        """How often the first unacknowledged batch was sent, and its last error, if there was one."""
        last = self.last_error and f", last error: {self.last_error}"
        return (
            f"after {counted(self.attempts, 'attempt')}{last}" if self.attempts else f"before the first attempt{last}"
        )

    @property
    def last_error(self) -> str:
        """Of the first unacknowledged batch: the errors of the batches after it may only be that it is missing."""
        return self._first.last_error if len(self) else ""

    @last_error.setter
    def last_error(self, reason: str) -> None:
        self._first.last_error = reason

    @property
    def _first(self) -> OutgoingBatch:
        heads = (batches[0] for batches in (self.in_flight, self._failed, self._waiting) if batches)
        return min(heads, key=lambda batch: batch.order)

    @property
    def next_sequence(self) -> int:
        """The sequence number of the first record of the next new batch."""
        return self._next_sequence

    def continue_at(self, identity: ProducerIdAndEpoch, next_sequence: int) -> None:
        """Send what has no sequence number yet with this identity, from this number on."""
        self.identity = identity
        self._next_sequence = next_sequence

    def take(self, node_id: int) -> OutgoingBatch:
        """The next batch to send to ``node_id``, stamped with identity and sequence; it counts as in flight."""
        self._node_id = node_id
        batch = self._waiting.popleft()
        if self._idempotent and batch.base_sequence is None:
            self._next_sequence = self._stamp(batch, self._next_sequence)
        batch.tries += 1
        self.in_flight.append(batch)
        return batch

    def postpone(self, now: float, reason: str) -> None:
        """Pause, because nothing can be sent now. An empty ``reason`` keeps the last one."""
        self.last_error = reason or self.last_error
        self._not_before = now + self._backoff.next_ms() / 1000

    def outcome_of(self, batch: OutgoingBatch, code: ErrorCode, *, log_start_offset: int = -1) -> BatchOutcome:
        """What a response with ``code`` means for a batch in flight, which stays there.

        OUT_OF_ORDER_SEQUENCE_NUMBER for the batch that comes right after the last acknowledged one is the broker's loss
        (see the module's docstring); for a batch whose predecessors failed too it is to be expected.
        UNKNOWN_PRODUCER_ID is answered by brokers before 2.5 when retention removed all that they had of the producer:
        unless an earlier try of the batch may have been written, it goes out again in a new epoch too.
        """
        batch.out_of_order = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if code in _DONE:
            return BatchOutcome.DONE
        if code is ErrorCode.MESSAGE_TOO_LARGE and batch.records_count > 1:
            self.too_large_bytes = min(self.too_large_bytes, batch.size_in_bytes)
            return BatchOutcome.SPLIT
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._idempotent:
            if batch.order < self._acknowledged:
                return BatchOutcome.FATAL if batch.passed_over else BatchOutcome.DONE
            if not self._follows_acknowledged(batch):
                return BatchOutcome.RETRY
            return BatchOutcome.FATAL if batch.whole_may_be_written else self._want_new_epoch()
        if code is ErrorCode.UNKNOWN_PRODUCER_ID and self._idempotent:
            if log_start_offset == -1 or not self._follows_acknowledged(batch):
                return BatchOutcome.RETRY
            may_be_written = batch.may_be_written or batch.whole_may_be_written
            return BatchOutcome.FATAL if may_be_written else self._want_new_epoch()
        self._new_epoch_wanted = False  # nothing was said about sequence numbers
        return BatchOutcome.RETRY if code.retriable else BatchOutcome.FATAL

    def acknowledge(self, batch: OutgoingBatch, now: float) -> list[OutgoingBatch]:
        """Remove an acknowledged batch; all batches that are now known to be written, this one first."""
        self.in_flight.remove(batch)
        earlier = [failed for failed in self._failed if failed.order < batch.order]
        for failed in earlier:
            failed.passed_over |= not failed.may_be_written
        proven = [failed for failed in earlier if failed.out_of_order and not failed.passed_over]
        self._failed = [failed for failed in self._failed if failed not in proven]
        self._acknowledged = max(self._acknowledged, batch.order)
        self._backoff.reset()
        self._is_known = True
        self._new_epoch_wanted = False
        self._epochs_since_progress = 0
        self._regroup(now)
        return [batch, *proven]

    def fail(self, batch: OutgoingBatch, now: float, reason: str, *, answered: bool) -> None:
        """The batch is to be sent again. ``answered``: the broker responded that it did not write it."""
        self.in_flight.remove(batch)
        batch.last_error = reason
        if not answered:
            batch.may_be_written = True
            batch.out_of_order = self._new_epoch_wanted = False
        self._failed.append(batch)
        self._regroup(now)

    def replace(self, batch: OutgoingBatch, pieces: Sequence[EncodedBatch], now: float) -> None:
        """Send ``pieces`` instead of a batch in flight, or of the next one: its records in order.

        If the batch has sequence numbers, the pieces share them.
        """
        smaller = [
            dataclasses.replace(
                batch,
                encoded=piece,
                order=(*batch.order, number),
                tries=0,
                may_be_written=False,
                whole_may_be_written=batch.may_be_written or batch.whole_may_be_written,
            )
            for number, piece in enumerate(pieces)
        ]
        first_record = batch.first_record
        for piece in smaller:
            piece.first_record, first_record = first_record, first_record + piece.records_count
        if (sequence := batch.base_sequence) is not None:
            for piece in smaller:
                sequence = self._stamp(piece, sequence)
        if batch in self.in_flight:
            self.in_flight.remove(batch)
            self._failed += smaller
            self._regroup(now)
        else:
            self._waiting.popleft()
            self._waiting.extendleft(reversed(smaller))

    def abandon(self) -> tuple[int, int]:
        """Drop all batches, of which those in flight may still be written. Returns their records and bytes."""
        dropped = [*self.in_flight, *self._failed, *self._waiting]
        self.is_abandoned = True
        self.in_flight.clear()
        self._failed.clear()
        self._waiting.clear()
        return sum(batch.records_count for batch in dropped), sum(batch.size_in_bytes for batch in dropped)

    def successor(self) -> "PartitionQueue":
        """An empty queue of the partition after ``abandon``.

        It begins a new epoch, in which the broker expects sequence number 0, whichever dropped batches it has. The
        broker refuses those that it receives later.
        """
        queue = PartitionQueue(
            self.partition,
            idempotent=self._idempotent,
            max_in_flight=self._max_in_flight,
            backoff=self._backoff,
            transactional=self._transactional,
        )
        queue.identity, queue.used_up_producer_id = self.identity, self.used_up_producer_id
        if queue.identity is not None:
            queue._start_epoch()  # of the same class
            queue._epochs_since_progress = 0
        return queue

    def _stamp(self, batch: OutgoingBatch, base_sequence: int) -> int:
        """Write identity and sequence number into a batch -> the sequence number after its records."""
        assert self.identity is not None
        batch.base_sequence = base_sequence
        batch.encoded.stamp(
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=base_sequence,
            transactional=self._transactional,
        )
        return increment_sequence(base_sequence, batch.records_count)

    def _follows_acknowledged(self, batch: OutgoingBatch) -> bool:
        return not self._failed and self.in_flight[0] is batch

    def _want_new_epoch(self) -> BatchOutcome:
        """A second epoch without progress in between would be refused, too, and so on for ever."""
        if self._epochs_since_progress or self._transactional:
            return BatchOutcome.FATAL
        self._new_epoch_wanted = True
        return BatchOutcome.RETRY

    def _must_resend(self) -> bool:
        """Whether a gap was reported and the next batch to send may be written."""
        return self._new_epoch_wanted and bool(self._waiting) and self._waiting[0].may_be_written

    def _regroup(self, now: float) -> None:
        """Once nothing is in flight, put failed batches back in front. Failures come in the order of sending."""
        if self.in_flight or not self._failed or self._must_resend():
            return
        self._waiting.extendleft(reversed(self._failed))
        self._failed.clear()
        if self._waiting[0].tries:  # else it is a piece of a batch that was too large
            self._not_before = now + self._backoff.next_ms() / 1000
        if self._new_epoch_wanted:
            self._start_epoch()

    def _start_epoch(self) -> None:
        """Number the waiting batches from 0 under the next epoch, or under a new producer id after the last."""
        assert self.identity is not None
        self._new_epoch_wanted = False
        self._is_known = False
        self._epochs_since_progress += 1
        producer_id, epoch = self.identity.producer_id, self.identity.epoch
        if epoch >= MAX_EPOCH:
            self.identity, self.used_up_producer_id = None, producer_id
        else:
            self.identity = ProducerIdAndEpoch(producer_id, epoch + 1)
        self._next_sequence = 0
        for batch in self._waiting:
            batch.base_sequence = None
