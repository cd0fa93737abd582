"""Hashes of topics in the records of groups, as Apache Kafka writes them: XXH3 of 64 bits without a seed.

Values are hashed as their bytes in little-endian order. A string is its UTF-16 code units, followed by their number.
"""

from collections.abc import Iterable
from typing import Final, Self

from xxhash import xxh3_64_intdigest

_MASK: Final = 0xFFFFFFFFFFFFFFFF


class XXH3:
    """The bytes to hash, appended value by value."""

    def __init__(self) -> None:
        self._data = bytearray()

    def put_byte(self, value: int) -> Self:
        """Append an unsigned byte."""
        self._data.append(value)
        return self

    def put_int(self, value: int) -> Self:
        """Append 32 bits."""
        self._data += (value & 0xFFFFFFFF).to_bytes(4, "little")
        return self

    def put_long(self, value: int) -> Self:
        """Append 64 bits, of a signed or unsigned number."""
        self._data += (value & _MASK).to_bytes(8, "little")
        return self

    def put_longs(self, values: Iterable[int]) -> Self:
        """Append 64 bits for each number."""
        for value in values:
            self.put_long(value)
        return self

    def put_string(self, text: str) -> Self:
        """Append text as UTF-16 code units and their number."""
        units = text.encode("utf-16-le")
        self._data += units
        return self.put_int(len(units) // 2)

    def signed_digest(self) -> int:
        """The hash, as a signed number of 64 bits."""
        digest = xxh3_64_intdigest(self._data)
        return digest - (1 << 64) if digest >> 63 else digest
