"""Codec ids of a record batch, and the codecs: gzip, snappy, lz4 and zstd over the payload as a whole.

What is written is what Apache Kafka's Java clients write, and what they read is read:

* gzip: one member (RFC 1952); several members behind each other are read as one payload.
* snappy: snappy-java's framing, ``82 "SNAPPY" 00``, version int32 1, compatible int32 1, then blocks of at most 32 KiB,
  each behind its compressed size (int32, big-endian). A payload without that magic is read as one raw snappy block,
  which is what some C clients write. A second magic in place of a block's size starts a concatenated stream.
* lz4: the LZ4 frame format, independent blocks of 64 KiB, neither content size nor checksums.
* zstd: frames (RFC 8878), with or without content size.

Decompression stops at a cap, refuses bytes behind the last frame, and raises CorruptBatch for anything else that is
wrong; what is as it often is takes a shorter way (`at_once`). The libraries are imported at first use: a broker that
never looks into a batch does not pay for them.

Context objects of zstd are costly to make and must not be used by two threads at once: idle ones wait in a list, whose
``pop`` and ``append`` are atomic, and each call has its own.
"""

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Self, TypeAlias

from spark_kafka_native.records import at_once
from spark_kafka_native.records.errors import CorruptBatch

if TYPE_CHECKING:
    import zstandard

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes to read; a memoryview must be one of single bytes."""

MAX_DECOMPRESSED_BYTES = 512 * 1024 * 1024
"""Cap on one batch's decompressed payload unless the caller names another."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC_AS_SIZE = struct.unpack_from(">i", _XERIAL_MAGIC)[0]
_XERIAL_BLOCK_BYTES = 32 * 1024
_SIZE = struct.Struct(">i")

_GZIP_WBITS = 16 + zlib.MAX_WBITS
_LZ4_KAFKA_DEFAULT_LEVEL = 9  # names lz4's fast compressor, every other level its "high compression" one (KIP-390)
_LZ4_FAST = 0
_LZ4_MAX_LEVEL = 12  # the library's; Kafka counts up to 17
_ZSTD_MAX_TIMES = 32 * 1024  # no input becomes larger
_ZSTD_FEED_BYTES = 1024
"""Input given to zstd between two looks at the cap, at least: such a piece expands to 32 MiB at most."""


class CompressionType(IntEnum):
    """How a batch's payload is compressed; the numbers are the ids in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """Kafka's name of the codec, as in ``compression.type``."""
        return self.name.lower()

    @property
    def levels(self) -> range | None:
        """The levels Kafka allows (KIP-390); None where a codec has none."""
        return _LEVELS.get(self)

    @classmethod
    def from_name(cls, name: str) -> Self:
        """The codec called ``name`` in Kafka's configurations. Raises ValueError naming the choices."""
        for codec in cls:
            if codec.label == name:
                return codec
        raise ValueError(f"unknown compression {name!r}; choose one of {', '.join(codec.label for codec in cls)}")


_LEVELS = {
    CompressionType.GZIP: range(1, 10),
    CompressionType.LZ4: range(1, 18),
    CompressionType.ZSTD: range(-131072, 23),
}
_idle_zstd_compressors: dict[int, "list[zstandard.ZstdCompressor]"] = {}
_idle_zstd_decompressors: "list[zstandard.ZstdDecompressor]" = []


def compress(codec: CompressionType, payload: Buffer, level: int | None = None) -> bytes:
    """``payload`` compressed by ``codec``, at Kafka's default level unless one is given.

    Raises ValueError: a level the codec does not have.
    """
    if level is not None and level not in (codec.levels or ()):
        raise ValueError(_level_trouble(codec, level))
    match codec:
        case CompressionType.NONE:
            return bytes(payload)
        case CompressionType.GZIP:
            compressor = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, wbits=_GZIP_WBITS)
            return compressor.compress(payload) + compressor.flush()
        case CompressionType.SNAPPY:
            return _compress_snappy(payload)
        case CompressionType.LZ4:
            return _compress_lz4(payload, _LZ4_KAFKA_DEFAULT_LEVEL if level is None else level)
        case CompressionType.ZSTD:
            return _compress_zstd(payload, 3 if level is None else level)


def decompress(
    codec: CompressionType, payload: Buffer, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes | memoryview:
    """What ``compress`` was given. With NONE a view of ``payload`` itself, else a copy that the caller owns.

    Raises CorruptBatch: not what the codec writes, cut off, followed by other bytes, or larger than ``max_bytes``.
    """
    match codec:
        case CompressionType.NONE:
            return memoryview(payload)
        case CompressionType.GZIP:
            return _decompress_gzip(payload, max_bytes)
        case CompressionType.SNAPPY:
            return _decompress_snappy(payload, max_bytes)
        case CompressionType.LZ4:
            return _decompress_lz4(payload, max_bytes)
        case CompressionType.ZSTD:
            return _decompress_zstd(payload, max_bytes)


def _level_trouble(codec: CompressionType, level: int) -> str:
    if codec.levels is None:
        return f"compression {codec.label} has no levels, {level} was given"
    return f"compression level {level} of {codec.label} is not within {codec.levels[0]} to {codec.levels[-1]}"


def _decompress_gzip(payload: Buffer, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    room = max_bytes
    rest: Buffer = payload
    while rest or not pieces:
        member = zlib.decompressobj(wbits=_GZIP_WBITS)
        try:
            piece = member.decompress(rest, room + 1)
        except zlib.error as error:
            raise CorruptBatch(f"gzip payload: {error}") from error
        room -= len(piece)
        if room < 0:
            raise _too_large(CompressionType.GZIP, max_bytes)
        if not member.eof:
            raise CorruptBatch("gzip payload is cut off")
        pieces.append(piece)
        rest = member.unused_data
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _compress_snappy(payload: Buffer) -> bytes:
    import snappy  # noqa: PLC0415 -- at first use

    view = memoryview(payload)
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(view[start : start + _XERIAL_BLOCK_BYTES])
        pieces += _SIZE.pack(len(block)), block
    return b"".join(pieces)


def _decompress_snappy(payload: Buffer, max_bytes: int) -> bytes:
    view = memoryview(payload)
    if len(view) < len(_XERIAL_HEADER) or view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes, max_bytes)
    pieces: list[bytes] = []
    room = max_bytes
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if len(view) - position < _SIZE.size:
            raise CorruptBatch("snappy payload is cut off within a block's size")
        (size,) = _SIZE.unpack_from(view, position)
        if size == _XERIAL_MAGIC_AS_SIZE and view[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        position += _SIZE.size
        if not 0 <= size <= len(view) - position:
            raise CorruptBatch(f"snappy block of {size} bytes where {len(view) - position} are left")
        pieces.append(_decompress_snappy_block(view[position : position + size], room, max_bytes))
        room -= len(pieces[-1])
        position += size
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _decompress_snappy_block(block: memoryview, room: int, max_bytes: int) -> bytes:
    import snappy  # noqa: PLC0415 -- at first use

    if _snappy_length(block) > room:
        raise _too_large(CompressionType.SNAPPY, max_bytes)
    try:
        plain: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise CorruptBatch(f"snappy payload: {error.__cause__ or 'not a snappy block'}") from error
    return plain


def _snappy_length(block: memoryview) -> int:
    """The decompressed length a raw snappy block starts with: a varint, lowest seven bits first."""
    length = 0
    for shift, byte in zip(range(0, 35, 7), block, strict=False):
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length
    raise CorruptBatch("snappy block without a length")


def _compress_lz4(payload: Buffer, level: int) -> bytes:
    import lz4.frame  # noqa: PLC0415 -- at first use

    frame: bytes = lz4.frame.compress(
        payload,
        compression_level=_LZ4_FAST if level == _LZ4_KAFKA_DEFAULT_LEVEL else min(level, _LZ4_MAX_LEVEL),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _decompress_lz4(payload: Buffer, max_bytes: int) -> bytes:
    import lz4.frame  # noqa: PLC0415 -- at first use

    if (plain := at_once.lz4_frame(payload, max_bytes)) is not None:
        return plain
    decompressor = lz4.frame.LZ4FrameDecompressor()
    pieces: list[bytes] = []
    room = max_bytes
    # The library allocates max_length at once: ask for what is likely, then for as much again.
    step = max(64 * 1024, 4 * len(payload))
    fed: Buffer = payload
    while not decompressor.eof:
        try:
            piece = decompressor.decompress(fed, max_length=min(step, room + 1))
        except RuntimeError as error:
            raise CorruptBatch(f"lz4 payload: {error}") from error
        fed = b""
        room -= len(piece)
        if room < 0:
            raise _too_large(CompressionType.LZ4, max_bytes)
        if not piece and not decompressor.eof:
            raise CorruptBatch("lz4 payload is cut off")
        pieces.append(piece)
        step *= 2
    if decompressor.unused_data:
        raise CorruptBatch(f"lz4 payload: {len(decompressor.unused_data)} bytes behind its frame")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _compress_zstd(payload: Buffer, level: int) -> bytes:
    import zstandard  # noqa: PLC0415 -- at first use

    idle = _idle_zstd_compressors.setdefault(level, [])
    try:
        compressor = idle.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=level)
    frame = compressor.compress(payload)
    idle.append(compressor)
    return frame


def _decompress_zstd(payload: Buffer, max_bytes: int) -> bytes:
    import zstandard  # noqa: PLC0415 -- at first use

    try:
        decompressor = _idle_zstd_decompressors.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        plain = at_once.zstd_frame(decompressor, payload, max_bytes)
        if plain is None:
            plain = _decompress_zstd_frames(decompressor, memoryview(payload), max_bytes)
    except zstandard.ZstdError as error:
        raise CorruptBatch(f"zstd payload: {error}") from error
    _idle_zstd_decompressors.append(decompressor)
    return plain


def _decompress_zstd_frames(decompressor: "zstandard.ZstdDecompressor", view: memoryview, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    room = max_bytes
    position = 0
    frame = decompressor.decompressobj()
    while position < len(view) or not frame.eof:
        if frame.eof:
            frame = decompressor.decompressobj()
        fed = view[position : position + max(room // _ZSTD_MAX_TIMES, _ZSTD_FEED_BYTES)]
        if not fed:
            raise CorruptBatch("zstd payload is cut off")
        piece = frame.decompress(fed)
        position += len(fed) - len(frame.unused_data)
        room -= len(piece)
        if room < 0:
            raise _too_large(CompressionType.ZSTD, max_bytes)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(codec: CompressionType, max_bytes: int) -> CorruptBatch:
    return CorruptBatch(f"{codec.label} payload decompresses to more than {max_bytes} bytes")
