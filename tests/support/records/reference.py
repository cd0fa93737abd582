"""The record batch format v2, read and written byte by byte: slow, plain, and sharing no code with the product.

What the product must agree with. Compression uses each library's simplest call, in what the format demands.
"""

import gzip
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import lz4.frame
import snappy
import zstandard

Header = tuple[str, bytes | None]

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)


@dataclass(frozen=True)
class Record:
    """A record as a user sees it; ``timestamp`` in milliseconds."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Batch:
    """A batch's header fields, as far as a test sets or looks at them, and its records with absolute offsets."""

    records: tuple[Record, ...] = ()
    base_offset: int = 0
    codec: int = NONE
    partition_leader_epoch: int = -1
    log_append_time: int | None = None
    transactional: bool = False
    control: bool = False
    last_offset_delta: int | None = None
    base_timestamp: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    max_timestamp: int = field(default=-1, compare=False)
    """As it stands there; a batch that is written gets its records' own."""
    crc: int = field(default=0, compare=False)


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), a byte at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def write_varint(value: int) -> bytes:
    """Zig-zag, then seven bits a byte."""
    folded = value * 2 if value >= 0 else -value * 2 - 1
    out = []
    while True:
        low = folded % 128
        folded //= 128
        if folded == 0:
            out.append(low)
            return bytes(out)
        out.append(low + 128)


class Reader:
    """Bytes read front to back. Raises ValueError where they end too early."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.position + count > len(self.data):
            raise ValueError("bytes are missing")
        self.position += count
        return self.data[self.position - count : self.position]

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self, size: int) -> int:
        folded = 0
        for index in range(size):
            byte = self.take(1)[0]
            folded += (byte % 128) << (7 * index)
            if byte < 128:
                break
        else:
            raise ValueError("a varint is too long")
        if folded >= 1 << (32 if size == 5 else 64):
            raise ValueError("a varint is too large")
        return folded // 2 if folded % 2 == 0 else -(folded + 1) // 2

    def string(self, *, nullable: bool = True) -> bytes | None:
        length = self.varint(5)
        if length == -1 and nullable:
            return None
        return self.take(length)

    @property
    def at_end(self) -> bool:
        return self.position == len(self.data)


def _int64(number: int) -> int:
    """As Java's long, which wraps around."""
    return (number + 2**63) % 2**64 - 2**63


def write_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """One record of a batch with these bases."""
    body = bytearray([0])
    body += write_varint(_int64(record.timestamp - base_timestamp))
    body += write_varint(record.offset - base_offset)
    for content in (record.key, record.value):
        body += write_varint(-1) if content is None else write_varint(len(content)) + content
    body += write_varint(len(record.headers))
    for name, content in record.headers:
        body += write_varint(len(name.encode())) + name.encode()
        body += write_varint(-1) if content is None else write_varint(len(content)) + content
    return write_varint(len(body)) + bytes(body)


def read_record(reader: Reader, base_offset: int, base_timestamp: int) -> Record:
    """The next record. Raises ValueError: it is none."""
    body = Reader(reader.take(reader.varint(5)))
    body.take(1)
    timestamp = _int64(base_timestamp + body.varint(10))
    offset = base_offset + body.varint(5)
    key, value = body.string(), body.string()
    count = body.varint(5)
    if count < 0:
        raise ValueError("a negative number of headers")
    headers = []
    for _ in range(count):
        name = body.string(nullable=False)
        assert name is not None
        headers.append((_text(name), body.string()))
    if not body.at_end:
        raise ValueError("bytes are left in a record")
    return Record(key, value, tuple(headers), timestamp, offset)


def _text(raw: bytes) -> str:
    """As Java's ``new String(raw, UTF_8)``."""
    return re.sub(rb"\xed[\xa0-\xbf][\x80-\xbf]?", b"\xff", raw).decode(errors="replace")


def compress(codec: int, payload: bytes) -> bytes:
    """As simply as possible, yet what a Kafka client may write."""
    match codec:
        case 1:
            return gzip.compress(payload)
        case 2:
            return bytes(snappy.compress(payload))
        case 3:
            return bytes(lz4.frame.compress(payload, block_linked=False))
        case 4:
            return zstandard.compress(payload)
    return payload


def decompress(codec: int, payload: bytes) -> bytes:
    """The inverse of what the product writes; snappy in xerial's framing."""
    match codec:
        case 1:
            return gzip.decompress(payload)
        case 2:
            reader = Reader(payload)
            assert reader.take(16) == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
            blocks = []
            while not reader.at_end:
                blocks.append(snappy.uncompress(reader.take(reader.integer(4))))
            return b"".join(blocks)
        case 3:
            return bytes(lz4.frame.decompress(payload))
        case 4:
            return zstandard.ZstdDecompressor().stream_reader(payload).read()
    return payload


def write_batch(batch: Batch, payload: bytes | None = None) -> bytes:
    """A sealed batch; ``payload`` overrides the records' bytes, before compression."""
    records = batch.records
    base_timestamp = batch.base_timestamp
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else -1
    if payload is None:
        payload = b"".join(write_record(record, batch.base_offset, base_timestamp) for record in records)
    last_offset_delta = batch.last_offset_delta
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - batch.base_offset if records else 0
    max_timestamp = batch.log_append_time
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=-1)
    attributes = batch.codec | (batch.log_append_time is not None) << 3 | batch.transactional << 4 | batch.control << 5
    sealed = b"".join(
        value.to_bytes(size, "big", signed=True)
        for value, size in (
            (attributes, 2),
            (last_offset_delta, 4),
            (base_timestamp, 8),
            (max_timestamp, 8),
            (batch.producer_id, 8),
            (batch.producer_epoch, 2),
            (batch.base_sequence, 4),
            (len(records), 4),
        )
    ) + compress(batch.codec, payload)
    return (
        batch.base_offset.to_bytes(8, "big", signed=True)
        + (len(sealed) + 9).to_bytes(4, "big")
        + batch.partition_leader_epoch.to_bytes(4, "big", signed=True)
        + b"\x02"
        + crc32c(sealed).to_bytes(4, "big")
        + sealed
    )


def read_batch(data: bytes) -> Batch:
    """The one batch in ``data``. Raises ValueError: it is none, or its CRC is wrong."""
    reader = Reader(data)
    base_offset = reader.integer(8)
    if reader.integer(4) != len(data) - 12:
        raise ValueError("a wrong length")
    partition_leader_epoch = reader.integer(4)
    if reader.integer(1) != 2:
        raise ValueError("a wrong magic")
    crc = int.from_bytes(reader.take(4), "big")
    if crc != crc32c(data[21:]):
        raise ValueError("a wrong CRC")
    attributes = reader.integer(2)
    last_offset_delta, base_timestamp, max_timestamp = reader.integer(4), reader.integer(8), reader.integer(8)
    producer_id, producer_epoch, base_sequence = reader.integer(8), reader.integer(2), reader.integer(4)
    count = reader.integer(4)
    codec = attributes & 7
    payload = Reader(decompress(codec, data[61:]))
    records = [read_record(payload, base_offset, base_timestamp) for _ in range(count)]
    if not payload.at_end:
        raise ValueError("bytes are left in a batch")
    log_append_time = max_timestamp if attributes & 8 else None
    if log_append_time is not None:
        records = [replace(record, timestamp=log_append_time) for record in records]
    return Batch(
        records=tuple(records),
        base_offset=base_offset,
        codec=codec,
        partition_leader_epoch=partition_leader_epoch,
        log_append_time=log_append_time,
        transactional=bool(attributes & 16),
        control=bool(attributes & 32),
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        max_timestamp=max_timestamp,
        crc=crc,
    )


def numbered(records: Iterable[Record], first_offset: int = 0) -> tuple[Record, ...]:
    """``records`` with offsets from ``first_offset`` on."""
    return tuple(replace(record, offset=first_offset + index) for index, record in enumerate(records))


def rows(records: Sequence[Record]) -> list[dict[str, object]]:
    """``records`` as pyarrow's ``to_pylist`` shows decoded ones, timestamps in milliseconds."""
    return [
        {
            "key": record.key,
            "value": record.value,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "headers": [{"key": name, "value": content} for name, content in record.headers] or None,
        }
        for record in records
    ]
