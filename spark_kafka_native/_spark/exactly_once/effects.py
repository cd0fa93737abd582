"""The requests of the protocol to Kafka, each with its result after ``->``. An error is thrown in as a KafkaError.

The runner retries retriable errors (a broker that starts, CONCURRENT_TRANSACTIONS, a lost response) until its deadline,
and then throws the last error in. A request without a response may have been executed, or may still be: no step
concludes from such an error that it was not.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InitProducer:
    """InitProducerId -> ProducerIdAndEpoch. Aborts the id's open transaction, and fences its producer.

    ``claimed``: continue from this producer and fence it; PRODUCER_FENCED if there is a newer one (KIP-360).
    ``once``: no retry if the response is lost, because a late duplicate would abort the next transaction.
    """

    transactional_id: str
    timeout_ms: int
    claimed: ProducerIdAndEpoch | None = None
    once: bool = False


@dataclass(frozen=True, slots=True)
class WriteRows:
    """The rows of a task in a transaction of this producer, flushed and left open -> tuple of WrittenRange."""

    transactional_id: str
    producer: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """Offsets between which a transaction has records in one partition; other producers' records may be among them."""

    partition: TopicPartition
    from_offset: int
    until_offset: int

    def __str__(self) -> str:
        return f"{self.partition} offsets {self.from_offset} to {self.until_offset - 1}"


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A record of the topic of decisions."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Append:
    """Open a transaction of this producer and write records in it -> None, once all in-sync replicas have them.

    Sequence numbers of a producer begin at 0 in each process, and continue within it.
    """

    topic: str
    transactional_id: str
    producer: ProducerIdAndEpoch
    records: tuple[DecisionRecord, ...]


@dataclass(frozen=True, slots=True)
class End:
    """One transaction to end."""

    transactional_id: str
    producer: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class EndTransactions:
    """EndTxn for each -> tuple of ProducerIdAndEpoch | KafkaError in the same order.

    ProducerIdAndEpoch is the id's next producer: the transaction has ended as requested, now or before. Errors are
    returned, not raised, so that one transaction does not delay another.
    """

    ends: tuple[End, ...]
    commit: bool


@dataclass(frozen=True, slots=True)
class ReadDecisions:
    """The topic of decisions, read_committed -> DecisionLog.

    Reads to the log end offset at the start of the read. Waits while an open transaction keeps the last stable offset
    below it. Creates the topic if it does not exist.
    """

    topic: str
    at_most: int | None
    """Number of last offsets to read; None: from the beginning."""


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """The records that were read from the topic of decisions, in order."""

    records: tuple[DecisionRecord, ...]
    whole: bool
    """Whether ``records`` begin at the start of the log."""


@dataclass(frozen=True, slots=True)
class ListOpen:
    """ListTransactions (ongoing) on every broker -> tuple of transactional ids, maybe some with another prefix."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Describe:
    """DescribeTransactions -> tuple of Described | None in the same order; None: the coordinator knows no such id."""

    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Described:
    """The coordinator's state of a transactional id."""

    state: str
    """Kafka's name: Ongoing, PrepareCommit, CompleteAbort, ..."""
    producer: ProducerIdAndEpoch
    started_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class AbortOpen:
    """InitProducerId for each -> tuple of KafkaError | None. Aborts the open transaction and fences its producer.

    CONCURRENT_TRANSACTIONS means that the abort has begun. It is no error here.
    """

    transactional_ids: tuple[str, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Now:
    """The time -> milliseconds since the epoch."""


Effect: TypeAlias = (
    InitProducer | WriteRows | Append | EndTransactions | ReadDecisions | ListOpen | Describe | AbortOpen | Now
)
Result: TypeAlias = Any
"""The result that the effect's docstring names."""
Steps: TypeAlias = Generator[Effect, Result, T]
Ended: TypeAlias = ProducerIdAndEpoch | KafkaError
