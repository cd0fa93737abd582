"""The codecs of a record batch piece by piece, in both directions, with buffers of bounded size.

A few KiB can decompress to 512 MiB. Records that are only inspected, or that are written to another batch, do not need
the payload as a whole. With `SMALL_PIECES` a piece has at most 64 KiB of gzip and lz4. Of zstd, whose library has no
limit, it has at most 16 MiB, because 512 bytes are decompressed at a time and each can become 32 KiB. Snappy has no
limit either: the producer decides the size of a block, which is at most 22 times its compressed size.

The formats are described in `compression`. The libraries are imported at first use. Context objects of zstd are costly
to make and must not be used by two threads at once: idle ones wait in a list, whose ``pop`` and ``append`` are atomic,
and each call has its own.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from spark_kafka_native.records.codec import (
    XERIAL_BLOCK_BYTES,
    Buffer,
    CompressionType,
    gzip_level,
    lz4_level,
    zstd_level,
)
from spark_kafka_native.records.errors import CorruptBatch, OversizedBatch

if TYPE_CHECKING:
    import zstandard

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC_AS_SIZE = struct.unpack_from(">i", XERIAL_MAGIC)[0]
BLOCK_SIZE = struct.Struct(">i")

GZIP_WBITS = 16 + zlib.MAX_WBITS
SMALL_PIECES = 64 * 1024
_GZIP_FIRST_FED = 1024
"""Input given to a gzip member first. It doubles, because the library copies what the member leaves."""
_LZ4_LEAST_PIECE = 64 * 1024
_ZSTD_LEAST_FED = 512
_ZSTD_LIKELY_RATIO = 1024
_ZSTD_STREAM_BYTES = 8 * 1024 * 1024
"""What a stream of unknown size is compressed for. High levels would take 700 MiB for the largest window."""

idle_zstd_compressors: dict[int, "list[zstandard.ZstdCompressor]"] = {}
"""Compressors that no call uses, by level, as `idle_zstd`."""
idle_zstd: "list[zstandard.ZstdDecompressor]" = []
"""Decompressors that no call uses. Take one with ``pop``, and ``append`` it unless there was an error."""


def decompressed_pieces(
    codec: CompressionType, stored: Buffer, *, max_bytes: int, piece_bytes: int = SMALL_PIECES
) -> Iterator[Buffer]:
    """The pieces of a decompressed payload. With NONE it is one, ``stored`` itself.

    ``piece_bytes`` is what a piece has at most of gzip and lz4, and about what a piece has at most of zstd.

    Raises CorruptBatch: not what the codec writes, cut off, or followed by other bytes. OversizedBatch: larger than
    ``max_bytes``.
    """
    match codec:
        case CompressionType.NONE:
            pieces: Iterator[Buffer] = iter((memoryview(stored),))
        case CompressionType.GZIP:
            pieces = _gzip_pieces(memoryview(stored), piece_bytes)
        case CompressionType.SNAPPY:
            yield from _snappy_pieces(memoryview(stored), max_bytes)
            return
        case CompressionType.LZ4:
            pieces = _lz4_pieces(memoryview(stored), piece_bytes)
        case CompressionType.ZSTD:
            step = min(piece_bytes // _ZSTD_LIKELY_RATIO, max_bytes // codec.max_ratio)
            pieces = _zstd_pieces(memoryview(stored), max(step, _ZSTD_LEAST_FED))
    left = max_bytes
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise too_large(codec, max_bytes)
        yield piece


def too_large(codec: CompressionType, max_bytes: int) -> OversizedBatch:
    """The error for a payload larger than the caller allows."""
    return OversizedBatch(f"{codec.label} payload decompresses to more than {max_bytes} bytes")


def _gzip_pieces(view: memoryview, piece_bytes: int) -> Iterator[bytes]:
    position = 0
    while position < len(view) or not position:
        member = zlib.decompressobj(wbits=GZIP_WBITS)
        fed: Buffer = b""
        step = _GZIP_FIRST_FED
        while not member.eof:
            if not fed:
                fed = view[position : position + step]
                position += len(fed)
                step = min(2 * step, max(_GZIP_FIRST_FED, piece_bytes))
            try:
                piece = member.decompress(fed, piece_bytes)
            except zlib.error as error:
                raise CorruptBatch(f"gzip payload: {error}") from error
            if not piece and not fed and not member.eof:
                raise CorruptBatch("gzip payload is cut off")
            fed = member.unconsumed_tail
            yield piece
        position -= len(member.unused_data)


def _snappy_pieces(view: memoryview, max_bytes: int) -> Iterator[bytes]:
    if len(view) < len(XERIAL_HEADER) or view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        yield _snappy_block(view, max_bytes, max_bytes)
        return
    left = max_bytes
    position = len(XERIAL_HEADER)
    while position < len(view):
        if len(view) - position < BLOCK_SIZE.size:
            raise CorruptBatch("snappy payload is cut off within a block's size")
        (size,) = BLOCK_SIZE.unpack_from(view, position)
        if size == _XERIAL_MAGIC_AS_SIZE and view[position : position + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            position += len(XERIAL_HEADER)
            continue
        position += BLOCK_SIZE.size
        if not 0 <= size <= len(view) - position:
            raise CorruptBatch(f"snappy block of {size} bytes where {len(view) - position} are left")
        piece = _snappy_block(view[position : position + size], left, max_bytes)
        left -= len(piece)
        position += size
        yield piece


def _snappy_block(block: memoryview, left: int, max_bytes: int) -> bytes:
    import snappy  # noqa: PLC0415 -- at first use

    if _snappy_length(block) > left:
        raise too_large(CompressionType.SNAPPY, max_bytes)
    if _snappy_length(block) > CompressionType.SNAPPY.max_ratio * len(block):  # the library would allocate it first
        raise CorruptBatch(f"snappy payload: {len(block)} bytes cannot become {_snappy_length(block)}")
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


def _lz4_pieces(view: memoryview, piece_bytes: int) -> Iterator[bytes]:
    import lz4.frame  # noqa: PLC0415 -- at first use

    decompressor = lz4.frame.LZ4FrameDecompressor()
    position = 0
    piece_bytes = min(piece_bytes, max(_LZ4_LEAST_PIECE, 4 * len(view)))  # the library allocates it
    step = max(1, piece_bytes // 4)
    while not decompressor.eof:
        fed = view[position : position + step] if decompressor.needs_input else b""
        position += len(fed)
        try:
            piece = decompressor.decompress(fed, max_length=piece_bytes)
        except RuntimeError as error:
            raise CorruptBatch(f"lz4 payload: {error}") from error
        if not piece and not decompressor.eof and position == len(view) and not fed:
            raise CorruptBatch("lz4 payload is cut off")
        yield piece
    extra = len(decompressor.unused_data or b"") + len(view) - position
    if extra:
        raise CorruptBatch(f"lz4 payload: {extra} bytes after its frame")


def _zstd_pieces(view: memoryview, step: int) -> Iterator[bytes]:
    import zstandard  # noqa: PLC0415 -- at first use

    try:
        decompressor = idle_zstd.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    position = 0
    frame = decompressor.decompressobj()
    while position < len(view) or not frame.eof:
        if frame.eof:
            frame = decompressor.decompressobj()
        fed = view[position : position + step]
        if not fed:
            raise CorruptBatch("zstd payload is cut off")
        try:
            piece = frame.decompress(fed)
        except zstandard.ZstdError as error:
            raise CorruptBatch(f"zstd payload: {error}") from error
        position += len(fed) - len(frame.unused_data)
        yield piece
    idle_zstd.append(decompressor)


# --- compressing -----------------------------------------------------------------------------------------------------


class Compressor(Protocol):
    """Compress pieces, in order, into one payload: what ``compress`` returns each time, and then ``flush``."""

    def compress(self, data: Buffer, /) -> bytes:
        """Take a piece, and return compressed bytes, maybe none yet."""

    def flush(self) -> bytes:
        """The rest. Nothing can be compressed after it."""


def compressor(codec: CompressionType, level: int | None = None) -> Compressor:
    """A compressor for one payload, at Kafka's default level unless one is given.

    Raises ValueError: a level the codec does not have.
    """
    if level is not None:
        codec.check_level(level)
    match codec:
        case CompressionType.NONE:
            return _Plain()
        case CompressionType.GZIP:
            return zlib.compressobj(gzip_level(level), wbits=GZIP_WBITS)
        case CompressionType.SNAPPY:
            return _Snappy()
        case CompressionType.LZ4:
            return _Lz4(level)
        case CompressionType.ZSTD:
            return _Zstd(zstd_level(level))


class _Plain:
    def compress(self, data: Buffer) -> bytes:
        return bytes(data)

    def flush(self) -> bytes:
        return b""


class _Snappy:
    """Blocks of `XERIAL_BLOCK_BYTES`, each after its compressed size."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._out = bytearray(XERIAL_HEADER)

    def compress(self, data: Buffer) -> bytes:
        self._waiting += data
        whole = len(self._waiting) // XERIAL_BLOCK_BYTES * XERIAL_BLOCK_BYTES
        for start in range(0, whole, XERIAL_BLOCK_BYTES):
            self._add(self._waiting[start : start + XERIAL_BLOCK_BYTES])
        del self._waiting[:whole]
        return self._take()

    def flush(self) -> bytes:
        if self._waiting:
            self._add(self._waiting)
        return self._take()

    def _add(self, plain: bytearray) -> None:
        import snappy  # noqa: PLC0415 -- at first use

        block = snappy.compress(bytes(plain))
        self._out += BLOCK_SIZE.pack(len(block)) + block

    def _take(self) -> bytes:
        taken, self._out = bytes(self._out), bytearray()
        return taken


class _Lz4:
    """A frame as Kafka writes it: see `compression`."""

    def __init__(self, level: int | None) -> None:
        import lz4.frame  # noqa: PLC0415 -- at first use

        self._frame = lz4.frame.LZ4FrameCompressor(
            compression_level=lz4_level(level), block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False
        )
        self._begun: bytes = self._frame.begin()

    def compress(self, data: Buffer) -> bytes:
        begun, self._begun = self._begun, b""
        compressed: bytes = self._frame.compress(data)
        return begun + compressed

    def flush(self) -> bytes:
        end: bytes = self._frame.flush()
        return self._begun + end


class _Zstd:
    """A frame. It has its content size if there is one piece; of several pieces the size is not known at its start."""

    def __init__(self, level: int) -> None:
        import zstandard  # noqa: PLC0415 -- at first use

        self._idle = idle_zstd_compressors.setdefault(level, [])
        try:
            self._compressor = self._idle.pop()
        except IndexError:
            self._compressor = zstandard.ZstdCompressor(level=level)
        self._level = level
        self._frame: zstandard.ZstdCompressionObj | None = None
        self._first = b""

    def compress(self, data: Buffer) -> bytes:
        if self._frame is not None:
            return self._frame.compress(data)
        if not self._first:
            self._first = bytes(data)
            return b""
        self._frame = self._stream()
        first, self._first = self._first, b""
        return self._frame.compress(first) + self._frame.compress(data)

    def flush(self) -> bytes:
        end = self._compressor.compress(self._first) if self._frame is None else self._frame.flush()
        self._idle.append(self._compressor)
        return end

    def _stream(self) -> "zstandard.ZstdCompressionObj":
        import zstandard  # noqa: PLC0415 -- at first use

        params = zstandard.ZstdCompressionParameters.from_level(self._level, source_size=_ZSTD_STREAM_BYTES)
        return zstandard.ZstdCompressor(compression_params=params).compressobj()
