"""Codecs by id and name, their levels, and by how much they can compress."""

import pytest

from spark_kafka_native.records.codec import CompressionType, gzip_level, lz4_level, zstd_level


def test_ids_and_names_are_kafkas() -> None:
    assert [(int(codec), codec.label) for codec in CompressionType] == [
        (0, "none"),
        (1, "gzip"),
        (2, "snappy"),
        (3, "lz4"),
        (4, "zstd"),
    ]
    assert [CompressionType.from_name(codec.label) for codec in CompressionType] == list(CompressionType)


@pytest.mark.parametrize("name", ["", "ZSTD", "producer", "lzma"])
def test_an_unknown_name_is_answered_with_the_choices(name: str) -> None:
    with pytest.raises(ValueError, match=f"unknown compression '{name}'; choose one of none, gzip, snappy, lz4, zstd"):
        CompressionType.from_name(name)


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


def test_levels_as_the_libraries_count_them() -> None:
    assert (gzip_level(None), gzip_level(9)) == (-1, 9)
    assert (lz4_level(None), lz4_level(9), lz4_level(1), lz4_level(17)) == (0, 0, 1, 12)
    assert (zstd_level(None), zstd_level(-5)) == (3, -5)
