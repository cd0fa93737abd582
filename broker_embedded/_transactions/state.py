"""The state of a transactional id: its producer and its transaction.

    Empty ──AddPartitions──▶ Ongoing ──EndTxn──▶ PrepareCommit ──markers written──▶ CompleteCommit
      ▲                        ▲  │                                                       │
      │                        │  └──EndTxn, timeout, fencing──▶ PrepareAbort ──▶ CompleteAbort
      └──InitProducerId────────┴────────────────── AddPartitions ◀────────────────────────┘

A transaction is decided once its Prepare record is in the log. The markers and the Complete record are written again
after a crash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spark_kafka_native._protocol.producer_id import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition

LAST_EPOCH: Final = 32_766
"""The last epoch that a producer gets, because one more is reserved to fence it."""
FENCING_EPOCH: Final = 32_767
"""The reserved epoch. No producer ever has it."""
NEVER_MS: Final = 0x7FFF_FFFF
"""The timeout of a transaction that never times out: Kafka's for two-phase commit (KIP-939)."""


class TransactionState(IntEnum):
    """States with their numbers in the log. Two of Kafka's eight are never written."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        """Kafka's name of the state."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the transaction is decided and not complete."""
        return self in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}

    @property
    def is_decided(self) -> bool:
        """Whether the transaction is decided or complete."""
        return self not in {TransactionState.EMPTY, TransactionState.ONGOING}

    @property
    def is_commit(self) -> bool:
        """Whether the transaction is decided or complete, and committed."""
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
    """Levels of the feature ``transaction.version``, the protocol between producers and brokers."""

    TV_0 = 0
    TV_1 = 1
    """Records of the coordinator are flexible."""
    TV_2 = 2
    """Every transaction has its own epoch, and Produce adds partitions (KIP-890)."""

    @property
    def bumps_epochs(self) -> bool:
        """Whether EndTxn bumps the epoch."""
        return self >= TransactionVersion.TV_2


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional id and its transaction.

    A decision creates a new value, which is in effect once its record is written.
    """

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
    """The producer id after this transaction, if the epochs of the present one are exhausted."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before the present one, if its producer may continue with the present one. Not in the log."""
    client_version: TransactionVersion = TransactionVersion.TV_0
    """The client's version in the last transaction; of a complete one TV_0 or TV_2."""

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer of the id, which is also that of the markers."""
        return ProducerIdAndEpoch(producer_id=self.producer_id, epoch=self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer has its last epoch."""
        return self.producer_epoch >= LAST_EPOCH

    def by_topic(self) -> Mapping[str, Sequence[int]]:
        """The partition numbers by topic, sorted."""
        topics: dict[str, list[int]] = {}
        for partition in sorted(self.partitions):
            topics.setdefault(partition.topic, []).append(partition.partition)
        return topics

    def times_out(self, age_ms: int) -> bool:
        """Whether a transaction that began ``age_ms`` ago has timed out."""
        limited = self.state is TransactionState.ONGOING and self.timeout_ms != NEVER_MS
        return limited and age_ms > self.timeout_ms

    def expires(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the id has expired: it was idle for ``expiration_ms``."""
        idle = self.state is not TransactionState.ONGOING and not self.state.is_prepared
        return idle and now_ms - self.updated_ms >= expiration_ms
