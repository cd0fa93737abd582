"""What the protocol asks of Kafka. Each effect says what it is answered; an error is thrown in as a KafkaError.

Whoever runs effects tries again what may pass (a broker that starts, CONCURRENT_TRANSACTIONS, a lost reply) until its
deadline, and throws the last error in after it. A request that was sent and not answered may have been carried out, or
may still be: no step takes such an error for a no.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.records.batch import ProducerIdAndEpoch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InitProducer:
    """InitProducerId -> ProducerIdAndEpoch. Aborts what is open under the id, and fences who had it.

    ``claimed``: go on from this producer and fence it; refused with PRODUCER_FENCED if another one has come (KIP-360).
    ``once``: never sent again when an answer is lost, because a late copy would abort the transaction that follows.
    """

    transactional_id: str
    timeout_ms: int
    claimed: ProducerIdAndEpoch | None = None
    once: bool = False


@dataclass(frozen=True, slots=True)
class WriteRows:
    """The rows of a task in a transaction of this producer, flushed and left open -> tuple of Written."""

    transactional_id: str
    producer: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class Written:
    """What a transaction has in one partition: between these offsets, among what others have there."""

    partition: TopicPartition
    from_offset: int
    until_offset: int

    def __str__(self) -> str:
        return f"{self.partition} offsets {self.from_offset} to {self.until_offset - 1}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the topic of decisions."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Append:
    """Open a transaction of this producer and write entries in it -> None, once all in-sync replicas have them.

    Sequence numbers of a producer begin at 0 in each process, and go on within it.
    """

    topic: str
    transactional_id: str
    producer: ProducerIdAndEpoch
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class End:
    """One transaction to end."""

    transactional_id: str
    producer: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class EndTransactions:
    """EndTxn for each -> tuple of ProducerIdAndEpoch | KafkaError in the same order.

    The transactional id's producer from then on: the transaction has ended as requested, now or before. Errors are
    returned, not raised, so that no transaction waits for another.
    """

    ends: tuple[End, ...]
    commit: bool


@dataclass(frozen=True, slots=True)
class ReadDecisions:
    """The topic of decisions, read_committed -> Log.

    Up to where the log ends when the reading begins, however long a transaction there stays undecided: what lies behind
    the last stable offset is waited for. A topic that does not exist is made.
    """

    topic: str
    at_most: int | None
    """Only the last so many offsets; None: from the beginning."""


@dataclass(frozen=True, slots=True)
class Log:
    """What was read of the topic of decisions, in order."""

    entries: tuple[Entry, ...]
    whole: bool
    """Whether it begins where the log does."""


@dataclass(frozen=True, slots=True)
class ListOpen:
    """ListTransactions, ongoing ones, on every broker -> tuple of transactional ids. Others may be among them."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Describe:
    """DescribeTransactions -> tuple of Described | None in the same order; None: the coordinator knows no such id."""

    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Described:
    """What a coordinator knows of a transactional id."""

    state: str
    """Kafka's name: Ongoing, PrepareCommit, CompleteAbort, ..."""
    producer: ProducerIdAndEpoch
    started_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class AbortOpen:
    """InitProducerId on each -> tuple of KafkaError | None. What is open is aborted, and its writer fenced.

    CONCURRENT_TRANSACTIONS says that this has begun: it is an answer, and no error here.
    """

    transactional_ids: tuple[str, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Now:
    """The time -> milliseconds since the epoch."""


Effect: TypeAlias = (
    InitProducer | WriteRows | Append | EndTransactions | ReadDecisions | ListOpen | Describe | AbortOpen | Now
)
Answer: TypeAlias = Any
"""What each effect says that it is answered."""
Steps: TypeAlias = Generator[Effect, Answer, T]
Ended: TypeAlias = ProducerIdAndEpoch | KafkaError
