"""Records from one message format into another, singly and in plain Python: what brokers do for clients of other ages.

Up (v0, v1 to v2) nothing is lost. Down (v2 to v1, and that to v0) headers go, and from v0 timestamps too; control
batches have no likeness in the old formats and vanish. What was compressed stays so, by the same codec, as one wrapper
for each batch; zstd does not exist there.
"""

from collections.abc import Callable, Iterable, Iterator

from spark_kafka_native.records.batch import (
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionType,
    TimestampType,
    seal,
    write_header,
)
from spark_kafka_native.records.blocks import record_blocks
from spark_kafka_native.records.codec import Buffer
from spark_kafka_native.records.compression import MAX_DECOMPRESSED_BYTES
from spark_kafka_native.records.errors import BadRecord, CorruptBatch
from spark_kafka_native.records.legacy import Message, read_messages
from spark_kafka_native.records.legacy_write import write_message_set
from spark_kafka_native.records.pieces import SMALL_PIECES, compressor, decompressed_pieces
from spark_kafka_native.records.record import MIN_BODY_BYTES, VARLONG_BYTES, as_int64, read_varint, varint

_NULL = varint(-1)
_ATTRIBUTES = b"\x00"
_LAST_BYTE = 0x7F
"""A byte of a number above this is not its last."""
_NULL_LENGTH = 1
"""-1, as it stands there."""
_NUMBERS_END = 1 << 64
_NEAR = 1 << 61
"""Times and their distances within this do not wrap around."""
_LONG_MAX = 2**63 - 1
_NOBODYS = BatchHeader(
    0, 0, NO_PARTITION_LEADER_EPOCH, MAGIC, 0, 0, 0, 0, 0, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, 0
)


def read_records(
    buffer: memoryview, position: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Message]:
    """Each record of the batch, message or wrapper at ``position``, of any format; the outer CRC is the caller's.

    Of a record batch, about a MiB of records is held at a time.

    Raises CorruptBatch: the payload is not what the header says, or decompresses to more than ``max_bytes``.
    """
    if header.magic < MAGIC:
        yield from read_messages(buffer, position, header, max_bytes=max_bytes)
        return
    try:
        yield from parse_records(payload_pieces(buffer, position, header, max_bytes=max_bytes), header)
    except CorruptBatch as error:
        raise error.placed(start=position, base_offset=header.base_offset) from error


def payload_pieces(
    buffer: memoryview, position: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Buffer]:
    """The payload of the record batch at ``position``, decompressed, in pieces. Raises CorruptBatch."""
    stored = buffer[position + RECORD_BATCH_OVERHEAD : position + header.size_in_bytes]
    return decompressed_pieces(header.compression, stored, max_bytes=max_bytes)


def parse_records(pieces: Iterable[Buffer], header: BatchHeader) -> Iterator[Message]:
    """The records of a v2 batch's payload, decompressed; ``header`` gives their number, offsets and times.

    Raises CorruptBatch: they are not what the format allows, or not as many.
    """
    first = 0
    for block, count in record_blocks(pieces, header.records_count):
        records: list[Message] = []
        try:
            end = _read_fast(block, header, count, records.append)
        except IndexError:
            records = []
            end = _read_carefully(block, header, range(first, first + count), records.append)
        if end != len(block):
            raise CorruptBatch(f"{len(block) - end} bytes are left after the batch's last record")
        yield from records
        first += count


def _read_fast(payload: bytes, header: BatchHeader, count: int, append: Callable[[Message], None]) -> int:
    """Where the last of ``count`` records ends. Raises IndexError: one is malformed, or its time may wrap around.

    `_read_carefully` reads them then, and says what is malformed.
    """
    by_broker = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    base_offset, base_timestamp, max_timestamp = header.base_offset, header.base_timestamp, header.max_timestamp
    far = _NEAR if -_NEAR < base_timestamp < _NEAR else 0
    end, size = 0, len(payload)
    for _ in range(count):
        length, at = payload[end], end + 1
        if length > _LAST_BYTE:
            length, at = _rest_of(payload, at, length)
        end = at + (length >> 1)
        time, at = payload[at + 1], at + 2  # behind the attributes
        if time > _LAST_BYTE:
            time, at = _rest_of(payload, at, time)
        delta, at = payload[at], at + 1
        if delta > _LAST_BYTE:
            delta, at = _rest_of(payload, at, delta)
        key_length, key_at = payload[at], at + 1
        if key_length > _LAST_BYTE:
            key_length, key_at = _rest_of(payload, key_at, key_length)
        key_end = at = key_at + (0 if key_length == _NULL_LENGTH else key_length >> 1)
        value_length, value_at = payload[at], at + 1
        if value_length > _LAST_BYTE:
            value_length, value_at = _rest_of(payload, value_at, value_length)
        value_end = value_at + (0 if value_length == _NULL_LENGTH else value_length >> 1)
        odd = (length | delta | (key_length if key_length != _NULL_LENGTH else 0)) & 1
        if odd or (value_length & 1 and value_length != _NULL_LENGTH) or not value_end < end <= size or delta >> 32:
            raise IndexError
        if time >= far:
            raise IndexError
        append(
            Message(
                base_offset + (delta >> 1),
                max_timestamp if by_broker else base_timestamp + ((time >> 1) ^ -(time & 1)),
                None if key_length == _NULL_LENGTH else payload[key_at:key_end],
                None if value_length == _NULL_LENGTH else payload[value_at:value_end],
                payload[value_end:end],
            )
        )
    return end


def _rest_of(payload: bytes, position: int, first: int) -> tuple[int, int]:
    """The number, not yet zig-zagged back, that began with the byte ``first``, and the position behind it."""
    value = first & _LAST_BYTE
    for shift in range(7, 70, 7):
        byte = payload[position]
        position += 1
        value |= (byte & _LAST_BYTE) << shift
        if byte <= _LAST_BYTE and value < _NUMBERS_END:
            return value, position
    raise IndexError


def _read_carefully(payload: bytes, header: BatchHeader, indexes: range, append: Callable[[Message], None]) -> int:
    """The same, with every step checked; ``indexes`` are the records'. Raises CorruptBatch, which names the record."""
    view = memoryview(payload)
    by_broker = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    position, end = 0, len(payload)
    try:
        for index in indexes:
            length, body = read_varint(view, position, end, index)
            position = body + length
            if length < MIN_BODY_BYTES or position > end:
                raise BadRecord(index, f"impossible record length {length}, {end - body} bytes are left")
            timestamp_delta, at = read_varint(view, body + 1, position, index, VARLONG_BYTES)
            offset_delta, at = read_varint(view, at, position, index)
            key_length, key_at = read_varint(view, at, position, index)
            key_end = key_at + max(key_length, 0)
            value_length, value_at = read_varint(view, key_end, position, index)
            value_end = value_at + max(value_length, 0)
            if key_length < -1 or value_length < -1 or value_end >= position or offset_delta < 0:
                raise BadRecord(index, "its offset, key, value and headers are not what a record has")
            append(
                Message(
                    header.base_offset + offset_delta,
                    header.max_timestamp if by_broker else as_int64(header.base_timestamp + timestamp_delta),
                    None if key_length < 0 else payload[key_at:key_end],
                    None if value_length < 0 else payload[value_at:value_end],
                    payload[value_end:position],
                )
            )
    except BadRecord as error:
        raise CorruptBatch(f"bad record: {error.detail}", record_index=error.index) from None
    return position


def write_batch(
    records: Iterable[Message],
    *,
    base_offset: int,
    compression: CompressionType = CompressionType.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    like: BatchHeader | None = None,
    max_bytes: int | None = None,
) -> bytearray:
    """The records, at least one, as one sealed batch of format v2; offsets ascend from ``base_offset`` or later.

    The batch has the producer, transaction and kind of the header ``like``, or none. The records are compressed as they
    come, so that only compressed bytes are held. Writing stops soon after ``max_bytes``; the returned batch is then
    larger than ``max_bytes`` and incomplete, and must be refused.

    Raises ValueError: a level the codec does not have, or times too far apart for an int64 to hold the distance.
    """
    compressed = compressor(compression, level)
    batch, plain = bytearray(RECORD_BATCH_OVERHEAD), bytearray()
    count = last_offset = base_timestamp = smallest = largest = 0
    for offset, timestamp, key, value, headers in records:
        if not count:
            base_timestamp = smallest = largest = timestamp
        elif timestamp > largest:
            largest = timestamp
        elif timestamp < smallest:
            smallest = timestamp
        count, last_offset = count + 1, offset
        body = (
            _ATTRIBUTES
            + _spelled(timestamp - base_timestamp)
            + _spelled(offset - base_offset)
            + (_NULL if key is None else _spelled(len(key)) + key)
            + (_NULL if value is None else _spelled(len(value)) + value)
            + headers
        )
        plain += _spelled(len(body))
        plain += body
        if len(plain) >= SMALL_PIECES:
            batch += compressed.compress(plain)
            plain.clear()
            if max_bytes is not None and len(batch) > max_bytes:
                break
    if max(largest - base_timestamp, base_timestamp - smallest) > _LONG_MAX:
        raise ValueError("timestamps of the records are too far apart for one int64 to hold the distance")
    batch += compressed.compress(plain)
    batch += compressed.flush()
    header = (like or _NOBODYS)._replace(
        base_offset=base_offset,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max(NO_TIMESTAMP, largest),
        records_count=count,
    )
    return _sealed(batch, header, compression, timestamp_type)


def recompress(
    pieces: Iterable[Buffer], header: BatchHeader, *, compression: CompressionType, level: int | None, max_bytes: int
) -> bytearray:
    """A sealed batch with the payload ``pieces`` compressed by another codec; all else is as ``header`` has it.

    Writing stops soon after a batch of ``max_bytes``, as in ``write_batch``.

    Raises ValueError: a level the codec does not have. Those of ``pieces``.
    """
    compressed = compressor(compression, level)
    batch = bytearray(RECORD_BATCH_OVERHEAD)
    for piece in pieces:
        batch += compressed.compress(piece)
        if len(batch) > max_bytes:
            break
    batch += compressed.flush()
    return _sealed(batch, header, compression, header.timestamp_type)


def _sealed(
    batch: bytearray, header: BatchHeader, compression: CompressionType, timestamp_type: TimestampType
) -> bytearray:
    """``batch``, which has room for a header and then its payload, with that header and its CRC."""
    write_header(
        batch,
        size_in_bytes=len(batch),
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        records_count=header.records_count,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        compression=compression,
        timestamp_type=timestamp_type,
        transactional=header.is_transactional,
        control=header.is_control,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    seal(batch)
    return batch


def convert_down(
    buffer: memoryview,
    position: int,
    header: BatchHeader,
    *,
    magic: int,
    from_offset: int,
    each: Callable[[Iterable[Message]], Iterator[Message]] = iter,
) -> bytes:
    """The batch or message at ``position`` as a message set of format v0 or v1; as it is if it is no newer than that.

    Records before ``from_offset`` are left out of an uncompressed batch: they become messages of their own, and some
    clients take the first of an answer for the one they asked for. Nothing is left of a control batch, nor of one that
    compaction has emptied. ``each`` is given the records and yields them: it may raise to stop the conversion.

    Raises CorruptBatch: the payload is not what the header says. ValueError: it is compressed with zstd.
    """
    if header.magic <= magic:
        return bytes(buffer[position : position + header.size_in_bytes])
    if header.is_control:
        return b""
    records = each(read_records(buffer, position, header))
    if not header.compression:
        records = (record for record in records if record.offset >= from_offset)
    return bytes(
        write_message_set(records, magic=magic, compression=header.compression, timestamp_type=header.timestamp_type)
    )


class _Varints(dict[int, bytes]):
    """Varints by their numbers, made when they are first asked for; those of one or two bytes are kept."""

    def __missing__(self, number: int) -> bytes:
        made = varint(number)
        if len(made) <= 2:
            self[number] = made
        return made


_spelled = _Varints().__getitem__
