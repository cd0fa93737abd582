"""Decompressing in one call what is as it often is: one whole frame, as large as is likely.

That takes less time than going piece by piece with an eye on the cap. Whatever else it is, damaged, a part, several
frames or a bomb, is None here, and for `compression` to read and to explain.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zstandard

_ZSTD_LIKELY_BYTES = 64 * 1024
_ZSTD_LIKELY_TIMES = 64
"""What a frame says it becomes is likely if it is no more than this, or no more than so many times its own size."""
_LZ4_LIKELY_BYTES = 64 * 1024  # of a frame; with larger ones it is slower
_LZ4_MAX_TIMES = 255  # no frame can become larger
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HAS_SIZE = 0x08


def zstd_frame(
    decompressor: "zstandard.ZstdDecompressor", stored: bytes | bytearray | memoryview, max_bytes: int
) -> bytes | None:
    """What is in a frame that says how large it becomes; None if it is not one, whole and alone, of a likely size."""
    import zstandard  # noqa: PLC0415 -- at first use

    try:
        # The library allocates that size; and behind a size of 0, or none, it does not look what else there is.
        size = zstandard.frame_content_size(stored)
        if not 0 < size <= min(max_bytes, max(_ZSTD_LIKELY_BYTES, _ZSTD_LIKELY_TIMES * len(stored))):
            return None
        return decompressor.decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError:
        return None


def lz4_frame(stored: bytes | bytearray | memoryview, max_bytes: int) -> bytes | None:
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
