"""A partition's records in a Fetch response, as rows or as another form."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, Self, TypeVar

from spark_kafka_native._client.cluster.metadata import NO_EPOCH
from spark_kafka_native._client.consumer.broker_source import BrokerSource
from spark_kafka_native._client.consumer.cursor import Cursor
from spark_kafka_native._net.blocking import DEFAULT_MAX_FRAME_BYTES
from spark_kafka_native._protocol.messages.fetch import PartitionData
from spark_kafka_native._records.arrow.aborted import AbortedTransaction
from spark_kafka_native._records.arrow.batches import Batches
from spark_kafka_native._records.batch import LOG_OVERHEAD
from spark_kafka_native._records.errors import CorruptBatch, UnreadableBatch

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Decoded(Protocol[T_co]):
    """Records in some form, and what they were made of: see ``records.arrow.decode.Decoded``."""

    @property
    def records(self) -> T_co:
        """The records."""

    @property
    def records_count(self) -> int:
        """How many there are."""

    @property
    def next_offset(self) -> int:
        """The offset to continue at."""

    @property
    def bytes_used(self) -> int:
        """The bytes of the batches before it."""

    @property
    def aborted(self) -> tuple[AbortedTransaction, ...] | None:
        """The aborted transactions of the bytes after it."""


class Decode(Protocol[T_co]):
    """``records.arrow.decode.decode``, or another function with these parameters."""

    def __call__(
        self,
        buffer: Batches,
        *,
        from_offset: int,
        until_offset: int,
        aborted: Iterable[AbortedTransaction] | None,
    ) -> Decoded[T_co]:
        """The records of ``buffer`` with offsets in [from_offset, until_offset). Raises UnreadableBatch."""


def size_of_cut_off(records: bytes | memoryview, max_bytes: int) -> int:
    """The bytes of a batch of which a response has the beginning, because it is larger than ``max_bytes``.

    Only brokers older than KIP-74 cut off the first batch. Raises CorruptBatch: it should have been whole.
    """
    size = LOG_OVERHEAD + int.from_bytes(records[8:LOG_OVERHEAD], "big")
    if not max_bytes < size <= DEFAULT_MAX_FRAME_BYTES:
        raise CorruptBatch("no complete batch at or after the requested offset", position=0)
    return size


@dataclasses.dataclass(slots=True)
class CompletedFetch:
    """Batches of one partition that have come and are not decoded yet."""

    cursor: Cursor
    source: BrokerSource
    batches: Batches
    end: int
    """The next offset after the last batch."""
    epoch: int
    """The leader epoch of the last batch."""
    aborted: Sequence[AbortedTransaction] | None
    """None: rows of aborted transactions are read, too."""

    @classmethod
    def of(cls, cursor: Cursor, source: BrokerSource, part: PartitionData, *, committed_only: bool) -> Self | None:
        """The batches up to one whose header cannot be read; the cursor's next Fetch is after them.

        None if no batch has an offset that is still to be read. If the first batch was cut off, as brokers older than
        KIP-74 do, the next Fetch asks for as much as it needs.

        Raises UnreadableBatch: of the batch at the cursor's offset.
        """
        records = part.records or b""
        assert isinstance(records, bytes | memoryview)
        batches = Batches.of(records)
        end, epoch, error = batches.next_offset(cursor.next_offset, cursor.next_epoch)
        if end > cursor.next_offset:
            if error is not None:
                batches = batches.before(error.position)
            aborted = (part.aborted_transactions or ()) if committed_only else None
            cursor.next_offset, cursor.next_epoch = end, epoch
            return cls(cursor, source, batches, end, epoch, aborted)
        if error is not None:
            raise error
        if records:
            cursor.max_bytes = size_of_cut_off(records, cursor.max_bytes)
        return None

    def records(self, decode: Decode[T], now: Callable[[], float]) -> Iterator[tuple[T, int]]:
        """Decode the batches -> records and their number; the cursor moves before they are yielded.

        A batch that cannot be decoded ends the records, and the next Fetch is at its offset, over a new connection.
        Raises UnreadableBatch: of the batch at the cursor's position.
        """
        cursor = self.cursor
        while self.batches.size:
            try:
                decoded = decode(
                    self.batches, from_offset=cursor.position, until_offset=cursor.end_offset, aborted=self.aborted
                )
            except UnreadableBatch as error:
                self.source.disconnect()
                self.batches = self.batches.before(error.position or 0)
                self.end, self.epoch, _ = self.batches.next_offset(cursor.position, cursor.epoch)
                if self.end == cursor.position:
                    raise
                cursor.next_offset, cursor.next_epoch = self.end, self.epoch
                continue
            if not decoded.bytes_used:
                break
            self.batches, self.aborted = self.batches.skip(decoded.bytes_used), decoded.aborted
            # The epoch of the record before is known again at the end of the response.
            cursor.advance(decoded.next_offset, NO_EPOCH, now())
            if decoded.records_count:
                yield decoded.records, decoded.records_count
        cursor.advance(max(cursor.position, min(self.end, cursor.end_offset)), self.epoch, now())
