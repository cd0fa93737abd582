"""Which record of a segment is the first of a time or later.

Indexes and batch headers lead to one batch. Only that one is decompressed, piece by piece, up to the record.
"""

from typing import NamedTuple

from broker_embedded.log.batches import batch_bytes, batch_records
from broker_embedded.log.index import CorruptIndex
from broker_embedded.log.segment import LogSegment
from spark_kafka_native.records.batch import MAGIC, BatchHeader, UnreadableBatch
from spark_kafka_native.records.conversion import payload_pieces
from spark_kafka_native.records.scan import RecordScan


class OffsetTimestamp(NamedTuple):
    """A record's place and time."""

    offset: int
    timestamp: int


def first_at_or_after(segment: LogSegment, timestamp: int, *, from_offset: int, end: int) -> OffsetTimestamp | None:
    """The first record from ``from_offset`` on with that timestamp or a later one, if there is any before ``end``.

    ``end`` is a position in the log. Raises OSError, UnreadableBatch.
    """
    try:
        indexed = segment.time_index.lookup(timestamp).offset
    except CorruptIndex:
        indexed = segment.base_offset
    start = segment.position_before(max(indexed, from_offset))
    for position, header in segment.headers(start, end):
        if header.max_timestamp >= timestamp and header.last_offset >= from_offset:
            found = _first_of_batch(segment, position, header, timestamp, from_offset)
            if found is not None:
                return found
    return None


def first_of_largest(segment: LogSegment, end: int) -> OffsetTimestamp | None:
    """The first record with the segment's largest timestamp (KIP-734), None if no record has a timestamp.

    Raises OSError, UnreadableBatch.
    """
    largest = segment.largest.timestamp
    return None if largest < 0 else first_at_or_after(segment, largest, from_offset=segment.base_offset, end=end)


def _first_of_batch(
    segment: LogSegment, position: int, header: BatchHeader, timestamp: int, from_offset: int
) -> OffsetTimestamp | None:
    """The first of one batch's records. Raises OSError, CorruptBatch."""
    if header.magic != MAGIC:
        for message in batch_records(segment.file(), position, header):
            if message.timestamp >= timestamp and message.offset >= from_offset:
                return OffsetTimestamp(message.offset, message.timestamp)
        return None
    raw = batch_bytes(segment.file(), position, header)
    scan = RecordScan(header, latest=timestamp - 1, from_offset=from_offset)
    try:
        found = next(scan.found(payload_pieces(raw, 0, header)), None)
    except UnreadableBatch as error:
        raise error.placed(start=position, file=segment.path, base_offset=header.base_offset) from None
    return None if found is None else OffsetTimestamp(found.offset, found.timestamp)
