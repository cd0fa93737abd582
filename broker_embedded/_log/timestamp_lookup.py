"""Lookup of the first record in a segment with a timestamp or a later one.

The index and the batch headers give one batch. Only that batch is decompressed, piece by piece, up to the record.

A producer may write a max timestamp into a header that no record of the batch has. A lookup that finds no record in
such a batch ends with `ContinueAt`, so that the caller can run other lookups first. The segment remembers the largest
timestamp of the records, so that the next lookup does not decompress the batch again.
"""

from typing import NamedTuple, TypeAlias

from broker_embedded._log.batches import batch_bytes, batch_records
from broker_embedded._log.index import CorruptIndex
from broker_embedded._log.segment import LogSegment
from broker_embedded._platform.cancellation import Cancellation
from spark_kafka_native._records.batch import MAGIC, NO_TIMESTAMP, BatchHeader, UnreadableBatch
from spark_kafka_native._records.conversion import payload_pieces
from spark_kafka_native._records.scan import RecordScan


class OffsetTimestamp(NamedTuple):
    """Offset and timestamp of a record."""

    offset: int
    timestamp: int


class ContinueAt(NamedTuple):
    """No record of a batch has the max timestamp of its header: the lookup continues at this offset."""

    offset: int


Lookup: TypeAlias = OffsetTimestamp | ContinueAt | None
"""A record; the offset to continue at, because one batch was decompressed; or None, there is no such record."""


def first_at_or_after(
    segment: LogSegment, timestamp: int, *, from_offset: int, end: int, cancellation: Cancellation
) -> Lookup:
    """The first record from ``from_offset`` on with that timestamp or a later one, if there is any before ``end``.

    ``end`` is a position in the log. One batch is decompressed at most. Raises OSError, UnreadableBatch, WorkCancelled.
    """
    try:
        indexed = segment.time_index.lookup(timestamp).offset
    except CorruptIndex:
        indexed = segment.base_offset
    start = segment.position_before(max(indexed, from_offset))
    for position, header in cancellation.between(segment.headers(start, end)):
        if header.last_offset >= from_offset and segment.overstated.largest_in(header) >= timestamp:
            found = _first_of_batch(segment, position, header, timestamp, from_offset, cancellation)
            return ContinueAt(header.next_offset) if found is None else found
    return None


def first_of_largest(segment: LogSegment, *, from_offset: int, end: int, cancellation: Cancellation) -> Lookup:
    """The first record with the segment's largest timestamp (KIP-734), None if no record has a timestamp.

    Raises as ``first_at_or_after``.
    """
    largest = segment.largest.timestamp
    if largest < 0:
        return None
    start = max(segment.base_offset, from_offset)
    return first_at_or_after(segment, largest, from_offset=start, end=end, cancellation=cancellation)


def _first_of_batch(
    segment: LogSegment,
    position: int,
    header: BatchHeader,
    timestamp: int,
    from_offset: int,
    cancellation: Cancellation,
) -> OffsetTimestamp | None:
    """The first of one batch's records. Raises OSError, CorruptBatch, WorkCancelled."""
    if header.magic != MAGIC:
        largest = NO_TIMESTAMP
        for message in batch_records(segment.file(), position, header):
            largest = max(largest, message.timestamp)
            if message.timestamp >= timestamp and message.offset >= from_offset:
                return OffsetTimestamp(message.offset, message.timestamp)
        segment.overstated.remember(header, largest)
        return None
    raw = batch_bytes(segment.file(), position, header)
    scan = RecordScan(header, latest=timestamp - 1, from_offset=from_offset)
    try:
        found = next(scan.found(cancellation.between(payload_pieces(raw, 0, header))), None)
    except UnreadableBatch as error:
        raise error.placed(start=position, file=segment.path, base_offset=header.base_offset) from None
    if found is None:
        segment.overstated.remember(header, scan.largest)
        return None
    return OffsetTimestamp(found.offset, found.timestamp)
