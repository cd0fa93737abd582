"""Payloads in pieces: the same bytes as at once, pieces of a bounded size, work in proportion to the payload.

And the frames that are decompressed in one call.
"""

import random
import struct

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native.records.compression import CompressionType, compress, compressor
from spark_kafka_native.records.decompression import (
    SMALL_PIECES,
    decompress,
    decompressed_pieces,
    lz4_frame,
    zstd_frame,
)
from spark_kafka_native.records.errors import CorruptBatch
from tests.support.memory import with_peak_bytes

CODECS = [codec for codec in CompressionType if codec is not CompressionType.NONE]
MIB = 1024 * 1024
PLAIN = bytes(3 * MIB) + random.Random(1).randbytes(100_000) + bytes(3 * MIB)
CAP = 1 << 29
TEXT = b"".join(b"%d bottles of beer on the wall. " % bottles for bottles in range(900))
LZ4 = compress(CompressionType.LZ4, TEXT)
ZSTD = compress(CompressionType.ZSTD, TEXT)


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("piece_bytes", [SMALL_PIECES, 16 * MIB])
def test_pieces_are_the_payload(codec: CompressionType, piece_bytes: int) -> None:
    stored = compress(codec, PLAIN)
    found = list(decompressed_pieces(codec, stored, max_bytes=len(PLAIN), piece_bytes=piece_bytes))
    assert b"".join(found) == PLAIN


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4])
def test_a_piece_has_64_kib_at_most(codec: CompressionType) -> None:
    stored = compress(codec, PLAIN)
    assert max(map(len, decompressed_pieces(codec, stored, max_bytes=len(PLAIN)))) <= 64 * 1024


def test_a_piece_of_zstd_has_16_mib_at_most() -> None:
    stored = compress(CompressionType.ZSTD, bytes(300 * MIB))
    pieces = decompressed_pieces(CompressionType.ZSTD, stored, max_bytes=300 * MIB)
    sizes, peak = with_peak_bytes(lambda: [len(piece) for piece in pieces])
    assert sum(sizes) == 300 * MIB
    assert max(sizes) <= 16 * MIB
    assert peak <= 40 * MIB


def test_a_piece_of_zstd_stays_near_a_low_bound() -> None:
    stored = compress(CompressionType.ZSTD, bytes(300 * MIB))
    pieces = decompressed_pieces(CompressionType.ZSTD, stored, max_bytes=16 * MIB, piece_bytes=16 * MIB)

    def refuse() -> None:
        with pytest.raises(CorruptBatch, match="decompresses to more than 16777216 bytes"):
            list(pieces)

    _, peak = with_peak_bytes(refuse)
    assert peak <= 64 * MIB


@pytest.mark.parametrize("codec", CODECS)
def test_one_byte_too_much_is_refused(codec: CompressionType) -> None:
    stored = compress(codec, PLAIN)
    with pytest.raises(CorruptBatch, match=f"{codec.label} payload decompresses to more than {len(PLAIN) - 1} bytes"):
        list(decompressed_pieces(codec, stored, max_bytes=len(PLAIN) - 1))


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_and_every_tail_is_refused(codec: CompressionType) -> None:
    stored = compress(codec, b"All work and no play. " * 50)
    refused = 0
    for end in range(len(stored)):
        try:
            cut = b"".join(decompressed_pieces(codec, stored[:end], max_bytes=MIB))
        except CorruptBatch:
            refused += 1
        else:
            assert codec is CompressionType.SNAPPY  # which ends between two blocks
            assert cut == b""
    assert refused >= len(stored) - 2
    with pytest.raises(CorruptBatch):
        list(decompressed_pieces(codec, stored + b"\x01\x02\x03", max_bytes=MIB))


def test_a_snappy_block_cannot_claim_more_than_the_format_allows() -> None:
    with pytest.raises(CorruptBatch, match="snappy payload: 6 bytes cannot become 268435455"):
        list(decompressed_pieces(CompressionType.SNAPPY, b"\xff\xff\xff\x7f\x00\x00", max_bytes=1 << 29))


@pytest.mark.parametrize("codec", CODECS)
def test_no_payload_becomes_larger_than_the_codecs_ratio(codec: CompressionType) -> None:
    for size in (10, 1000, MIB, 32 * MIB):
        assert size <= codec.max_ratio * len(compress(codec, bytes(size)))
    assert len(snappy.uncompress(snappy.compress(bytes(MIB)))) == MIB


@pytest.mark.parametrize("codec", CompressionType)
@given(parts=st.lists(st.binary(max_size=40) | st.integers(0, 90_000).map(bytes), max_size=5))
@settings(max_examples=40)
def test_compressed_pieces_are_read_as_one_payload(codec: CompressionType, parts: list[bytes]) -> None:
    one = compressor(codec)
    stored = b"".join([*map(one.compress, parts), one.flush()])
    assert bytes(decompress(codec, stored)) == b"".join(parts)


@pytest.mark.parametrize("level", [1, 19, 22])
def test_the_window_of_a_zstd_stream_is_bounded(level: int) -> None:
    """A writer of the highest level, and every reader of what it writes, would hold 128 MiB and more otherwise."""
    one = compressor(CompressionType.ZSTD, level)
    stored = one.compress(b"first") + one.compress(b"second") + one.flush()
    assert zstandard.get_frame_parameters(stored).window_size <= 8 * MIB


@pytest.mark.parametrize("codec", CODECS)
def test_levels_are_checked(codec: CompressionType) -> None:
    with pytest.raises(ValueError, match="level"):
        compressor(codec, 99)
    best = None if codec.levels is None else codec.levels[-1]
    one = compressor(codec, best)
    assert bytes(decompress(codec, one.compress(PLAIN[:1000]) + one.flush())) == PLAIN[:1000]


def unzstd(stored: bytes | bytearray | memoryview, max_bytes: int = CAP) -> bytes | None:
    return zstd_frame(stored, max_bytes)


@pytest.mark.parametrize("stored", [ZSTD, bytearray(ZSTD), memoryview(b"x" + ZSTD)[1:]])
def test_zstd_frames_within_the_limit(stored: bytes) -> None:
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
def test_lz4_frames_within_the_limit(stored: bytes) -> None:
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
