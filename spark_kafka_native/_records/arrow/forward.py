"""Batches of a Fetch response as batches of a producer: compressed as they are, without their records (KAFKA-1001).

A leader accepts the payload of a batch unchanged if the batch is of format v2 and its offset deltas are 0, 1, 2, ...
Only its header is written again: base offset, leader epoch, producer and CRC. These batches are decoded, and encoded
with their codec:

* messages of formats v0 and v1;
* batches from which compaction has removed records;
* batches of which only some records are in the range of offsets;
* batches with LogAppendTime, because producers cannot send it: it becomes the CreateTime of the records;
* batches with a delete horizon, which is in the place of their base timestamp;
* several small batches after each other, because brokers and this client take longer for many batches than this client
  takes to make one of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from spark_kafka_native._protocol.producer_id import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from spark_kafka_native._records.arrow.aborted import AbortedTransaction, AbortedTransactions, is_visible
from spark_kafka_native._records.arrow.batches import Batches
from spark_kafka_native._records.arrow.column_reader import COLUMNS
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.arrow.encode import EncodedBatch, MeasuredRows
from spark_kafka_native._records.batch import (
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    CompressionType,
    CorruptBatch,
    TimestampType,
    check_crc,
    set_offsets,
    set_producer,
)
from spark_kafka_native._records.decompression import MAX_DECOMPRESSED_BYTES
from spark_kafka_native._records.formats import iter_any

MERGED_BELOW: Final[Mapping[CompressionType, int]] = MappingProxyType(
    {
        CompressionType.NONE: 1 << 16,
        CompressionType.GZIP: 1 << 10,
        CompressionType.SNAPPY: 1 << 14,
        CompressionType.LZ4: 1 << 14,
        CompressionType.ZSTD: 1 << 14,
    }
)
"""Bytes of a batch below which it is merged with the next one, by codec; ``benchmarks.mirror`` measures both ways."""
_RUN_BYTES: Final = 1 << 18
"""Of batches that are decoded together, which bounds the memory for their records."""
TARGET_BYTES = 1 << 22
"""Bytes of batches after which ``forward`` stops, by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """The result of ``forward``. ``next_offset``, ``bytes_used`` and ``aborted`` are those of ``decode.Decoded``.

    ``encoded_again``: how many batches or messages of the response were decoded.
    """

    records: list[EncodedBatch]
    next_offset: int
    bytes_used: int
    aborted: tuple[AbortedTransaction, ...] | None
    encoded_again: int

    @property
    def records_count(self) -> int:
        """The number of records in the batches."""
        return sum(batch.records_count for batch in self.records)


def forward(
    buffer: Buffer | Batches,
    *,
    from_offset: int,
    until_offset: int,
    max_batch_bytes: int,
    aborted: Iterable[AbortedTransaction] | None = None,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    target_bytes: int = TARGET_BYTES,
    merged_below: Mapping[CompressionType, int] = MERGED_BELOW,
) -> Forwarded:
    """The records of ``buffer`` with offsets in [from_offset, until_offset), in order, as batches of no producer yet.

    The other parameters are those of ``decode``. CRCs are always checked, because the new CRC would hide damage.
    ``max_batch_bytes``: of a batch that is encoded again, before compression.

    Raises CorruptBatch: as ``decode``.
    """
    transactions = None if aborted is None else AbortedTransactions(aborted)
    batches = buffer if isinstance(buffer, Batches) else Batches.of(buffer)
    view, position = batches.view, batches.start
    forwarding = _Forwarding(view, from_offset, until_offset, max_batch_bytes, max_decompressed_bytes, merged_below)
    for begin, header in iter_any(view, batches.start):
        # A wrapper of messages has the offset of its last one.
        is_wrapper = header.magic < MAGIC and header.compression
        if (header.base_offset >= until_offset and not is_wrapper) or begin - batches.start >= target_bytes:
            break
        shown = is_visible(view, begin, header, transactions)
        forwarding.take(begin, header, shown=shown)
        position = begin + header.size_in_bytes
    forwarding.end_run()
    return Forwarded(
        records=forwarding.found,
        next_offset=forwarding.next_offset,
        bytes_used=position - batches.start,
        aborted=None if transactions is None else transactions.left(),
        encoded_again=forwarding.encoded_again,
    )


class _Forwarding:
    """The batches so far, and the run of batches that are to be encoded again together."""

    def __init__(
        self,
        view: memoryview,
        from_offset: int,
        until_offset: int,
        max_batch_bytes: int,
        max_decompressed_bytes: int,
        merged_below: Mapping[CompressionType, int],
    ) -> None:
        self.found: list[EncodedBatch] = []
        self.next_offset = from_offset
        self.encoded_again = 0
        self._view = view
        self._from_offset = from_offset
        self._until_offset = until_offset
        self._max_batch_bytes = max_batch_bytes
        self._max_decompressed_bytes = max_decompressed_bytes
        self._merged_below = merged_below
        self._log_position = 0
        self._run = slice(0, 0)
        self._run_batches = 0
        self._small: BatchHeader | None = None
        """Of the run's only batch, if that can be forwarded."""
        self._codec = CompressionType.NONE

    def take(self, begin: int, header: BatchHeader, *, shown: bool) -> None:
        """Take the next batch of the response, which begins at ``begin``. Raises CorruptBatch."""
        end = begin + header.size_in_bytes
        if header.base_offset < self._log_position:
            text = f"offset {self._log_position} or a later one must come next"
            raise CorruptBatch(text, position=begin, base_offset=header.base_offset)
        self._log_position = header.next_offset
        if header.next_offset <= self._from_offset:
            return
        if shown and header.records_count:
            is_forwardable = self._is_forwardable(header)
            if is_forwardable and header.size_in_bytes >= self._merged_below.get(header.compression, 0):
                self.end_run()
                self._forward(begin, header)
            else:
                run_bytes = self._run.stop - self._run.start
                if self._run.stop != begin or self._codec is not header.compression or run_bytes >= _RUN_BYTES:
                    self.end_run()
                    self._run, self._codec = slice(begin, begin), header.compression
                self._small = header if is_forwardable and not self._run_batches else None
                self._run = slice(self._run.start, end)
                self._run_batches += 1
        self.next_offset = min(header.next_offset, self._until_offset)

    def end_run(self) -> None:
        """Encode the batches of the run again, unless it is one that can be forwarded. Raises CorruptBatch."""
        run, self._run = self._run, slice(0, 0)
        count, self._run_batches = self._run_batches, 0
        if not count:
            return
        if self._small is not None:
            self._forward(run.start, self._small)
            return
        self.encoded_again += count
        decoded = decode(
            self._view[run],
            from_offset=self._from_offset,
            until_offset=self._until_offset,
            columns=COLUMNS,
            max_decompressed_bytes=self._max_decompressed_bytes,
        )
        measured = MeasuredRows(decoded.records, NO_TIMESTAMP)
        self.found += measured.encode(compression=self._codec, max_batch_bytes=self._max_batch_bytes)

    def _forward(self, begin: int, header: BatchHeader) -> None:
        """Raises CorruptBatch."""
        check_crc(self._view, begin, header)
        self.found.append(_with_new_header(self._view[begin : begin + header.size_in_bytes], header))

    def _is_forwardable(self, header: BatchHeader) -> bool:
        return (
            header.magic == MAGIC
            and header.base_offset >= self._from_offset
            and header.next_offset <= self._until_offset
            and header.records_count == header.last_offset_delta + 1
            and header.timestamp_type is TimestampType.CREATE_TIME
            and header.delete_horizon_ms is None
        )


def _with_new_header(batch: memoryview, header: BatchHeader) -> EncodedBatch:
    copy = bytearray(batch)
    set_offsets(copy, 0, base_offset=0, partition_leader_epoch=NO_PARTITION_LEADER_EPOCH)
    set_producer(copy, 0, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH, base_sequence=NO_SEQUENCE)
    return EncodedBatch(buffer=copy, records_count=header.records_count, first_row=0)
