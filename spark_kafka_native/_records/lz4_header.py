"""The header checksum of an lz4 frame, which is wrong in message format v0 (KAFKA-3160, KIP-57).

A frame begins, little-endian::

    frame = magic       uint32  0x184D2204
            descriptor  FLG byte, BD byte, content size uint64 if FLG bit 3 is set, dictionary id uint32 if bit 0 is
            checksum    byte    the second byte of xxHash-32 of the descriptor
            ...

Kafka's clients before 0.10 hashed the magic number too. Brokers and clients still write that in messages of format v0
and take any checksum there; from format v1 on it is as the lz4 frame format has it.
"""

from xxhash import xxh32_intdigest

from spark_kafka_native._records.errors import CorruptBatch

_MAGIC_BYTES = 4
_FLAGS_AT = 4
_CONTENT_SIZE_BIT = 0x08
_DICTIONARY_BIT = 0x01


def repair_checksum(frame: bytes | bytearray | memoryview) -> bytearray:
    """A copy of ``frame`` with the checksum that its descriptor has by the lz4 frame format.

    Raises CorruptBatch: the frame ends before its descriptor does.
    """
    return _with_checksum(frame, first=_MAGIC_BYTES)


def break_checksum(frame: bytes | bytearray | memoryview) -> bytearray:
    """A copy of ``frame``, made without content size, with the checksum that message format v0 has."""
    return _with_checksum(frame, first=0)


def _with_checksum(frame: bytes | bytearray | memoryview, *, first: int) -> bytearray:
    changed = bytearray(frame)
    if len(changed) > _FLAGS_AT:
        flags = changed[_FLAGS_AT]
        at = _MAGIC_BYTES + 2 + (8 if flags & _CONTENT_SIZE_BIT else 0) + (4 if flags & _DICTIONARY_BIT else 0)
        if len(changed) > at:
            changed[at] = xxh32_intdigest(changed[first:at]) >> 8 & 0xFF
            return changed
    raise CorruptBatch("lz4 payload is cut off within its header")
