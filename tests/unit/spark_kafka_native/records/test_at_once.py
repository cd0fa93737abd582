"""What is decompressed in one call, and what is left to those who look at each piece."""

import struct

import lz4.frame
import pytest
import zstandard

from spark_kafka_native.records.at_once import lz4_frame, zstd_frame
from spark_kafka_native.records.compression import CompressionType, compress, decompress

CAP = 1 << 29
TEXT = b"".join(b"%d bottles of beer on the wall. " % bottles for bottles in range(900))
LZ4 = compress(CompressionType.LZ4, TEXT)
ZSTD = compress(CompressionType.ZSTD, TEXT)


def unzstd(stored: bytes | bytearray | memoryview, max_bytes: int = CAP) -> bytes | None:
    return zstd_frame(stored, max_bytes)


@pytest.mark.parametrize("stored", [ZSTD, bytearray(ZSTD), memoryview(b"x" + ZSTD)[1:]])
def test_zstd(stored: bytes) -> None:
    assert unzstd(stored) == TEXT
    assert unzstd(stored, len(TEXT)) == TEXT
    assert unzstd(stored, len(TEXT) - 1) is None


def test_zstd_that_is_not_one_whole_frame() -> None:
    for end in range(len(ZSTD)):
        assert unzstd(ZSTD[:end]) is None
    for tail in (b"\x00", b"garbage", ZSTD, struct.pack("<II", 0x184D2A50, 3) + b"abc"):
        assert unzstd(ZSTD + tail) is None
    assert unzstd(struct.pack("<II", 0x184D2A50, 3) + b"abc" + ZSTD) is None


@pytest.mark.parametrize("plain", [TEXT, b""])
def test_zstd_without_a_size_is_left_to_others(plain: bytes) -> None:
    stored = zstandard.ZstdCompressor(write_content_size=False).compress(plain)
    assert unzstd(stored) is None
    assert decompress(CompressionType.ZSTD, stored) == plain


def test_zstd_that_becomes_much_or_nothing_is_left_to_others() -> None:
    for plain in (bytes(1 << 20), b""):
        stored = zstandard.ZstdCompressor().compress(plain)
        assert unzstd(stored) is None
        assert decompress(CompressionType.ZSTD, stored) == plain


def test_zstd_is_decompressed_after_an_error() -> None:
    for _ in range(3):
        assert zstd_frame(ZSTD[:-7], CAP) is None
        assert zstd_frame(ZSTD, CAP) == TEXT


@pytest.mark.parametrize("stored", [LZ4, bytearray(LZ4), memoryview(b"x" + LZ4)[1:]])
def test_lz4(stored: bytes) -> None:
    assert lz4_frame(stored, CAP) == TEXT
    assert lz4_frame(stored, 255 * len(stored)) == TEXT
    assert lz4_frame(stored, 255 * len(stored) - 1) is None


def test_lz4_that_is_not_one_whole_frame() -> None:
    for end in range(len(LZ4)):
        assert lz4_frame(LZ4[:end], CAP) is None
    skippable = struct.pack("<II", 0x184D2A50, 3) + b"abc"
    for other in (LZ4 + b"\x00", LZ4 + LZ4, LZ4 + skippable, skippable, skippable + LZ4):
        assert lz4_frame(other, CAP) is None


def test_lz4_with_a_size_or_of_some_size_is_left_to_others() -> None:
    large = bytes(20_000_000)
    for plain, stored in (
        (TEXT, lz4.frame.compress(TEXT, store_size=True)),
        (large, compress(CompressionType.LZ4, large)),
    ):
        assert lz4_frame(stored, CAP) is None
        assert decompress(CompressionType.LZ4, stored) == plain


def test_no_lz4_becomes_more_than_it_can() -> None:
    """The densest blocks there are: matches as long as can be."""
    for size in (1_000, 60_000, 1_000_000):
        assert 255 * len(compress(CompressionType.LZ4, bytes(size), 17)) > size
