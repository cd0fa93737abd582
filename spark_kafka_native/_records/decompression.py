"""Payloads of record batches decompressed: as a whole, into a scratch, or in pieces of bounded size.

A few KiB can decompress to 512 MiB. Records that are only inspected, or that are written to another batch, do not need
the payload as a whole. With `SMALL_PIECES` a piece has at most 64 KiB of gzip and lz4. Of zstd, whose library has no
limit, it has at most 16 MiB, because 512 bytes are decompressed at a time and each can become 32 KiB. Snappy has no
limit either: the producer decides the size of a block, which is at most 22 times its compressed size.

What Apache Kafka's Java clients read is read: what `compression` writes, and

* gzip: several members after each other, as one payload.
* snappy: a second magic in place of a block's size, which starts a concatenated stream. A payload without the magic is
  one raw snappy block, which some C clients write.
* zstd: several frames, with or without content size.

Decompression stops at a limit, refuses bytes after the last frame, and raises CorruptBatch for any other error. The
libraries are imported at first use.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from spark_kafka_native._records.compression import (
    BLOCK_SIZE,
    GZIP_WBITS,
    XERIAL_HEADER,
    XERIAL_MAGIC,
    Buffer,
    CompressionType,
)
from spark_kafka_native._records.errors import CorruptBatch, OversizedBatch

if TYPE_CHECKING:
    import zstandard

    from spark_kafka_native._records.scratch import Scratch

MAX_DECOMPRESSED_BYTES = 512 * 1024 * 1024
"""Limit of one batch's decompressed payload unless the caller names another."""
SMALL_PIECES = 64 * 1024
_LARGE_PIECES = 16 * 1024 * 1024

_XERIAL_MAGIC_AS_SIZE = struct.unpack_from(">i", XERIAL_MAGIC)[0]
_GZIP_FIRST_FED = 1024
"""Input given to a gzip member first. It doubles, because the library copies what the member leaves."""
_GZIP_MAX_TIMES = CompressionType.GZIP.max_ratio
_LZ4_MIN_PIECE = 64 * 1024
_ZSTD_MIN_FED = 512
_ZSTD_MAX_KEPT_BYTES = 16 << 20
"""Enough for the windows of zstd's levels up to 19, 8 MiB."""
_ZSTD_LIKELY_RATIO = 1024
_ZSTD_LIKELY_BYTES = 64 * 1024
_ZSTD_LIKELY_TIMES = 64
"""The content size in a frame is likely if it is at most this, or at most so many times the size of the frame."""
_LZ4_HEADER_BYTES = 7
_LZ4_HEADERS: Final = {
    bytes.fromhex("04224d18604082"): 1 << 16,
    bytes.fromhex("04224d186050fb"): 1 << 18,
    bytes.fromhex("04224d18606051"): 1 << 20,
    bytes.fromhex("04224d18607073"): 1 << 22,
}
"""Frame headers that Kafka's clients write (independent blocks, no checksums, no content size), each with the largest
size of its blocks.
"""
_LZ4_SIZE: Final = struct.Struct("<I")
_LZ4_UNCOMPRESSED = 1 << 31
"""This bit of a block's size is set if the block is not compressed."""

_idle_zstd: "list[zstandard.ZstdDecompressor]" = []
"""Decompressors that no call uses: they are costly to make, and two threads must not use one at once.

``pop`` and ``append`` are atomic.
"""


def decompress(codec: CompressionType, payload: Buffer, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """The payload that was compressed. With NONE it is a view of ``payload``, else a copy that the caller owns.

    Raises CorruptBatch: not what the codec writes, cut off, or followed by other bytes. OversizedBatch: larger than
    ``max_bytes``.
    """
    if codec is CompressionType.NONE:
        return memoryview(payload)
    return b"".join(decompressed_pieces(codec, payload, max_bytes=max_bytes, piece_bytes=_LARGE_PIECES))


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
            pieces = _zstd_pieces(memoryview(stored), max(step, _ZSTD_MIN_FED))
    left = max_bytes
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise _too_large(codec, max_bytes)
        yield piece


def _too_large(codec: CompressionType, max_bytes: int) -> OversizedBatch:
    return OversizedBatch(f"{codec.label} payload decompresses to more than {max_bytes} bytes")


def _gzip_pieces(view: memoryview, piece_bytes: int) -> Iterator[bytes]:
    from isal import isal_zlib  # noqa: PLC0415 -- at first use

    position = 0
    while position < len(view) or not position:
        member = isal_zlib.decompressobj(wbits=GZIP_WBITS)
        fed: Buffer = b""
        step = _GZIP_FIRST_FED
        while not member.eof:
            if not fed:
                fed = view[position : position + step]
                position += len(fed)
                step = min(2 * step, max(_GZIP_FIRST_FED, piece_bytes))
            try:
                piece = member.decompress(fed, piece_bytes)
            except isal_zlib.error as error:  # type: ignore[misc]  # typed as an instance
                raise CorruptBatch(f"gzip payload: {error}") from error
            if not piece and not fed and not member.eof:
                raise CorruptBatch("gzip payload is cut off")
            fed = member.unconsumed_tail
            yield piece
        position -= len(member.unused_data)


def _snappy_pieces(view: memoryview, max_bytes: int) -> Iterator[bytes]:
    import cramjam  # noqa: PLC0415 -- at first use

    for block, _ in _snappy_blocks(view, max_bytes):
        try:
            plain = bytes(cramjam.snappy.decompress_raw(block))
        except cramjam.DecompressionError as error:
            raise _snappy_error(error) from error
        yield plain


def _snappy_blocks(view: memoryview, max_bytes: int) -> Iterator[tuple[memoryview, int]]:
    """Each block and its decompressed length, which the library allocates. Together they have at most ``max_bytes``."""
    import cramjam  # noqa: PLC0415 -- at first use

    left = max_bytes
    for block in _snappy_stored_blocks(view):
        try:
            length = cramjam.snappy.decompress_raw_len(block)
        except cramjam.DecompressionError as error:
            raise _snappy_error(error) from error
        if length > left:
            raise _too_large(CompressionType.SNAPPY, max_bytes)
        if length > CompressionType.SNAPPY.max_ratio * len(block):
            raise CorruptBatch(f"snappy payload: {len(block)} bytes cannot become {length}")
        left -= length
        yield block, length


def _snappy_stored_blocks(view: memoryview) -> Iterator[memoryview]:
    if len(view) < len(XERIAL_HEADER) or view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        yield view
        return
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
        yield view[position : position + size]
        position += size


def _snappy_error(error: Exception) -> CorruptBatch:
    reason = str(error).removeprefix("snappy: ")
    return CorruptBatch(f"snappy payload: {reason}")


def _lz4_pieces(view: memoryview, piece_bytes: int) -> Iterator[bytes]:
    import lz4.frame  # noqa: PLC0415 -- at first use

    decompressor = lz4.frame.LZ4FrameDecompressor()
    position = 0
    piece_bytes = min(piece_bytes, max(_LZ4_MIN_PIECE, 4 * len(view)))  # the library allocates it
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


def _zstd_decompressor() -> "zstandard.ZstdDecompressor":
    """A decompressor for one caller, who calls ``_keep_zstd`` after the last frame; after an error it is dropped."""
    import zstandard  # noqa: PLC0415 -- at first use

    try:
        return _idle_zstd.pop()
    except IndexError:
        return zstandard.ZstdDecompressor()


def _keep_zstd(decompressor: "zstandard.ZstdDecompressor") -> None:
    """Append it to ``_idle_zstd``, unless the window of a frame made its buffers larger than `_ZSTD_MAX_KEPT_BYTES`."""
    if decompressor.memory_size() <= _ZSTD_MAX_KEPT_BYTES:
        _idle_zstd.append(decompressor)


def _zstd_pieces(view: memoryview, step: int) -> Iterator[bytes]:
    import zstandard  # noqa: PLC0415 -- at first use

    decompressor = _zstd_decompressor()
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
    _keep_zstd(decompressor)


# --- into a scratch --------------------------------------------------------------------------------------------------


def decompress_to(target: "Scratch", codec: CompressionType, stored: Buffer, *, max_bytes: int) -> int:
    """Decompress ``stored`` to the end of ``target``; returns the number of bytes added.

    Raises CorruptBatch: not what the codec writes, cut off, or followed by other bytes. OversizedBatch: larger than
    ``max_bytes``. ``target`` may have some of it then.
    """
    faster = _FASTER.get(codec)
    length = None if faster is None else faster(target, stored, max_bytes)
    if length is not None:
        return length
    length = 0
    for piece in decompressed_pieces(codec, stored, max_bytes=max_bytes, piece_bytes=_LARGE_PIECES):
        length += _add(target, piece)
    return length


def _add(target: "Scratch", piece: Buffer) -> int:
    target.reserve(len(piece))[:] = piece
    target.add(len(piece))
    return len(piece)


def _gzip_to(target: "Scratch", stored: Buffer, max_bytes: int) -> int | None:
    from isal import isal_zlib  # noqa: PLC0415 -- at first use

    if _GZIP_MAX_TIMES * len(stored) > max_bytes:
        return None
    member = isal_zlib.decompressobj(wbits=GZIP_WBITS)
    try:
        plain = member.decompress(stored)
    except isal_zlib.error:  # type: ignore[misc]  # typed as an instance
        return None
    return _add(target, plain) if member.eof and not member.unused_data else None


def _snappy_to(target: "Scratch", stored: Buffer, max_bytes: int) -> int:
    import cramjam  # noqa: PLC0415 -- at first use

    added = 0
    for block, length in _snappy_blocks(memoryview(stored), max_bytes):
        try:
            cramjam.snappy.decompress_raw_into(block, target.reserve(length))
        except cramjam.DecompressionError as error:
            raise _snappy_error(error) from error
        target.add(length)
        added += length
    return added


def _lz4_to(target: "Scratch", stored: Buffer, max_bytes: int) -> int | None:
    block_bytes = _LZ4_HEADERS.get(bytes(stored[:_LZ4_HEADER_BYTES]))
    if block_bytes is None:
        return None
    view, position, length, begin = memoryview(stored), _LZ4_HEADER_BYTES, 0, target.used
    full_length = 0
    while (start := position + _LZ4_SIZE.size) <= len(view):
        (size,) = _LZ4_SIZE.unpack_from(view, position)
        if not size:
            if start < len(view):
                raise CorruptBatch(f"lz4 payload: {len(view) - start} bytes after its frame")
            return length
        if length != full_length:  # Kafka's clients write only the last block smaller; many small ones take long here
            target.used = begin
            return None
        full_length += block_bytes
        is_uncompressed, size = size & _LZ4_UNCOMPRESSED, size & ~_LZ4_UNCOMPRESSED
        position = start + size
        if size > block_bytes:
            raise CorruptBatch(f"lz4 payload: a block of {size} bytes where {block_bytes} are the most")
        if position > len(view):
            break
        block = view[start:position]
        length += _add(target, block) if is_uncompressed else _add_lz4_block(target, block, block_bytes)
        if length > max_bytes:
            raise _too_large(CompressionType.LZ4, max_bytes)
    raise CorruptBatch("lz4 payload is cut off")


def _add_lz4_block(target: "Scratch", block: memoryview, max_bytes: int) -> int:
    import cramjam  # noqa: PLC0415 -- at first use

    memory = target.reserve(max_bytes)
    try:
        added = cramjam.lz4.decompress_block_into(block, memory, output_len=max_bytes)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"lz4 payload: its block of {len(block)} bytes is damaged") from error
    target.add(added)
    return added


def _zstd_to(target: "Scratch", stored: Buffer, max_bytes: int) -> int | None:
    import zstandard  # noqa: PLC0415 -- at first use

    try:
        # The library allocates that size. After a frame with a size of 0, or without one, it ignores other bytes.
        size = zstandard.frame_content_size(stored)
        if not 0 < size <= min(max_bytes, max(_ZSTD_LIKELY_BYTES, _ZSTD_LIKELY_TIMES * len(stored))):
            return None
        decompressor = _zstd_decompressor()
        plain = decompressor.decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError:
        return None
    _keep_zstd(decompressor)
    return _add(target, plain)


_FASTER: Final[Mapping[CompressionType, "Callable[[Scratch, Buffer, int], int | None]"]] = {
    CompressionType.GZIP: _gzip_to,
    CompressionType.SNAPPY: _snappy_to,
    CompressionType.LZ4: _lz4_to,
    CompressionType.ZSTD: _zstd_to,
}
"""Fast paths. For payloads that they do not handle, such as damaged gzip and zstd, they return None and add nothing."""
