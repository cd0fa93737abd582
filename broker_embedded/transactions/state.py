"""A transactional id: which producer has it, and what its transaction is at.

    Empty ──AddPartitions──▶ Ongoing ──EndTxn──▶ PrepareCommit ──markers written──▶ CompleteCommit
      ▲                        ▲  │                                                       │
      │                        │  └──EndTxn, timeout, fencing──▶ PrepareAbort ──▶ CompleteAbort
      └──InitProducerId────────┴────────────────── AddPartitions ◀────────────────────────┘

A transaction is decided once its Prepare record is in the log. What follows, markers in every partition and the
Complete record, is done again after a crash until it is done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spark_kafka_native.protocol.topic import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
LAST_EPOCH: Final = 32_766
"""The last epoch that a producer gets: one more has to be left to fence it with."""
FENCING_EPOCH: Final = 32_767
"""The one more. No producer ever has it."""
NEVER_MS: Final = 0x7FFF_FFFF
"""The timeout of a transaction that is never aborted for its age: Kafka's for those of two-phase commit (KIP-939)."""


class TransactionState(IntEnum):
    """States by their numbers in the log; two of Kafka's eight are never written."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        """Kafka's name of it."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and not everybody knows it yet."""
        return self in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}

    @property
    def is_decided(self) -> bool:
        """Whether there is an outcome: of what is still to be completed, or of the last transaction."""
        return self not in {TransactionState.EMPTY, TransactionState.ONGOING}

    @property
    def is_commit(self) -> bool:
        """Whether the outcome is decided, and the transaction counts."""
        return self in {TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT}


_LABELS: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
}


class TransactionVersion(IntEnum):
    """Levels of the feature ``transaction.version``, which say how producers and brokers deal with each other."""

    TV_0 = 0
    TV_1 = 1
    """Records of the coordinator are flexible."""
    TV_2 = 2
    """Every transaction has an epoch of its own, and partitions join by being written to (KIP-890)."""

    @property
    def bumps_epochs(self) -> bool:
        """Whether EndTxn raises the epoch."""
        return self >= TransactionVersion.TV_2


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """A producer id with its epoch, as clients name themselves and are named."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What is known of a transactional id. A decision makes a new one, which counts once its record is in the log."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    updated_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The id that follows when this transaction is over, where the epochs of the present one are used up."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before the present one, if its producer may go on with the present one. Not in the log."""
    client_version: TransactionVersion = TransactionVersion.TV_0
    """How the client that began or ended the last transaction deals with us; of an ended one TV_0 or TV_2."""

    @property
    def producer(self) -> Producer:
        """Who has the id; in whose name the markers of a decided transaction are written."""
        return Producer(producer_id=self.producer_id, epoch=self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer has had its last epoch."""
        return self.producer_epoch >= LAST_EPOCH

    def by_topic(self) -> Mapping[str, Sequence[int]]:
        """The numbers of its partitions, in order."""
        topics: dict[str, list[int]] = {}
        for partition in sorted(self.partitions):
            topics.setdefault(partition.topic, []).append(partition.partition)
        return topics

    def times_out(self, age_ms: int) -> bool:
        """Whether a transaction that began ``age_ms`` ago is to be aborted because of its timeout."""
        limited = self.state is TransactionState.ONGOING and self.timeout_ms != NEVER_MS
        return limited and age_ms > self.timeout_ms

    def expires(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the id is to be forgotten: it has been idle for too long."""
        idle = self.state is not TransactionState.ONGOING and not self.state.is_prepared
        return idle and now_ms - self.updated_ms >= expiration_ms
