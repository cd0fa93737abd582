"""What is handed in to be appended to a log, and how it is refused."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, NoReturn

from broker_embedded.config.log_config import LogConfig
from broker_embedded.platform.cancellation import NEVER_CANCELLED, Cancellation
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.records.batch import LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, CompressionType


class AppendOrigin(Enum):
    """Who hands in batches.

    A CLIENT is checked for everything. A COORDINATOR of this broker may write markers, and records of a producer
    without sequence numbers: offsets that are part of a transaction.
    """

    CLIENT = "client"
    COORDINATOR = "coordinator"


class Terms(NamedTuple):
    """What an append goes by, beside its batches.

    ``verified``: the coordinator has the partition in the transaction that the batches are part of, and nothing ends
    that before the append is over. Without it they must go on with one that the log knows to be open.
    ``bumps_epochs``: every transaction of the producer has an epoch of its own (KIP-890), which its marker raises.
    """

    origin: AppendOrigin = AppendOrigin.CLIENT
    verified: bool = False
    bumps_epochs: bool = False


FROM_CLIENT: Final = Terms()
"""An append of a client that nobody vouches for."""


@dataclass(frozen=True, slots=True)
class IncomingBatch:
    """A batch that passed the checks, at a position of the buffer it is in.

    ``messages`` are the positions of messages of an old format: of a wrapper, or of several that stand together under
    one header. Their header's ``last_offset_delta`` counts all records, those in a wrapper too.
    """

    position: int
    header: BatchHeader
    messages: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def holds_absolute_offsets(self) -> bool:
        """Whether offsets of the log are inside a compressed message (format v0), where they cannot be changed."""
        return self.header.magic == 0 and self.header.compression is not CompressionType.NONE

    def moved(self, distance: int) -> "IncomingBatch":
        """The same batch so many bytes further on."""
        messages = array("q", (at + distance for at in self.messages))
        return IncomingBatch(self.position + distance, self.header, messages)


class Validated(NamedTuple):
    """Batches to be stored, and the writable bytes that they are in: those handed in, or others made from them."""

    records: memoryview
    batches: list[IncomingBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """One append: what goes for its topic, whose it is, when and where it is, and whether it is still wanted."""

    config: LogConfig
    partition: str
    origin: AppendOrigin
    now_ms: int
    base_offset: int
    cancellation: Cancellation = NEVER_CANCELLED


class RecordError(NamedTuple):
    """What is wrong with one record, counted from 0 within the request's batch (KIP-467)."""

    batch_index: int
    message: str


class InvalidRecords(KafkaError):
    """A batch is refused because of single records. ``record_errors`` has the first of their errors (KIP-467)."""

    def __init__(self, code: ErrorCode, detail: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(code, detail)
        self.args = (code, detail, record_errors)
        self.record_errors = tuple(record_errors)


def as_one_batch(first: BatchHeader, positions: Iterable[int], size: int, count: int, largest: int) -> IncomingBatch:
    """Messages of an old format at ``positions``, ``size`` bytes in all, under one header.

    They hold ``count`` records, whose largest timestamp is ``largest``.
    """
    header = first._replace(
        batch_length=size - LOG_OVERHEAD,
        last_offset_delta=count - 1,
        max_timestamp=largest if first.magic else NO_TIMESTAMP,
        records_count=count,
    )
    messages = array("q", positions)
    return IncomingBatch(messages[0], header, messages)


def refuse(code: ErrorCode, partition: str, why: str) -> NoReturn:
    """Raise the KafkaError."""
    raise KafkaError(code, f"{partition}: {why}")
