"""murmur2 of many strings; `test_compiled` compares it with Java's."""

from array import array

import pytest

from spark_kafka_native._client.partitioning.key_hashes import murmur2 as murmur2_of_one
from spark_kafka_native._records._kernel.murmur2 import murmur2


def test_strings_anywhere_in_the_data() -> None:
    data = bytes(range(200, 256)) * 2
    spans = [(start, length) for length in range(40) for start in (0, 1, 3, len(data) - length)]
    hashes = murmur2(data, array("q", [start for start, _ in spans]), array("q", [length for _, length in spans]))
    assert array("i", hashes).tolist() == [murmur2_of_one(data[start : start + length]) for start, length in spans]


@pytest.mark.parametrize(("start", "length"), [(0, 4), (3, 1), (4, 0), (-1, 1), (0, -1), (2**62, 2**62), (-(2**63), 1)])
def test_strings_outside_the_data_are_refused(start: int, length: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        murmur2(b"abc", array("q", [0, start]), array("q", [0, length]))


def test_fewer_starts_than_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        murmur2(b"abc", array("q", [0]), array("q", [1, 1]))
