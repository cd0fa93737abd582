"""Codec ids of a record batch, and the codecs: gzip, snappy, lz4 and zstd over the payload as a whole.

What is written is what Apache Kafka's Java clients write, and what they read is read:

* gzip: one member (RFC 1952); several members behind each other are read as one payload.
* snappy: snappy-java's framing, ``82 "SNAPPY" 00``, version int32 1, compatible int32 1, then blocks of at most 32 KiB,
  each behind its compressed size (int32, big-endian). A payload without that magic is read as one raw snappy block,
  which is what some C clients write. A second magic in place of a block's size starts a concatenated stream.
* lz4: the LZ4 frame format, independent blocks of 64 KiB, neither content size nor checksums.
* zstd: frames (RFC 8878), with or without content size.

Decompression stops at a cap, refuses bytes after the last frame, and raises CorruptBatch for anything else that is
wrong. `at_once` is the fast path for one complete frame of a likely size; `pieces` reads everything else. The libraries
are imported at first use: a broker that never looks into a batch does not pay for them.
"""

import zlib

from spark_kafka_native.records import at_once
from spark_kafka_native.records.codec import (
    XERIAL_BLOCK_BYTES,
    Buffer,
    CompressionType,
    gzip_level,
    lz4_level,
    zstd_level,
)
from spark_kafka_native.records.pieces import (
    BLOCK_SIZE,
    GZIP_WBITS,
    XERIAL_HEADER,
    decompressed_pieces,
    idle_zstd_compressors,
)

__all__ = ["MAX_DECOMPRESSED_BYTES", "Buffer", "CompressionType", "compress", "decompress"]

MAX_DECOMPRESSED_BYTES = 512 * 1024 * 1024
"""Cap on one batch's decompressed payload unless the caller names another."""

_LARGE_PIECES = 16 * 1024 * 1024


def compress(codec: CompressionType, payload: Buffer, level: int | None = None) -> bytes:
    """``payload`` compressed by ``codec``, at Kafka's default level unless one is given.

    Raises ValueError: a level the codec does not have.
    """
    if level is not None:
        codec.check_level(level)
    match codec:
        case CompressionType.NONE:
            return bytes(payload)
        case CompressionType.GZIP:
            compressor = zlib.compressobj(gzip_level(level), wbits=GZIP_WBITS)
            return compressor.compress(payload) + compressor.flush()
        case CompressionType.SNAPPY:
            return _compress_snappy(payload)
        case CompressionType.LZ4:
            return _compress_lz4(payload, lz4_level(level))
        case CompressionType.ZSTD:
            return _compress_zstd(payload, zstd_level(level))


def decompress(
    codec: CompressionType, payload: Buffer, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes | memoryview:
    """What ``compress`` was given. With NONE a view of ``payload`` itself, else a copy that the caller owns.

    Raises CorruptBatch: not what the codec writes, cut off, or followed by other bytes. OversizedBatch: larger than
    ``max_bytes``.
    """
    if codec is CompressionType.NONE:
        return memoryview(payload)
    plain = None
    if codec is CompressionType.LZ4:
        plain = at_once.lz4_frame(payload, max_bytes)
    elif codec is CompressionType.ZSTD:
        plain = at_once.zstd_frame(payload, max_bytes)
    if plain is not None:
        return plain
    pieces = list(decompressed_pieces(codec, payload, max_bytes=max_bytes, piece_bytes=_LARGE_PIECES))
    return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)


def _compress_snappy(payload: Buffer) -> bytes:
    import snappy  # noqa: PLC0415 -- at first use

    view = memoryview(payload)
    pieces = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = snappy.compress(view[start : start + XERIAL_BLOCK_BYTES])
        pieces += BLOCK_SIZE.pack(len(block)), block
    return b"".join(pieces)


def _compress_lz4(payload: Buffer, level: int) -> bytes:
    import lz4.frame  # noqa: PLC0415 -- at first use

    frame: bytes = lz4.frame.compress(
        payload,
        compression_level=level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _compress_zstd(payload: Buffer, level: int) -> bytes:
    import zstandard  # noqa: PLC0415 -- at first use

    idle = idle_zstd_compressors.setdefault(level, [])
    try:
        compressor = idle.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=level)
    frame = compressor.compress(payload)
    idle.append(compressor)
    return frame
