"""Fast path: decompress one complete frame of a likely size in one call.

That takes less time than `pieces`. For anything else (damaged, cut off, several frames, too large) these functions
return None, and `pieces` reads the payload or raises the error.
"""

from spark_kafka_native.records.codec import Buffer
from spark_kafka_native.records.pieces import idle_zstd

_ZSTD_LIKELY_BYTES = 64 * 1024
_ZSTD_LIKELY_TIMES = 64
"""What a frame says it becomes is likely if it is no more than this, or no more than so many times its own size."""
_LZ4_LIKELY_BYTES = 64 * 1024  # of a frame; with larger ones it is slower
_LZ4_MAX_TIMES = 255  # no frame can become larger
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HAS_SIZE = 0x08


def zstd_frame(stored: Buffer, max_bytes: int) -> bytes | None:
    """What is in a frame that says how large it becomes; None if it is not one, whole and alone, of a likely size."""
    import zstandard  # noqa: PLC0415 -- at first use

    try:
        # The library allocates that size; and behind a size of 0, or none, it does not look what else there is.
        size = zstandard.frame_content_size(stored)
        if not 0 < size <= min(max_bytes, max(_ZSTD_LIKELY_BYTES, _ZSTD_LIKELY_TIMES * len(stored))):
            return None
        try:
            decompressor = idle_zstd.pop()
        except IndexError:
            decompressor = zstandard.ZstdDecompressor()
        plain = decompressor.decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError:
        return None
    idle_zstd.append(decompressor)
    return plain


def lz4_frame(stored: Buffer, max_bytes: int) -> bytes | None:
    """What is in a frame; None if it is not one, as a whole and no more, that cannot become more than ``max_bytes``."""
    import lz4.frame  # noqa: PLC0415 -- at first use

    if len(stored) > _LZ4_LIKELY_BYTES or _LZ4_MAX_TIMES * len(stored) > max_bytes:
        return None
    if stored[:4] != _LZ4_MAGIC or len(stored) == 4 or stored[4] & _LZ4_HAS_SIZE:  # it would be allocated
        return None
    try:
        plain, used = lz4.frame.decompress(stored, return_bytes_read=True)
    except RuntimeError:
        return None
    whole: bytes | None = plain if used == len(stored) else None
    return whole
