"""Payloads in pieces: the same bytes as at once, pieces of a bounded size, work in proportion to the payload.

And the same bytes in a scratch.
"""

import random
import struct
from typing import Any

import cramjam
import lz4.block
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records import decompression
from spark_kafka_native._records.compression import Buffer, CompressionType, compress, compressor
from spark_kafka_native._records.decompression import (
    SMALL_PIECES,
    decompress,
    decompress_to,
    decompressed_pieces,
)
from spark_kafka_native._records.errors import CorruptBatch, OversizedBatch
from spark_kafka_native._records.lz4_header import repair_checksum
from spark_kafka_native._records.scratch import Scratch
from tests.support.memory import with_peak_bytes

CODECS = [codec for codec in CompressionType if codec is not CompressionType.NONE]
MIB = 1024 * 1024
PLAIN = bytes(3 * MIB) + random.Random(1).randbytes(100_000) + bytes(3 * MIB)
CAP = 1 << 29
TEXT = b"".join(b"%d bottles of beer on the wall. " % bottles for bottles in range(900))
SKIPPABLE = struct.pack("<II", 0x184D2A50, 3) + b"abc"
LZ4 = compress(CompressionType.LZ4, TEXT)
LZ4_HEADER = LZ4[:7]
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


def to_scratch(codec: CompressionType, stored: Buffer, max_bytes: int = CAP) -> bytes:
    memory = Scratch(memoryview(bytearray(4)))
    memory.reserve(3)[:] = b"abc"
    memory.add(3)
    length = decompress_to(memory, codec, stored, max_bytes=max_bytes)
    assert len(memory.data) == 3 + length
    assert bytes(memory.data[:3]) == b"abc"
    return bytes(memory.data[3:])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("plain", [b"", b"x", TEXT, PLAIN])
def test_decompressed_to_scratch(codec: CompressionType, plain: bytes) -> None:
    stored = compress(codec, plain)
    for same in (stored, bytearray(stored), memoryview(b"x" + stored)[1:]):
        assert to_scratch(codec, same) == plain
    assert to_scratch(codec, stored, len(plain)) == plain


@pytest.mark.parametrize("codec", CODECS)
def test_too_much_for_the_scratch(codec: CompressionType) -> None:
    with pytest.raises(OversizedBatch, match=f"{codec.label} payload decompresses to more than {len(PLAIN) - 1} bytes"):
        to_scratch(codec, compress(codec, PLAIN), len(PLAIN) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_what_pieces_refuse_is_refused(codec: CompressionType) -> None:
    """Also with a byte changed; then each may give up with another error."""
    stored = compress(codec, TEXT[:700])
    others = [stored[:end] for end in range(len(stored))]
    others += [stored + tail for tail in (b"\x00", b"\x00" * 8, b"garbage", stored, SKIPPABLE)] + [SKIPPABLE + stored]
    for at in range(len(stored)):
        changed = bytearray(stored)
        changed[at] ^= 0xFF
        others.append(bytes(changed))
    for other in others:
        try:
            pieces = b"".join(decompressed_pieces(codec, other, max_bytes=MIB))
        except CorruptBatch:
            with pytest.raises(CorruptBatch):
                to_scratch(codec, other, MIB)
        else:
            assert to_scratch(codec, other, MIB) == pieces


@pytest.mark.parametrize("size", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("plain", [b"", TEXT, PLAIN])
def test_zstd_frames_of_other_writers(size: bool, checksum: bool, plain: bytes) -> None:
    writer = zstandard.ZstdCompressor(write_content_size=size, write_checksum=checksum)
    stored = bytearray(writer.compress(plain))
    assert to_scratch(CompressionType.ZSTD, stored) == plain
    if checksum:
        stored[-1] ^= 1
        with pytest.raises(CorruptBatch, match=r"zstd payload: .*checksum"):
            to_scratch(CompressionType.ZSTD, stored)


def test_zstd_is_decompressed_after_an_error() -> None:
    damaged = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    damaged[-1] ^= 1
    for _ in range(3):
        with pytest.raises(CorruptBatch):
            to_scratch(CompressionType.ZSTD, damaged)
        assert to_scratch(CompressionType.ZSTD, ZSTD) == TEXT


def test_no_memory_for_the_window_of_a_foreign_zstd_frame_is_kept() -> None:
    largest = zstandard.ZstdCompressionParameters(window_log=27)
    one = zstandard.ZstdCompressor(compression_params=largest).compressobj()
    stored = one.compress(TEXT) + one.flush()
    decompression._idle_zstd.clear()
    for _ in range(2):
        assert bytes(decompress(CompressionType.ZSTD, stored)) == TEXT
    assert bytes(decompress(CompressionType.ZSTD, ZSTD)) == TEXT
    (kept,) = decompression._idle_zstd
    assert kept.memory_size() < 16 * MIB


@pytest.mark.parametrize("block_size", range(lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB + 1))
def test_lz4_headers_of_kafkas_clients_are_known(block_size: int) -> None:
    """A block of the largest size fits, and a larger one is refused, with the error of the block reader."""
    most = 1 << 8 + 2 * block_size
    stored = lz4.frame.compress(bytes(most), store_size=False, block_linked=False, block_size=block_size)
    assert to_scratch(CompressionType.LZ4, stored) == bytes(most)
    with pytest.raises(CorruptBatch, match=f"a block of {most + 1} bytes where {most} are the most"):
        to_scratch(CompressionType.LZ4, stored[:7] + struct.pack("<I", most + 1) + bytes(most + 1))


@pytest.mark.parametrize("size", [True, False])
@pytest.mark.parametrize("checksums", [{}, {"content_checksum": True}, {"block_checksum": True}])
@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("block_size", range(lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB + 1))
@pytest.mark.parametrize("plain", [b"", TEXT, PLAIN])
def test_lz4_frames_of_other_writers(
    size: bool, checksums: dict[str, bool], linked: bool, block_size: int, plain: bytes
) -> None:
    stored = bytearray(
        lz4.frame.compress(plain, store_size=size, block_linked=linked, block_size=block_size, **checksums)
    )
    assert to_scratch(CompressionType.LZ4, stored) == plain
    if checksums.get("content_checksum"):
        stored[-1] ^= 1
        with pytest.raises(CorruptBatch, match="lz4 payload: "):
            to_scratch(CompressionType.LZ4, stored)


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (b"", "is cut off"),
        (struct.pack("<I", 0) + b"x", "1 bytes after its frame"),
        (struct.pack("<I", 65537) + bytes(65541), "a block of 65537 bytes where 65536 are the most"),
        (struct.pack("<I", 1 << 31 | 65537) + bytes(65541), "a block of 65537 bytes where 65536 are the most"),
        (struct.pack("<I", 3) + b"abc" + bytes(4), "its block of 3 bytes is damaged"),
        (struct.pack("<I", 1 << 31 | 3) + b"ab", "is cut off"),
    ],
)
def test_damaged_lz4_blocks(damaged: bytes, message: str) -> None:
    with pytest.raises(CorruptBatch, match=f"lz4 payload.* {message}"):
        to_scratch(CompressionType.LZ4, LZ4_HEADER + damaged)


@pytest.mark.parametrize("size", [0, 1, 1000])
@pytest.mark.parametrize("is_compressed", [True, False])
def test_many_small_lz4_blocks_are_left_to_the_library(
    monkeypatch: pytest.MonkeyPatch, size: int, *, is_compressed: bool
) -> None:
    calls: list[int] = []
    original = cramjam.lz4.decompress_block_into

    def counted(*args: Any, **more: Any) -> Any:
        calls.append(1)
        return original(*args, **more)

    monkeypatch.setattr(cramjam.lz4, "decompress_block_into", counted)
    plain = b"x" * size
    stored = lz4.block.compress(plain, store_size=False) if is_compressed else plain
    block = struct.pack("<I", len(stored) | (0 if is_compressed else 1 << 31)) + stored
    assert to_scratch(CompressionType.LZ4, LZ4_HEADER + 1000 * block + bytes(4)) == 1000 * plain
    assert len(calls) <= 1


def test_an_lz4_block_cannot_become_more_than_its_header_says() -> None:
    block = lz4.block.compress(bytes(65537), store_size=False)
    with pytest.raises(CorruptBatch, match=f"lz4 payload: its block of {len(block)} bytes is damaged"):
        to_scratch(CompressionType.LZ4, LZ4_HEADER + struct.pack("<I", len(block)) + block + bytes(4))


@given(flags=st.integers(0, 255), block=st.integers(0, 255), rest=st.binary(max_size=40))
def test_any_lz4_header_is_read_or_refused(flags: int, block: int, rest: bytes) -> None:
    stored = repair_checksum(LZ4[:4] + bytes((flags, block)) + rest + bytes(13))
    try:
        pieces = b"".join(decompressed_pieces(CompressionType.LZ4, stored, max_bytes=MIB))
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            to_scratch(CompressionType.LZ4, stored, MIB)
    else:
        assert to_scratch(CompressionType.LZ4, stored, MIB) == pieces


def test_no_lz4_becomes_more_than_it_can() -> None:
    """The densest blocks there are: matches as long as can be."""
    for size in (1_000, 60_000, 1_000_000):
        assert 255 * len(compress(CompressionType.LZ4, bytes(size), 17)) > size
