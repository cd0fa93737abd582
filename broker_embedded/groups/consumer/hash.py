"""XXH3, the 64-bit hash with no seed, in plain Python: Apache Kafka writes hashes of topics into its groups' records.

Values are hashed as their bytes in little-endian order; a string is its UTF-16 code units and then their number. Inputs
are some hundred bytes long and hashed when a topic changes, so nothing is gained by anything faster.
"""

import struct
from collections.abc import Iterable
from typing import Final, Self

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2, _PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME64_4, _PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_PRIME_MX1, _PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_STRIPES_PER_BLOCK: Final = 16
_BLOCK: Final = _STRIPE * _STRIPES_PER_BLOCK
_WORDS: Final = struct.Struct("<8Q")
_START: Final = (
    _PRIME32_3,
    _PRIME64_1,
    _PRIME64_2,
    _PRIME64_3,
    _PRIME64_4,
    _PRIME32_2,
    _PRIME64_5,
    _PRIME32_1,
)


class XXH3:
    """What is to be hashed, put together piece by piece."""

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
        """Append text, as Java's strings are made."""
        units = text.encode("utf-16-le")
        self._data += units
        return self.put_int(len(units) // 2)

    def signed_digest(self) -> int:
        """The hash, as a signed number of 64 bits."""
        digest = xxh3_64(bytes(self._data))
        return digest - (1 << 64) if digest >> 63 else digest


def xxh3_64(data: bytes) -> int:
    """The hash of ``data``, unsigned."""
    size = len(data)
    if size <= 16:
        return _short(data, size)
    if size <= 128:
        return _medium(data, size)
    if size <= 240:
        return _larger(data, size)
    return _long(data, size)


def _short(data: bytes, size: int) -> int:
    if size > 8:
        low = _read64(data, 0) ^ _read64(_SECRET, 24) ^ _read64(_SECRET, 32)
        high = _read64(data, size - 8) ^ _read64(_SECRET, 40) ^ _read64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(size + swapped + high + _fold(low, high))
    if size >= 4:
        both = _read32(data, size - 4) + (_read32(data, 0) << 32)
        return _strong_avalanche(both ^ _read64(_SECRET, 8) ^ _read64(_SECRET, 16), size)
    if size > 0:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _xxh64_avalanche(combined ^ _read32(_SECRET, 0) ^ _read32(_SECRET, 4))
    return _xxh64_avalanche(_read64(_SECRET, 56) ^ _read64(_SECRET, 64))


def _medium(data: bytes, size: int) -> int:
    total = size * _PRIME64_1
    for pair in range((size - 1) // 32 + 1):
        total += _mix(data, 16 * pair, 32 * pair) + _mix(data, size - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(total)


def _larger(data: bytes, size: int) -> int:
    total = size * _PRIME64_1 + sum(_mix(data, 16 * index, 16 * index) for index in range(8))
    total = _avalanche(total)
    total += sum(_mix(data, 16 * index, 16 * (index - 8) + 3) for index in range(8, size // 16))
    return _avalanche(total + _mix(data, size - 16, 119))


def _long(data: bytes, size: int) -> int:
    lanes = list(_START)
    blocks = (size - 1) // _BLOCK
    for block in range(blocks):
        for stripe in range(_STRIPES_PER_BLOCK):
            _accumulate(lanes, data, block * _BLOCK + stripe * _STRIPE, 8 * stripe)
        _scramble(lanes)
    for stripe in range((size - 1 - blocks * _BLOCK) // _STRIPE):
        _accumulate(lanes, data, blocks * _BLOCK + stripe * _STRIPE, 8 * stripe)
    _accumulate(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _PRIME64_1
    for index in range(0, 8, 2):
        total += _fold(
            lanes[index] ^ _read64(_SECRET, 11 + 8 * index), lanes[index + 1] ^ _read64(_SECRET, 19 + 8 * index)
        )
    return _avalanche(total)


def _accumulate(lanes: list[int], data: bytes, position: int, secret_position: int) -> None:
    words = _WORDS.unpack_from(data, position)
    secrets = _WORDS.unpack_from(_SECRET, secret_position)
    for index, (word, secret) in enumerate(zip(words, secrets, strict=True)):
        keyed = word ^ secret
        lanes[index ^ 1] = (lanes[index ^ 1] + word) & _MASK
        lanes[index] = (lanes[index] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _MASK


def _scramble(lanes: list[int]) -> None:
    for index, secret in enumerate(_WORDS.unpack_from(_SECRET, len(_SECRET) - _STRIPE)):
        lanes[index] = ((lanes[index] ^ lanes[index] >> 47 ^ secret) * _PRIME32_1) & _MASK


def _mix(data: bytes, position: int, secret_position: int) -> int:
    return _fold(
        _read64(data, position) ^ _read64(_SECRET, secret_position),
        _read64(data, position + 8) ^ _read64(_SECRET, secret_position + 8),
    )


def _fold(left: int, right: int) -> int:
    product = left * right
    return (product ^ product >> 64) & _MASK


def _avalanche(value: int) -> int:
    value &= _MASK
    value = ((value ^ value >> 37) * _PRIME_MX1) & _MASK
    return value ^ value >> 32


def _strong_avalanche(value: int, size: int) -> int:
    value ^= _rotated(value, 49) ^ _rotated(value, 24)
    value = (value * _PRIME_MX2) & _MASK
    value = ((value ^ (value >> 35) + size) * _PRIME_MX2) & _MASK
    return value ^ value >> 28


def _xxh64_avalanche(value: int) -> int:
    value = ((value ^ value >> 33) * _PRIME64_2) & _MASK
    value = ((value ^ value >> 29) * _PRIME64_3) & _MASK
    return value ^ value >> 32


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _read32(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "little")


def _read64(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 8], "little")
