"""The header checksum of an lz4 frame, which Kafka got wrong in message format v0 (KAFKA-3160, KIP-57).

A frame begins, little-endian::

    frame = magic       uint32  0x184D2204
            descriptor  FLG byte, BD byte, content size uint64 if FLG bit 3 is set, dictionary id uint32 if bit 0 is
            checksum    byte    the second byte of xxHash-32 of the descriptor
            ...

Kafka's clients before 0.10 hashed the magic number too. Brokers and clients still write that in messages of format v0
and take any checksum there; from format v1 on it is as the lz4 frame format has it. xxHash-32 is all that is needed
of a library that nothing else needs, and only of input shorter than 16 bytes, so that it is written out here.
"""

from spark_kafka_native.records.errors import CorruptBatch

_MAGIC_BYTES = 4
_FLAGS_AT = 4
_CONTENT_SIZE_BIT = 0x08
_DICTIONARY_BIT = 0x01

_PRIME_1 = 2654435761
_PRIME_2 = 2246822519
_PRIME_3 = 3266489917
_PRIME_4 = 668265263
_PRIME_5 = 374761393
_MASK = 0xFFFFFFFF
_LONGEST = 15  # behind that xxHash-32 begins differently
_WORD = 4


def mend_checksum(frame: bytes | bytearray | memoryview) -> bytearray:
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
            changed[at] = xxh32(bytes(changed[first:at])) >> 8 & 0xFF
            return changed
    raise CorruptBatch("lz4 payload is cut off within its header")


def xxh32(data: bytes) -> int:
    """XxHash-32 of fewer than 16 bytes, seed 0. Raises ValueError: there are more."""
    if len(data) > _LONGEST:
        raise ValueError(f"{len(data)} bytes are more than {_LONGEST}")
    value = _PRIME_5 + len(data)
    whole = len(data) - len(data) % _WORD
    for at in range(0, whole, _WORD):
        value += int.from_bytes(data[at : at + _WORD], "little") * _PRIME_3
        value = _rotated(value, 17) * _PRIME_4
    for byte in data[whole:]:
        value += byte * _PRIME_5
        value = _rotated(value, 11) * _PRIME_1
    value &= _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return value << bits & _MASK | value >> 32 - bits
