"""The record walk, on payloads made to mislead its guesses."""

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native.records.arrow import walk as walk_module
from spark_kafka_native.records.arrow.varint import I64
from spark_kafka_native.records.arrow.walk import Region, step_carefully, walk
from spark_kafka_native.records.errors import BadRecord
from tests.support.reference_records import write_varint


def record(body: bytes) -> bytes:
    return write_varint(len(body)) + body


def regions_of(
    payloads: Sequence[Sequence[bytes]], gap: bytes = b""
) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], list[Region]]:
    """Bodies to data and regions, ``gap`` in front of each region."""
    data, regions, row = b"", [], 0
    for bodies in payloads:
        data += gap
        payload = b"".join(record(body) for body in bodies)
        regions.append(Region(row, len(data), len(data) + len(payload), len(bodies)))
        data += payload
        row += len(bodies)
    return np.frombuffer(data, np.uint8), regions


def assert_walked(payloads: Sequence[Sequence[bytes]], gap: bytes = b"") -> None:
    data, regions = regions_of(payloads, gap)
    bodies = walk(data, regions)
    found = [bytes(data[start:end]) for start, end in zip(bodies.starts.tolist(), bodies.ends.tolist(), strict=True)]
    assert found == [body for payload in payloads for body in payload]


def text(size: int) -> bytes:
    return b"\x00" + b"x" * (size - 2) + b"\x00"


def zeroes(size: int) -> bytes:
    return bytes(size)


def noise(size: int) -> bytes:
    return b"\x00" + random.Random(size).randbytes(size - 1)


def nested(size: int) -> bytes:
    """A body full of whole records."""
    return (b"\x00" + record(text(20)) * (size // 21 + 1))[:size]


def odd_attributes(size: int) -> bytes:
    return b"\x07" + b"y" * (size - 1)


BODIES: list[Callable[[int], bytes]] = [text, zeroes, noise, nested, odd_attributes]
SIZES: list[Callable[[int], int]] = [
    lambda index: 110,
    lambda index: 30,
    lambda index: 6,
    lambda index: 70 + index * 7919 % 60,
    lambda index: 6 + index * 7919 % 110,
    lambda index: 100 if index < 700 else 101 + index // 300,
    lambda index: 63 + index % 2,
    lambda index: 9000 if index % 97 == 0 else 50,
    lambda index: 500 + index % 3,
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("gap", [b"", b"\x00" * 61, b"\xc8\x01\x00"])
def test_every_kind_of_payload(body: Callable[[int], bytes], size: Callable[[int], int], gap: bytes) -> None:
    assert_walked([[body(size(index)) for index in range(count)] for count in (1, 150, 1, 1000, 2)], gap)


@given(
    st.lists(
        st.lists(st.binary(min_size=6, max_size=90) | st.integers(6, 200).map(zeroes), min_size=1, max_size=80),
        min_size=1,
        max_size=5,
    ),
    st.binary(max_size=4),
)
@settings(max_examples=100)
def test_any_payload(payloads: list[list[bytes]], gap: bytes) -> None:
    assert_walked(payloads, gap)


@pytest.mark.parametrize("body", BODIES)
def test_a_broken_length_is_found_among_many(body: Callable[[int], bytes]) -> None:
    payloads = [[body(80 + index % 40) for index in range(600)] for _ in range(3)]
    data, regions = regions_of(payloads)
    for broken_row in (0, 599, 600, 901, 1799):
        begins = [begin for region in regions for begin in step_carefully(data.data, region)]
        broken = data.copy()
        broken[begins[broken_row]] ^= 0x02  # a length one more or one less
        with pytest.raises(BadRecord) as raised:
            walk(broken, regions)
        region = next(region for region in regions if broken_row < region.row + region.records)
        assert broken_row <= raised.value.index < region.row + region.records
        with pytest.raises(BadRecord, match=raised.value.detail):
            step_carefully(broken.data, region)


@pytest.mark.parametrize(("count", "message"), [(3, "the batch ends before its 3 records do"), (1, "bytes are left")])
def test_a_wrong_count(count: int, message: str) -> None:
    data, (region,) = regions_of([[text(20), text(30)]])
    with pytest.raises(BadRecord, match=message):
        walk(data, [region._replace(records=count)])


@pytest.mark.parametrize("count", [1, 511, 999, 1001, 2000])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("last", [True, False])
def test_a_wrong_count_of_many(count: int, size: Callable[[int], int], last: bool) -> None:
    bodies = [text(size(index)) for index in range(1000)]
    data, regions = regions_of([bodies] if last else [bodies, [text(20)]])
    regions = [regions[0]._replace(records=count)] + [region._replace(row=count) for region in regions[1:]]
    with pytest.raises(BadRecord, match=r"bytes are left behind|the batch ends before") as raised:
        walk(data, regions)
    assert raised.value.index == min(count - 1, 1000)


def test_a_negative_length_in_front_of_many_records() -> None:
    """It must mislead no guess to a place before the data."""
    payload = record(text(6)) * 96
    for first in (b"\x81\x80", b"\xff\xff\xff\xff\x0f"):
        data = np.frombuffer(first + payload[1:], np.uint8)
        with pytest.raises(BadRecord, match="record 0: impossible record length -"):
            walk(data, [Region(0, 0, len(data), 96)])


def test_regions_are_kept_apart() -> None:
    """Two regions that together hold the right number of records, each of them not."""
    data, regions = regions_of([[text(20), text(20)], [text(20), text(20)]])
    first, second = regions
    with pytest.raises(BadRecord, match="record 0"):
        walk(data, [first._replace(records=1), Region(1, second.start, second.end, 3)])


def test_misleading_proposals_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def propose(data: object, regions: object, begins: I64) -> None:
        begins[:] = np.arange(len(begins)) * 3

    monkeypatch.setattr(walk_module, "_propose", propose)
    assert_walked([[text(40)] * 20, [noise(50)] * 3])


def test_the_guesses_are_used() -> None:
    """A guess that never hits would go unnoticed otherwise."""
    for size, body in ((SIZES[0], text), (SIZES[3], text), (SIZES[3], noise), (SIZES[4], text)):
        data, regions = regions_of([[body(size(index)) for index in range(1000)]] * 3, b"\x00" * 61)
        begins = np.zeros(3000, dtype=np.int64)
        walk_module._propose(data, regions, begins)
        assert begins.tolist() == [begin for region in regions for begin in step_carefully(data.data, region)]
    data, regions = regions_of([[text(SIZES[3](index)) for index in range(150)]] * 3, b"\x00" * 61)
    assert walk_module._search_zeros(data, list(regions), np.zeros(450, dtype=np.int64)) == []
    data, (region,) = regions_of([[text(100)] * 1000])
    assert walk_module._stride(data, region, np.zeros(1000, dtype=np.int64)).records == 0
