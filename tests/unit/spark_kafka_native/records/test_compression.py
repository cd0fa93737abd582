import gzip
import random
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import lz4.block
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records.compression import CompressionType, compress
from spark_kafka_native._records.decompression import decompress
from spark_kafka_native._records.errors import CorruptBatch

CODECS = [codec for codec in CompressionType if codec is not CompressionType.NONE]
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
TEXT = b"All work and no play makes Jack a dull boy. " * 3000
NOISE = random.Random(1).randbytes(100_000)


@pytest.mark.parametrize("codec", CompressionType)
@given(
    st.binary(max_size=300)
    | st.builds(lambda piece, times: piece * times, st.binary(max_size=20), st.integers(0, 9000))
)
@settings(max_examples=50)
def test_decompression_restores_the_payload(codec: CompressionType, payload: bytes) -> None:
    compressed = compress(codec, memoryview(bytearray(payload)))
    assert isinstance(compressed, bytes)
    assert bytes(decompress(codec, memoryview(b"x" + compressed)[1:])) == payload
    assert bytes(decompress(codec, bytearray(compressed), max_bytes=len(payload))) == payload


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("payload", [TEXT, NOISE], ids=["text", "noise"])
def test_one_byte_too_much(codec: CompressionType, payload: bytes) -> None:
    compressed = compress(codec, payload)
    assert decompress(codec, compressed, max_bytes=len(payload)) == payload
    with pytest.raises(CorruptBatch, match=f"{codec.label} payload decompresses to more than {len(payload) - 1} bytes"):
        decompress(codec, compressed, max_bytes=len(payload) - 1)


def test_none_is_not_copied() -> None:
    payload = bytearray(b"abc")
    view = decompress(CompressionType.NONE, payload)
    payload[0] = ord("x")
    assert bytes(view) == b"xbc"


def test_snappy_is_framed_as_snappy_java_does() -> None:
    payload = TEXT[: 32 * 1024 + 10]
    framed = compress(CompressionType.SNAPPY, payload)
    assert framed[:16] == XERIAL
    (size,) = struct.unpack_from(">i", framed, 16)
    assert snappy.uncompress(framed[20 : 20 + size]) == payload[: 32 * 1024]
    (last,) = struct.unpack_from(">i", framed, 20 + size)
    assert snappy.uncompress(framed[24 + size :]) == payload[32 * 1024 :]
    assert 24 + size + last == len(framed)


def test_snappy_without_framing() -> None:
    assert decompress(CompressionType.SNAPPY, snappy.compress(TEXT)) == TEXT
    assert decompress(CompressionType.SNAPPY, snappy.compress(b"")) == b""
    assert decompress(CompressionType.SNAPPY, XERIAL) == b""


def test_snappy_streams_one_after_the_other() -> None:
    framed = compress(CompressionType.SNAPPY, TEXT)
    assert decompress(CompressionType.SNAPPY, framed + framed) == TEXT + TEXT


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (XERIAL + b"\x00\x00", "cut off within a block's size"),
        (XERIAL + b"\x00\x00\x00\x05abc", "snappy block of 5 bytes where 3 are left"),
        (XERIAL + b"\xff\xff\xff\xff" + b"abc", "snappy block of -1 bytes"),
        (XERIAL + b"\x00\x00\x00\x00", "corrupt input \\(empty\\)"),
        (XERIAL[:10], "snappy payload"),
        (b"", "corrupt input \\(empty\\)"),
        (b"\xff\xff\xff\xff\xff\xff", "corrupt input \\(invalid header\\)"),
        (b"\xff\xff\xff\xff\x0f", "decompresses to more than"),
        (b"\x05abc", "snappy payload"),
    ],
)
def test_malformed_snappy_is_corrupt(stored: bytes, message: str) -> None:
    with pytest.raises(CorruptBatch, match=message):
        decompress(CompressionType.SNAPPY, stored)


def test_lz4_is_framed_as_kafka_does() -> None:
    payload = NOISE[:1000] + TEXT[: 64 * 1024]
    framed = compress(CompressionType.LZ4, payload)
    assert framed[:6] == b"\x04\x22\x4d\x18\x60\x40"  # version 1, independent blocks, no sizes or sums; 64 KiB blocks
    position, plain = 7, b""
    while True:
        (size,) = struct.unpack_from("<I", framed, position)
        position += 4
        if not size:
            break
        block = framed[position : position + (size & 0x7FFFFFFF)]
        plain += block if size >> 31 else lz4.block.decompress(block, uncompressed_size=64 * 1024)
        position += len(block)
    assert (plain, position) == (payload, len(framed))


@pytest.mark.parametrize("size", [0, 10, 64 * 1024, 64 * 1024 + 1, 5_000_000])
def test_lz4_of_other_writers(size: int) -> None:
    payload = (TEXT * (size // len(TEXT) + 1))[:size]
    for options in (
        {},
        {"store_size": False, "content_checksum": True, "block_checksum": True},
        {"block_linked": False},
    ):
        assert decompress(CompressionType.LZ4, lz4.frame.compress(payload, **options)) == payload


@pytest.mark.parametrize("size", [0, 10, 5_000_000])
@pytest.mark.parametrize("with_size", [True, False])
def test_zstd_frames_with_and_without_size(size: int, with_size: bool) -> None:
    payload = (TEXT * (size // len(TEXT) + 1))[:size]
    frame = zstandard.ZstdCompressor(write_content_size=with_size, write_checksum=True).compress(payload)
    assert decompress(CompressionType.ZSTD, frame) == payload
    assert decompress(CompressionType.ZSTD, frame + frame) == payload * 2
    skippable = struct.pack("<II", 0x184D2A50, 3) + b"abc"
    assert decompress(CompressionType.ZSTD, skippable + frame) == payload


def test_gzip_members_one_after_the_other() -> None:
    assert (
        decompress(CompressionType.GZIP, gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(NOISE))
        == TEXT + NOISE
    )
    assert gzip.decompress(compress(CompressionType.GZIP, TEXT)) == TEXT


class CountedMembers:
    def __init__(self) -> None:
        self.fed = 0

    def decompressobj(self, wbits: int) -> "CountedMember":
        return CountedMember(self, zlib.decompressobj(wbits))


class CountedMember:
    def __init__(self, counted: CountedMembers, member: "zlib._Decompress") -> None:
        self._counted = counted
        self._member = member

    def decompress(self, data: bytes, max_length: int = 0) -> bytes:
        self._counted.fed += len(data)
        return self._member.decompress(data, max_length)

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    @property
    def unconsumed_tail(self) -> bytes:
        return self._member.unconsumed_tail


@pytest.mark.parametrize("plain", [b"", b"abc" * 50, NOISE[:5_000]])
def test_the_work_for_gzip_members_grows_with_their_number(monkeypatch: pytest.MonkeyPatch, plain: bytes) -> None:
    member = gzip.compress(plain)
    fed = []
    for members in (1_000, 2_000):
        counted = CountedMembers()
        monkeypatch.setattr("isal.isal_zlib.decompressobj", counted.decompressobj)
        assert decompress(CompressionType.GZIP, member * members) == plain * members
        fed.append(counted.fed)
    assert fed[1] <= 2.1 * fed[0]
    assert fed[1] <= 2_000 * (4 * len(member) + 1024)


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_after_the_end_of_a_frame(codec: CompressionType) -> None:
    stored = compress(codec, b"abc" * 100)
    for tail in (b"\x00", b"garbage", b"\xff" * 30):
        with pytest.raises(CorruptBatch, match=codec.label):
            decompress(codec, stored + tail)


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_off_payload_is_an_error_or_a_prefix(codec: CompressionType) -> None:
    stored = compress(codec, TEXT[:40_000])
    for end in range(0, len(stored), 1 if len(stored) < 2000 else 7):
        try:
            plain = bytes(decompress(codec, stored[:end]))
        except CorruptBatch:
            continue
        assert codec is CompressionType.SNAPPY  # its framing has no end: a cut between blocks goes unseen
        assert plain in {b"", TEXT[: 32 * 1024]}


@pytest.mark.parametrize("codec", CODECS)
@given(st.data())
@settings(max_examples=150)
def test_flipped_bytes_and_garbage_raise_nothing_else(codec: CompressionType, data: st.DataObject) -> None:
    stored = bytearray(compress(codec, data.draw(st.sampled_from([TEXT[:300], NOISE[:300], b""]))))
    for _ in range(data.draw(st.integers(1, 4))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    for raw in (
        bytes(stored),
        data.draw(st.binary(max_size=50)),
        bytes(stored[:20]) + data.draw(st.binary(max_size=50)),
    ):
        try:
            assert len(decompress(codec, raw, max_bytes=1_000_000)) <= 1_000_000
        except CorruptBatch as error:
            assert str(error)  # noqa: PT017 -- either outcome is right


def test_payloads_above_the_limit_are_refused() -> None:
    zeroes = bytes(100_000_000)
    for codec in CODECS:
        stored = compress(codec, zeroes)
        assert len(stored) < 5_000_000
        with pytest.raises(CorruptBatch, match="decompresses to more than 1000000 bytes"):
            decompress(codec, stored, max_bytes=1_000_000)


def test_a_false_content_size_is_not_allocated() -> None:
    lz4_frame = b"\x04\x22\x4d\x18\x68\x40" + struct.pack("<Q", 2**62) + b"\x00" * 8
    zstd_frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**50) + b"\x01\x00\x00"
    for codec, stored in ((CompressionType.LZ4, lz4_frame), (CompressionType.ZSTD, zstd_frame)):
        with pytest.raises(CorruptBatch, match=codec.label):
            decompress(codec, stored)


@pytest.mark.parametrize(
    ("codec", "levels", "wrong"),
    [
        (CompressionType.GZIP, [1, 6, 9], [0, 10, -1]),
        (CompressionType.LZ4, [1, 3, 9, 12, 17], [0, 18]),
        (CompressionType.ZSTD, [-131072, -5, 0, 3, 22], [-131073, 23]),
        (CompressionType.NONE, [], [0, 1]),
        (CompressionType.SNAPPY, [], [0, 1]),
    ],
)
def test_compression_levels_and_their_bounds(codec: CompressionType, levels: list[int], wrong: list[int]) -> None:
    payload = TEXT[:5000] + NOISE[:100]
    for level in levels:
        assert decompress(codec, compress(codec, payload, level)) == payload
    for level in wrong:
        with pytest.raises(ValueError, match=codec.label):
            compress(codec, payload, level)


def test_default_levels_are_kafkas() -> None:
    assert compress(CompressionType.ZSTD, TEXT) == compress(CompressionType.ZSTD, TEXT, 3)
    assert compress(CompressionType.LZ4, TEXT) == compress(CompressionType.LZ4, TEXT, 9)
    assert compress(CompressionType.GZIP, TEXT) == compress(CompressionType.GZIP, TEXT, 6)
    assert len(compress(CompressionType.LZ4, TEXT + NOISE, 12)) <= len(compress(CompressionType.LZ4, TEXT + NOISE))


def test_gzip_members_have_no_timestamp() -> None:
    assert compress(CompressionType.GZIP, TEXT)[4:8] == bytes(4)
    assert zlib.decompress(compress(CompressionType.GZIP, TEXT), wbits=31) == TEXT


def test_many_threads_at_once() -> None:
    def work(seed: int) -> bool:
        payload = random.Random(seed).randbytes(2000) * 50
        return all(
            decompress(codec, compress(codec, payload)) == payload
            for codec in (CompressionType.ZSTD, CompressionType.LZ4, CompressionType.SNAPPY)
            for _ in range(5)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(40)))


def test_ids_and_names_are_kafkas() -> None:
    assert [(int(codec), codec.label) for codec in CompressionType] == [
        (0, "none"),
        (1, "gzip"),
        (2, "snappy"),
        (3, "lz4"),
        (4, "zstd"),
    ]


@pytest.mark.parametrize(
    ("codec", "least", "most"),
    [(CompressionType.GZIP, 1, 9), (CompressionType.LZ4, 1, 17), (CompressionType.ZSTD, -131072, 22)],
)
def test_levels_are_kafkas(codec: CompressionType, least: int, most: int) -> None:
    codec.check_level(least)
    codec.check_level(most)
    for level in (least - 1, most + 1):
        with pytest.raises(ValueError, match=f"level {level} of {codec.label} is not within {least} to {most}"):
            codec.check_level(level)


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.SNAPPY])
def test_codecs_without_levels(codec: CompressionType) -> None:
    with pytest.raises(ValueError, match=f"compression {codec.label} has no levels, 1 was given"):
        codec.check_level(1)
