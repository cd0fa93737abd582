"""What compaction keeps of a batch. Pure: bytes in, bytes out.

As in Apache Kafka. A record is dropped if a later record has its key, or if it has no key. A tombstone, a record
without a value, is kept until its delete horizon: the first compaction that reads it sets the horizon,
``delete.retention.ms`` ahead, in the header of its batch (KIP-534), and a later one drops it. Records of aborted
transactions are dropped at once. A marker whose transaction has no records left gets a horizon like a tombstone.
Records after the last offset of the map are kept.

A batch that keeps some of its records keeps its base offset, its last offset and sequence, its codec, and the records'
bytes. A batch that loses all records is dropped, unless it is the last batch of an active producer, whose sequence
would be forgotten without it, or the last batch of the compacted part. Then its header is kept.

Messages of formats v0 and v1 have no field for a horizon. Their horizon is counted from the last write of the segment.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker_embedded._config.settings import LONG_MAX
from broker_embedded._log.append.producer_state import LastRecord
from broker_embedded._log.cleaner.cleaned_transactions import CleanedTransactions
from broker_embedded._log.cleaner.keyed_records import KeyedRecord, keyed_blocks, timestamp_delta, with_base_timestamp
from broker_embedded._log.cleaner.offset_map import OffsetMap
from spark_kafka_native._records.batch import (
    MAGIC,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionType,
    TimestampType,
)
from spark_kafka_native._records.compression import compressor
from spark_kafka_native._records.control import ControlType, decode_control
from spark_kafka_native._records.conversion import payload_pieces, write_header_like
from spark_kafka_native._records.legacy import read_messages
from spark_kafka_native._records.legacy_write import write_message_set
from spark_kafka_native._records.record import as_int64
from spark_kafka_native._records.scan import LONG_MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of one compaction.

    ``latest_offset`` is the last offset that the map covers, ``until_offset`` the end of the cleanable range,
    ``last_records`` the last record of each known producer, which is kept. Tombstones of formats v0 and v1 are kept in
    segments that were written after ``old_horizon_ms``.
    """

    now_ms: int
    delete_retention_ms: int
    latest_offset: int
    until_offset: int
    last_records: Mapping[int, LastRecord]
    old_horizon_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedBatch:
    """A batch after compaction: its bytes, which may be unchanged, and its fields for the segment."""

    data: bytes | bytearray
    last_offset: int
    max_timestamp: int
    records_kept: int


class _Block(NamedTuple):
    """A block of a batch's payload, its number of records, and its kept records."""

    data: bytes
    records_read: int
    kept: list[KeyedRecord]


class _Kept:
    """Counts of a batch's kept records, and its last block. Earlier blocks are decompressed again, to save memory."""

    def __init__(self) -> None:
        self.blocks = self.records = self.records_read = 0
        self.has_tombstones = False
        self.last: list[_Block] = []

    def add(self, block: _Block) -> None:
        self.blocks += 1
        self.records += len(block.kept)
        self.records_read += block.records_read
        self.has_tombstones = self.has_tombstones or any(not record[4] for record in block.kept)
        self.last = [block]


class BatchCleaner:
    """Compacts the batches of consecutive segments, one after the other. ``records_read`` counts their records."""

    def __init__(self, offsets: OffsetMap, transactions: CleanedTransactions, rules: Rules) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._rules = rules
        self._keep_old_tombstones = True
        horizon_ms = rules.now_ms + rules.delete_retention_ms
        # A horizon that is never reached is not set.
        self._new_horizon_ms = None if horizon_ms > LONG_MAX else horizon_ms
        self.records_read = 0

    def at_segment(self, *, modified_ms: int) -> None:
        """The next batches are in a segment with this last write."""
        self._keep_old_tombstones = modified_ms > self._rules.old_horizon_ms

    def clean(self, data: bytes, header: BatchHeader) -> CleanedBatch | None:
        """A batch, whose CRC is correct, after compaction; None if it is dropped. Raises CorruptBatch."""
        if header.magic < MAGIC:
            return self._clean_messages(data, header)
        without_records = self._is_over(data, header)
        keeps_header = header.next_offset == self._rules.until_offset or self._is_last_of_producer(header)
        horizon = header.delete_horizon_ms
        past_horizon = horizon is not None and horizon <= self._rules.now_ms
        if without_records and (past_horizon or not header.is_control):
            return _emptied(data, header) if keeps_header else None
        kept = _Kept()
        for block in self._blocks(data, header, past_horizon=past_horizon):
            kept.add(block)
        self.records_read += kept.records_read
        if not kept.records:
            return _emptied(data, header) if keeps_header else None
        if horizon is None and (without_records or kept.has_tombstones):
            horizon = self._new_horizon_ms
        if kept.records == kept.records_read and horizon == header.delete_horizon_ms:
            return _cleaned(data, header, kept.records)
        blocks = kept.last if kept.blocks == 1 else self._blocks(data, header, past_horizon=past_horizon)
        return _rebuilt(header, blocks, kept.records, horizon)

    def _blocks(self, data: bytes, header: BatchHeader, *, past_horizon: bool) -> "Iterator[_Block]":
        for block, records in keyed_blocks(payload_pieces(memoryview(data), 0, header), header):
            kept = records if header.is_control else self._kept(records, header, past_horizon=past_horizon)
            yield _Block(block, len(records), kept)

    def _is_over(self, data: bytes, header: BatchHeader) -> bool:
        """Whether the batch has aborted records, or is the marker of a transaction that has no records left."""
        if not header.is_control:
            return self._transactions.is_aborted(header)
        return self._transactions.may_drop(header, control_type_of(data, header))

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._rules.last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.last_offset is not None:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch  # only the marker has the epoch

    def _kept(self, records: Sequence[KeyedRecord], header: BatchHeader, *, past_horizon: bool) -> list[KeyedRecord]:
        base_offset, latest, get = header.base_offset, self._rules.latest_offset, self._offsets.get
        kept = []
        for record in records:
            offset, key = base_offset + record[2], record[3]
            if offset > latest or (key is not None and (record[4] or not past_horizon) and offset >= get(key)):
                kept.append(record)
        return kept

    def _clean_messages(self, data: bytes, header: BatchHeader) -> CleanedBatch | None:
        rules = self._rules
        messages = read_messages(data, 0, header)
        self.records_read += len(messages)
        kept = [
            message
            for message in messages
            if message.offset > rules.latest_offset
            or (
                message.key is not None
                and (message.value is not None or self._keep_old_tombstones)
                and message.offset >= self._offsets.get(message.key)
            )
        ]
        if not kept:
            return None
        if len(kept) == len(messages):
            return _cleaned(data, header, len(kept))
        return CleanedBatch(
            data=write_message_set(
                kept, magic=header.magic, compression=header.compression, timestamp_type=header.timestamp_type
            ),
            last_offset=kept[-1].offset,
            max_timestamp=max(message.timestamp for message in kept),
            records_kept=len(kept),
        )


def control_type_of(data: bytes, header: BatchHeader) -> ControlType | None:
    """The type of a control batch; None if it was emptied. Raises CorruptBatch."""
    record = decode_control(data, 0, header)
    return None if record is None else record.type


def keyed_offsets(data: bytes, header: BatchHeader, from_offset: int) -> Iterator[tuple[bytes, int]]:
    """Key and offset of each record with a key from an offset on, in a batch of any format. Raises CorruptBatch."""
    if header.magic < MAGIC:
        for message in read_messages(data, 0, header):
            if message.key is not None and message.offset >= from_offset:
                yield message.key, message.offset
        return
    base_offset = header.base_offset
    from_delta = from_offset - base_offset
    for _, records in keyed_blocks(payload_pieces(memoryview(data), 0, header), header):
        for _, _, delta, key, _ in records:
            if key is not None and delta >= from_delta:
                yield key, base_offset + delta


def _cleaned(data: bytes | bytearray, header: BatchHeader, count: int) -> CleanedBatch:
    return CleanedBatch(
        data=data, last_offset=header.last_offset, max_timestamp=header.max_timestamp, records_kept=count
    )


def _emptied(data: bytes, header: BatchHeader) -> CleanedBatch:
    """The header only, which has offsets, sequence and, for retention, the timestamp."""
    left = _batch(header._replace(base_timestamp=NO_TIMESTAMP, records_count=0), b"", has_horizon=False)
    return _cleaned(data, header, 0) if left.data == data else left


def _rebuilt(header: BatchHeader, blocks: Iterable[_Block], count: int, horizon_ms: int | None) -> CleanedBatch:
    """A batch with some of its records. A new horizon replaces the base timestamp, so the records' deltas change."""
    keeps_base = horizon_ms is None or horizon_ms == header.delete_horizon_ms
    base_timestamp = header.base_timestamp if keeps_base or horizon_ms is None else horizon_ms
    base, moved_ms = header.base_timestamp, base_timestamp - header.base_timestamp
    compressed = compressor(header.compression)
    payload = bytearray()
    times = [LONG_MIN]
    for data, _, kept in blocks:
        if keeps_base:
            pieces = [data[start:end] for start, end, _, _, _ in kept]
        else:
            pieces = [with_base_timestamp(data, record, moved_ms) for record in kept]
        payload += compressed.compress(b"".join(pieces))
        times.append(max((as_int64(base + timestamp_delta(data, record)) for record in kept), default=LONG_MIN))
    payload += compressed.flush()
    max_timestamp = header.max_timestamp
    if header.timestamp_type is TimestampType.CREATE_TIME:
        max_timestamp = max(times)
    header = header._replace(base_timestamp=base_timestamp, max_timestamp=max_timestamp, records_count=count)
    return _batch(header, payload, has_horizon=horizon_ms is not None)


def _batch(header: BatchHeader, payload: bytes | bytearray, *, has_horizon: bool) -> CleanedBatch:
    compression = header.compression if header.records_count else CompressionType.NONE
    data = bytearray(RECORD_BATCH_OVERHEAD) + payload
    write_header_like(data, header, compression, header.timestamp_type, delete_horizon=has_horizon)
    return _cleaned(data, header, header.records_count)
