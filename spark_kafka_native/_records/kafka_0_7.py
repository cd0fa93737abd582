"""Message sets of Kafka 0.7, which are also the content of its ``.kafka`` files (0.7 design, "Message Format", "Log").

A message set is a sequence of entries, without a count or a length of its own, big-endian::

    message_set = (length     int32   bytes of the message
                   message)*
    message     = magic       int8    0 or 1
                  attributes  int8    magic 1 alone: bits 0-1 codec: none, gzip, snappy
                  crc         uint32  CRC-32 (zlib's) of the payload
                  payload

A message has no key and no timestamp. The payload of a message with a codec is a message set, compressed; the messages
in there have no codec of their own.

The offset of an entry is its position in bytes in the stream of all entries of its partition. A file has the name of
its first entry's offset. Messages in a compressed entry have the offset of the entry, where a request can begin.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from spark_kafka_native._records.compression import Buffer, CompressionType, compress
from spark_kafka_native._records.decompression import MAX_DECOMPRESSED_BYTES, decompress
from spark_kafka_native._records.errors import CorruptBatch, IncompleteBatch

CODECS: Final = (CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY)

_LENGTH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_HEADS: Final = (struct.Struct(">ibI"), struct.Struct(">ibbI"))
"""By magic: an entry up to its payload."""
_CODEC_MASK: Final = 0x03


class Entry(NamedTuple):
    """An entry of a message set. ``payload`` is a view of the buffer; it is compressed if there is a codec."""

    offset: int
    size_bytes: int
    """With its length."""
    magic: int
    codec: CompressionType
    crc: int
    payload: memoryview

    @property
    def next_offset(self) -> int:
        """The offset of the entry after this one."""
        return self.offset + self.size_bytes

    def check_crc(self) -> None:
        """Raise CorruptBatch: the checksum is not that of the payload."""
        if (found := crc32(self.payload)) != self.crc:
            raise CorruptBatch(f"the message has checksum {self.crc}, its payload has {found}", base_offset=self.offset)

    def messages(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Sequence[Buffer]:
        """The payloads of the messages: its own, or those inside. Raises CorruptBatch; OversizedBatch."""
        if self.codec is CompressionType.NONE:
            return [self.payload]
        found: list[Buffer] = []
        inside = decompress(self.codec, self.payload, max_bytes=max_bytes)
        try:
            for entry in read_entries(inside):
                entry.check_crc()
                if entry.codec is not CompressionType.NONE:
                    raise CorruptBatch("a message in a compressed message is compressed, too")
                found.append(entry.payload)
        except (CorruptBatch, IncompleteBatch) as error:
            detail = f"the compressed message cannot be read: {error}"
            raise CorruptBatch(detail, base_offset=self.offset) from error
        return found


def read_entries(buffer: Buffer, base_offset: int = 0) -> Iterator[Entry]:
    """The entries from the beginning of ``buffer``, whose offset is ``base_offset``. Checksums are not checked.

    Raises CorruptBatch: an impossible length, an unknown magic or codec. IncompleteBatch: the last entry is cut off.
    Both have its position.
    """
    view, position = memoryview(buffer), 0
    while position < len(view):
        entry = _entry(view, position, base_offset + position)
        yield entry
        position += entry.size_bytes


def encode_message(payload: Buffer, *, magic: int = 1, codec: CompressionType = CompressionType.NONE) -> bytes:
    """An entry of one message. With a codec ``payload`` is compressed already. Raises ValueError: no codec of 0.7."""
    if codec not in CODECS or (magic == 0 and codec is not CompressionType.NONE):
        raise ValueError(f"a message of Kafka 0.7 with magic {magic} cannot have codec {codec.label}")
    length = _HEADS[magic].size - _LENGTH.size + len(payload)
    crc = crc32(payload)
    head = _HEADS[0].pack(length, 0, crc) if magic == 0 else _HEADS[1].pack(length, 1, codec, crc)
    return head + payload


def encode_messages(payloads: Sequence[Buffer], *, codec: CompressionType = CompressionType.NONE) -> bytes:
    """A message set; with a codec its only entry has all messages compressed."""
    plain = b"".join(map(encode_message, payloads))
    if codec is CompressionType.NONE or not payloads:
        return plain
    return encode_message(compress(codec, plain), codec=codec)


def _entry(view: memoryview, position: int, offset: int) -> Entry:
    left = len(view) - position
    if left <= _LENGTH.size:
        raise IncompleteBatch(f"a message is cut off after {left} bytes", position=position, base_offset=offset)
    (length,) = _LENGTH.unpack_from(view, position)
    magic = view[position + _LENGTH.size]
    if magic >= len(_HEADS):
        raise CorruptBatch(f"unknown magic {magic} of a message of Kafka 0.7", position=position, base_offset=offset)
    head = _HEADS[magic]
    if length < head.size - _LENGTH.size:
        raise CorruptBatch(f"impossible length {length} of a message", position=position, base_offset=offset)
    size = _LENGTH.size + length
    if left < size:
        detail = f"a message of {size} bytes is cut off after {left}"
        raise IncompleteBatch(detail, position=position, base_offset=offset)
    attributes, crc = 0, 0
    if magic == 0:
        _, _, crc = head.unpack_from(view, position)
    else:
        _, _, attributes, crc = head.unpack_from(view, position)
    codec = attributes & _CODEC_MASK
    if codec >= len(CODECS):
        raise CorruptBatch(f"unknown codec {codec} of a message of Kafka 0.7", position=position, base_offset=offset)
    return Entry(offset, size, magic, CODECS[codec], crc, view[position + head.size : position + size])
