"""The batch to append to a log, the conditions of an append, and its errors."""

from array import array
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple, NoReturn

from broker_embedded._config.log_config import LogConfig
from broker_embedded._platform.cancellation import NEVER_CANCELLED, Cancellation
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._records.batch import LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, CompressionType


class AppendOrigin(Enum):
    """The source of an append.

    Batches of a CLIENT are validated fully. A COORDINATOR of this broker may write markers, and records of a producer
    without sequence numbers: offsets that are committed in a transaction.
    """

    CLIENT = "client"
    COORDINATOR = "coordinator"


class AppendConditions(NamedTuple):
    """The conditions of an append.

    ``verified``: the coordinator has added the partition to the transaction of the batches, and no marker is written
    before the append is done. Otherwise the batches must continue a transaction that is open in the log.
    ``bumps_epochs``: every transaction of the producer has its own epoch (KIP-890), which its marker bumps.
    """

    origin: AppendOrigin = AppendOrigin.CLIENT
    verified: bool = False
    bumps_epochs: bool = False


FROM_CLIENT: Final = AppendConditions()
"""An append of a client that was not verified by the coordinator."""


_NO_MESSAGES: Final = array("q")


class ValidatedBatch(NamedTuple):
    """A batch that passed the checks, as it will be stored: the bytes of the request, or converted ones.

    ``records`` is writable. ``messages`` are the positions of messages of an old format: of a wrapper, or of several
    messages that share one header. The header's ``last_offset_delta`` counts all records, those in a wrapper too.
    """

    records: memoryview
    header: BatchHeader
    messages: "array[int]" = _NO_MESSAGES

    @property
    def holds_absolute_offsets(self) -> bool:
        """Whether it is a compressed message of format v0, inside which offsets are absolute and cannot be changed."""
        return self.header.magic == 0 and self.header.compression is not CompressionType.NONE


class AppendContext(NamedTuple):
    """One append: its topic's config, its partition, its time, first offset, conditions and cancellation."""

    config: LogConfig
    partition: str
    origin: AppendOrigin
    now_ms: int
    base_offset: int
    cancellation: Cancellation = NEVER_CANCELLED


class RecordError(NamedTuple):
    """The error of one record, by its index within the request's batch (KIP-467)."""

    batch_index: int
    message: str


class InvalidRecords(KafkaError):
    """A batch is refused because of single records. ``record_errors`` has the first of their errors (KIP-467)."""

    def __init__(self, code: ErrorCode, detail: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(code, detail)
        self.args = (code, detail, record_errors)
        self.record_errors = tuple(record_errors)


def as_one_batch(
    records: memoryview, first: BatchHeader, positions: Iterable[int], *, count: int, largest: int
) -> ValidatedBatch:
    """Messages of an old format at ``positions`` of ``records``, as one batch with one header.

    They contain ``count`` records, whose largest timestamp is ``largest``. ``first`` is the first message's header.
    """
    header = first._replace(
        batch_length=len(records) - LOG_OVERHEAD,
        last_offset_delta=count - 1,
        max_timestamp=largest if first.magic else NO_TIMESTAMP,
        records_count=count,
    )
    return ValidatedBatch(records, header, array("q", positions))


def refuse(code: ErrorCode, partition: str, why: str) -> NoReturn:
    """Raise the KafkaError."""
    raise KafkaError(code, f"{partition}: {why}")
