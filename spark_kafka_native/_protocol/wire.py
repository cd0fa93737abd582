"""Kafka's wire primitives over a memoryview, and the type names that message fields are declared with.

Readers take ``(buffer, position)`` and return ``(value, next position)``. Writers append to a bytearray. Integers are
big-endian; varints are LEB128 (`unsigned` ones carry lengths and tags in flexible versions, KIP-482); compact lengths
are stored plus one, so that zero stands for null.

Limits follow Apache Kafka 4.4: an array of more than 1,000,000 elements or more than 10,000 tagged fields in one
struct is refused, and so is any length that the rest of the buffer cannot hold, before anything is allocated for it.
"""

import struct
from dataclasses import dataclass
from typing import Annotated, Final, Protocol, TypeAlias
from uuid import UUID

from spark_kafka_native._protocol.errors import RemoteProtocolError

MAX_ARRAY_ELEMENTS: Final = 1_000_000
MAX_TAGGED_FIELDS: Final = 10_000
ZERO_UUID: Final = UUID(int=0)
"""Kafka's "no id"."""


class HasFileno(Protocol):
    """An open file, as ``os.sendfile`` needs it."""

    def fileno(self) -> int:
        """The descriptor."""
        ...


class FileOwner(Protocol):
    """Knows a file and opens it on demand."""

    def file(self) -> HasFileno:
        """The file, open for as long as the result is held. Raises OSError; FileNotFoundError: it was removed."""
        ...


@dataclass(frozen=True, slots=True)
class FileRegion:
    """``length`` bytes of a file from ``position`` on, to be sent without passing through Python.

    The file is opened when the bytes are sent, so that a waiting region holds no descriptor.
    """

    owner: FileOwner
    position: int
    length: int

    def __len__(self) -> int:
        return self.length


Buffer: TypeAlias = bytes | bytearray | memoryview
Chunk: TypeAlias = Buffer | FileRegion
RecordsValue: TypeAlias = Chunk | tuple[Chunk, ...]

Bool = Annotated[bool, "bool"]
Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
UInt16 = Annotated[int, "uint16"]
Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
Float64 = Annotated[float, "float64"]
String = Annotated[str, "string"]
Bytes = Annotated[bytes, "bytes"]
Uuid = Annotated[UUID, "uuid"]
Records = Annotated[RecordsValue, "records"]
"""Record batches, untouched: decoded as a memoryview into the frame; encoded by reference, in one piece or several."""

FIXED_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}
"""``struct`` codes of the primitives with a fixed size and a Python value of their own."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def length_of(value: RecordsValue) -> int:
    """Bytes in a records value."""
    return sum(map(len, value)) if isinstance(value, tuple) else len(value)


def _short(what: str, need: int, position: int, buffer: memoryview) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what} needs {need} bytes at position {position}, {len(buffer) - position} are left")


# --- reading ---------------------------------------------------------------------------------------------------------


def read_int32(buffer: memoryview, position: int) -> tuple[int, int]:
    """A signed 32-bit integer."""
    return _INT32.unpack_from(buffer, position)[0], position + 4


def read_unsigned_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes and 32 bits."""
    if position < len(buffer) and (value := buffer[position]) < 0x80:  # nearly all are this short
        return value, position + 1
    value = shift = 0
    for index in range(position, min(position + 5, len(buffer))):
        byte = buffer[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, index + 1
        shift += 7
    raise RemoteProtocolError(f"malformed varint at position {position}")


def _take(buffer: memoryview, position: int, length: int, what: str) -> tuple[memoryview, int]:
    end = position + length
    if end > len(buffer):
        raise _short(what, length, position, buffer)
    return buffer[position:end], end


def _text(buffer: memoryview, position: int, length: int) -> tuple[str, int]:
    raw, end = _take(buffer, position, length, "string")
    try:
        return str(raw, "utf-8"), end
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"string at position {position} is not UTF-8: {error.reason}") from None


def _not_null(what: str, position: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"null {what} at position {position} where null is not allowed")


def read_nullable_string(buffer: memoryview, position: int) -> tuple[str | None, int]:
    """int16 length, -1 for null; UTF-8."""
    length = _INT16.unpack_from(buffer, position)[0]
    if length < 0:
        if length != -1:
            raise RemoteProtocolError(f"string length {length} at position {position}")
        return None, position + 2
    return _text(buffer, position + 2, length)


def read_string(buffer: memoryview, position: int) -> tuple[str, int]:
    """As ``read_nullable_string``; null is an error."""
    value, end = read_nullable_string(buffer, position)
    if value is None:
        raise _not_null("string", position)
    return value, end


def read_compact_nullable_string(buffer: memoryview, position: int) -> tuple[str | None, int]:
    """Unsigned varint length plus one, 0 for null; UTF-8."""
    length, start = read_unsigned_varint(buffer, position)
    return (None, start) if length == 0 else _text(buffer, start, length - 1)


def read_compact_string(buffer: memoryview, position: int) -> tuple[str, int]:
    """As ``read_compact_nullable_string``; null is an error."""
    value, end = read_compact_nullable_string(buffer, position)
    if value is None:
        raise _not_null("string", position)
    return value, end


def read_nullable_records(buffer: memoryview, position: int) -> tuple[memoryview | None, int]:
    """int32 length, -1 for null; a view into ``buffer``, not a copy."""
    length = _INT32.unpack_from(buffer, position)[0]
    if length < 0:
        if length != -1:
            raise RemoteProtocolError(f"bytes length {length} at position {position}")
        return None, position + 4
    return _take(buffer, position + 4, length, "bytes")


def read_compact_nullable_records(buffer: memoryview, position: int) -> tuple[memoryview | None, int]:
    """Unsigned varint length plus one, 0 for null; a view into ``buffer``, not a copy."""
    length, start = read_unsigned_varint(buffer, position)
    return (None, start) if length == 0 else _take(buffer, start, length - 1, "bytes")


def read_records(buffer: memoryview, position: int) -> tuple[memoryview, int]:
    """As ``read_nullable_records``; null is an error."""
    value, end = read_nullable_records(buffer, position)
    if value is None:
        raise _not_null("records", position)
    return value, end


def read_compact_records(buffer: memoryview, position: int) -> tuple[memoryview, int]:
    """As ``read_compact_nullable_records``; null is an error."""
    value, end = read_compact_nullable_records(buffer, position)
    if value is None:
        raise _not_null("records", position)
    return value, end


def read_nullable_bytes(buffer: memoryview, position: int) -> tuple[bytes | None, int]:
    """int32 length, -1 for null; copied."""
    value, end = read_nullable_records(buffer, position)
    return (None if value is None else bytes(value)), end


def read_bytes(buffer: memoryview, position: int) -> tuple[bytes, int]:
    """As ``read_nullable_bytes``; null is an error."""
    value, end = read_records(buffer, position)
    return bytes(value), end


def read_compact_bytes(buffer: memoryview, position: int) -> tuple[bytes, int]:
    """Unsigned varint length plus one; copied. Null is an error."""
    value, end = read_compact_records(buffer, position)
    return bytes(value), end


def read_uuid(buffer: memoryview, position: int) -> tuple[UUID, int]:
    """Sixteen bytes."""
    raw, end = _take(buffer, position, 16, "uuid")
    return UUID(bytes=bytes(raw)), end


def _check_count(count: int, position: int, buffer: memoryview) -> None:
    if count > MAX_ARRAY_ELEMENTS:
        raise RemoteProtocolError(
            f"array of {count} elements at position {position}; the limit is {MAX_ARRAY_ELEMENTS}"
        )
    if count > len(buffer) - position:
        raise _short(f"array of {count} elements", count, position, buffer)


def read_nullable_count(buffer: memoryview, position: int) -> tuple[int, int]:
    """How many elements an array has: int32, -1 for null. Every element takes at least a byte."""
    count, start = read_int32(buffer, position)
    if count < -1:
        raise RemoteProtocolError(f"array length {count} at position {position}")
    _check_count(count, start, buffer)
    return count, start


def read_count(buffer: memoryview, position: int) -> tuple[int, int]:
    """As ``read_nullable_count``; null is an error."""
    count, start = read_nullable_count(buffer, position)
    if count < 0:
        raise _not_null("array", position)
    return count, start


def read_compact_nullable_count(buffer: memoryview, position: int) -> tuple[int, int]:
    """How many elements an array has: unsigned varint plus one, 0 (returned as -1) for null."""
    stored, start = read_unsigned_varint(buffer, position)
    _check_count(stored - 1, start, buffer)
    return stored - 1, start


def read_compact_count(buffer: memoryview, position: int) -> tuple[int, int]:
    """As ``read_compact_nullable_count``; null is an error."""
    count, start = read_compact_nullable_count(buffer, position)
    if count < 0:
        raise _not_null("array", position)
    return count, start


def read_presence(buffer: memoryview, position: int) -> tuple[bool, int]:
    """The byte before a nullable struct: negative for null."""
    if position >= len(buffer):
        raise _short("struct", 1, position, buffer)
    return buffer[position] < 0x80, position + 1


def read_tagged_presence(buffer: memoryview, position: int) -> tuple[bool, int]:
    """The number before a nullable struct in a tagged field: 0 for null. There, Kafka writes it as a varint."""
    present, position = read_unsigned_varint(buffer, position)
    return present > 0, position


def read_tag_count(buffer: memoryview, position: int) -> tuple[int, int]:
    """How many tagged fields follow."""
    count, start = read_unsigned_varint(buffer, position)
    if count > MAX_TAGGED_FIELDS:
        raise RemoteProtocolError(f"{count} tagged fields at position {position}; the limit is {MAX_TAGGED_FIELDS}")
    return count, start


def read_tag(buffer: memoryview, position: int) -> tuple[int, int, int]:
    """One tagged field's tag, the position of its value, and the position after it."""
    tag, position = read_unsigned_varint(buffer, position)
    size, position = read_unsigned_varint(buffer, position)
    if position + size > len(buffer):
        raise _short(f"tagged field {tag}", size, position, buffer)
    return tag, position, position + size


# --- writing ---------------------------------------------------------------------------------------------------------


def put_unsigned_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_string(out: bytearray, value: str | None) -> None:
    """Append int16 length and UTF-8; -1 for null. Raises ``struct.error`` over 32,767 bytes."""
    if value is None:
        out += b"\xff\xff"
    else:
        raw = value.encode()
        out += _INT16.pack(len(raw))
        out += raw


def put_compact_string(out: bytearray, value: str | None) -> None:
    """Append unsigned varint length plus one and UTF-8; 0 for null."""
    if value is None:
        out.append(0)
    else:
        raw = value.encode()
        put_unsigned_varint(out, len(raw) + 1)
        out += raw


def put_bytes(out: bytearray, value: Buffer | None) -> None:
    """Append int32 length and the bytes; -1 for null."""
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += _INT32.pack(len(value))
        out += value


def put_compact_bytes(out: bytearray, value: Buffer | None) -> None:
    """Append unsigned varint length plus one and the bytes; 0 for null."""
    if value is None:
        out.append(0)
    else:
        put_unsigned_varint(out, len(value) + 1)
        out += value


def put_count(out: bytearray, count: int) -> None:
    """Append an array's int32 length; -1 for null."""
    out += _INT32.pack(count)


def put_compact_count(out: bytearray, count: int) -> None:
    """Append an array's unsigned varint length plus one; -1 becomes 0, null."""
    put_unsigned_varint(out, count + 1)


Splices: TypeAlias = list[tuple[int, Chunk]]
"""Chunks to be sent by reference, each with the position in the written bytes that it comes before."""

_INLINE_BYTES = 512
"""Records up to this size are cheaper copied than sent as a piece of their own."""


def _splice(out: bytearray, splices: Splices, value: RecordsValue) -> None:
    for piece in value if isinstance(value, tuple) else (value,):
        if isinstance(piece, FileRegion) or len(piece) > _INLINE_BYTES:
            splices.append((len(out), piece))
        else:
            out += piece


def put_records(out: bytearray, splices: Splices, value: RecordsValue | None) -> None:
    """Append int32 length, and the records by reference; -1 for null."""
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += _INT32.pack(length_of(value))
        _splice(out, splices, value)


def put_compact_records(out: bytearray, splices: Splices, value: RecordsValue | None) -> None:
    """Append unsigned varint length plus one, and the records by reference; 0 for null."""
    if value is None:
        out.append(0)
    else:
        put_unsigned_varint(out, length_of(value) + 1)
        _splice(out, splices, value)


def chunks_of(out: bytearray, splices: Splices) -> list[Chunk]:
    """What was written, in wire order: slices of ``out`` with the spliced pieces between them."""
    if not splices:
        return [out]
    view = memoryview(out)
    chunks: list[Chunk] = []
    start = 0
    for position, piece in splices:
        if position > start:
            chunks.append(view[start:position])
        chunks.append(piece)
        start = position
    if start < len(out):
        chunks.append(view[start:])
    return chunks
