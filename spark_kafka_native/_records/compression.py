"""Codecs by their ids in a record batch, their levels (KIP-390), and how each compresses a payload.

What is written is what Apache Kafka's Java clients write:

* gzip: one member (RFC 1952).
* snappy: snappy-java's framing, ``82 "SNAPPY" 00``, version int32 1, compatible int32 1, then blocks of at most 32 KiB,
  each after its compressed size (int32, big-endian).
* lz4: the LZ4 frame format, independent blocks of 64 KiB, neither content size nor checksums.
* zstd: a frame (RFC 8878).

The libraries are imported at first use, because a broker that never looks into a batch does not need them.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    import zstandard

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes to read; a memoryview must be one of single bytes."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
BLOCK_SIZE: Final = struct.Struct(">i")
_XERIAL_BLOCK_BYTES = 32 * 1024
GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_LZ4_DEFAULT_LEVEL = 9  # names lz4's fast compressor, every other level its "high compression" one (KIP-390)
_LZ4_FAST = 0
_LZ4_MAX_LEVEL = 12  # the library's; Kafka counts up to 17
_ZSTD_DEFAULT_LEVEL = 3
_ZSTD_STREAM_BYTES = 8 * 1024 * 1024
"""What a stream of unknown size is compressed for. High levels would take 700 MiB for the largest window."""

_idle_zstd: dict[int, "list[zstandard.ZstdCompressor]"] = {}
"""Compressors that no call uses, by level. Take one with ``pop``, and ``append`` it after use; both are atomic."""


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

    @property
    def max_ratio(self) -> int:
        """Bytes that one compressed byte can become at most."""
        return _MAX_RATIOS[self]

    def check_level(self, level: int) -> None:
        """Raise ValueError unless the codec has the compression level."""
        if self.levels is None:
            raise ValueError(f"compression {self.label} has no levels, {level} was given")
        if level not in self.levels:
            bounds = f"{self.levels[0]} to {self.levels[-1]}"
            raise ValueError(f"compression level {level} of {self.label} is not within {bounds}")


_LEVELS = {
    CompressionType.GZIP: range(1, 10),
    CompressionType.LZ4: range(1, 18),
    CompressionType.ZSTD: range(-131072, 23),
}
_MAX_RATIOS = {
    CompressionType.NONE: 1,
    CompressionType.GZIP: 1032,
    CompressionType.SNAPPY: 22,
    CompressionType.LZ4: 255,
    CompressionType.ZSTD: 32 * 1024,
}


class Compressor(Protocol):
    """Compress pieces, in order, into one payload: what ``compress`` returns each time, and then ``flush``."""

    def compress(self, data: Buffer, /) -> bytes:
        """Take a piece, and return compressed bytes, maybe none yet."""

    def flush(self) -> bytes:
        """The rest. Nothing can be compressed after it."""


def compress(codec: CompressionType, payload: Buffer, level: int | None = None) -> bytes:
    """``payload`` compressed by ``codec``, at Kafka's default level unless one is given.

    Raises ValueError: a level the codec does not have.
    """
    if level is not None:
        codec.check_level(level)
    match codec:
        case CompressionType.NONE:
            return bytes(payload)
        case CompressionType.SNAPPY:
            return b"".join((XERIAL_HEADER, *_snappy_blocks(memoryview(payload))))
        case CompressionType.LZ4:
            return _lz4_frame(payload, level)
        case CompressionType.ZSTD:
            return _zstd_frame(payload, level)
    one = compressor(codec, level)
    return one.compress(payload) + one.flush()


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
            return zlib.compressobj(-1 if level is None else level, wbits=GZIP_WBITS)
        case CompressionType.SNAPPY:
            return _Snappy()
        case CompressionType.LZ4:
            return _Frame(_lz4_frame, _Lz4Stream, level)
        case CompressionType.ZSTD:
            return _Frame(_zstd_frame, _zstd_stream, level)


class _Plain:
    def compress(self, data: Buffer) -> bytes:
        return bytes(data)

    def flush(self) -> bytes:
        return b""


class _Snappy:
    """A header, then blocks, each after its compressed size."""

    def __init__(self) -> None:
        self._header = XERIAL_HEADER
        self._waiting = b""

    def compress(self, data: Buffer) -> bytes:
        plain = memoryview(self._waiting + bytes(data))
        whole = len(plain) // _XERIAL_BLOCK_BYTES * _XERIAL_BLOCK_BYTES
        self._waiting = bytes(plain[whole:])
        return self._with_header(plain[:whole])

    def flush(self) -> bytes:
        return self._with_header(memoryview(self._waiting))

    def _with_header(self, plain: memoryview) -> bytes:
        header, self._header = self._header, b""
        return b"".join((header, *_snappy_blocks(plain)))


def _snappy_blocks(plain: memoryview) -> Iterator[bytes]:
    import cramjam  # noqa: PLC0415 -- at first use

    for start in range(0, len(plain), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(plain[start : start + _XERIAL_BLOCK_BYTES]))
        yield BLOCK_SIZE.pack(len(block))
        yield block


class _Frame:
    """A frame, written in one call if there is one piece, else as a stream, which takes longer."""

    def __init__(
        self,
        in_one_call: Callable[[Buffer, int | None], bytes],
        stream: Callable[[int | None], Compressor],
        level: int | None,
    ) -> None:
        self._in_one_call, self._new_stream, self._level = in_one_call, stream, level
        self._first = b""
        self._stream: Compressor | None = None

    def compress(self, data: Buffer) -> bytes:
        if self._stream is not None:
            return self._stream.compress(data)
        if not self._first:
            self._first = bytes(data)
            return b""
        self._stream = self._new_stream(self._level)
        first, self._first = self._first, b""
        return self._stream.compress(first) + self._stream.compress(data)

    def flush(self) -> bytes:
        return self._in_one_call(self._first, self._level) if self._stream is None else self._stream.flush()


def _lz4_frame(payload: Buffer, level: int | None) -> bytes:
    import lz4.frame  # noqa: PLC0415 -- at first use

    frame: bytes = lz4.frame.compress(
        payload,
        compression_level=_lz4_level(level),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


class _Lz4Stream:
    def __init__(self, level: int | None) -> None:
        import lz4.frame  # noqa: PLC0415 -- at first use

        self._frame = lz4.frame.LZ4FrameCompressor(
            compression_level=_lz4_level(level), block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False
        )
        self._begun: bytes = self._frame.begin()

    def compress(self, data: Buffer) -> bytes:
        begun, self._begun = self._begun, b""
        compressed: bytes = self._frame.compress(data)
        return begun + compressed

    def flush(self) -> bytes:
        end: bytes = self._frame.flush()
        return end


def _lz4_level(level: int | None) -> int:
    """The level that the lz4 library takes for Kafka's."""
    if level is None or level == _LZ4_DEFAULT_LEVEL:
        return _LZ4_FAST
    return min(level, _LZ4_MAX_LEVEL)


def _zstd_frame(payload: Buffer, level: int | None) -> bytes:
    import zstandard  # noqa: PLC0415 -- at first use

    level = _ZSTD_DEFAULT_LEVEL if level is None else level
    idle = _idle_zstd.setdefault(level, [])
    try:
        one = idle.pop()
    except IndexError:
        one = zstandard.ZstdCompressor(level=level)
    frame = one.compress(payload)
    idle.append(one)
    return frame


def _zstd_stream(level: int | None) -> Compressor:
    """A frame without content size, which is not known at its start."""
    import zstandard  # noqa: PLC0415 -- at first use

    level = _ZSTD_DEFAULT_LEVEL if level is None else level
    params = zstandard.ZstdCompressionParameters.from_level(level, source_size=_ZSTD_STREAM_BYTES)
    return zstandard.ZstdCompressor(compression_params=params).compressobj()
