"""Compression codecs by their ids in a record batch, with the levels that Kafka allows (KIP-390)."""

from enum import IntEnum
from typing import Self, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes to read; a memoryview must be one of single bytes."""

XERIAL_BLOCK_BYTES = 32 * 1024
"""Uncompressed size of the blocks that snappy-java writes."""
_LZ4_DEFAULT_LEVEL = 9  # names lz4's fast compressor, every other level its "high compression" one (KIP-390)
_LZ4_FAST = 0
_LZ4_MAX_LEVEL = 12  # the library's; Kafka counts up to 17
_ZSTD_DEFAULT_LEVEL = 3


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
_MAX_RATIOS = {
    CompressionType.NONE: 1,
    CompressionType.GZIP: 1032,
    CompressionType.SNAPPY: 22,
    CompressionType.LZ4: 255,
    CompressionType.ZSTD: 32 * 1024,
}


def gzip_level(level: int | None) -> int:
    """The level that zlib takes, -1 for its default."""
    return -1 if level is None else level


def lz4_level(level: int | None) -> int:
    """The level that the lz4 library takes for Kafka's."""
    if level is None or level == _LZ4_DEFAULT_LEVEL:
        return _LZ4_FAST
    return min(level, _LZ4_MAX_LEVEL)


def zstd_level(level: int | None) -> int:
    """The level that the zstandard library takes."""
    return _ZSTD_DEFAULT_LEVEL if level is None else level
