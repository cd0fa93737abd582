"""Columns of varints, held against the reference's one at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native.records.arrow.varint import read_varints, require, unzigzag, varint_sizes, write_varints, zigzag
from spark_kafka_native.records.errors import BadRecord
from spark_kafka_native.records.record import VARINT_BYTES, VARLONG_BYTES, read_varint, varint
from tests.support.reference_records import write_varint

BORDERS = [sign * (1 << bits) + step for bits in range(0, 63, 1) for sign in (1, -1) for step in (-1, 0, 1)] + [
    2**63 - 1,
    -(2**63),
]

int32s = st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70) | st.integers(-9000, 9000)
int64s = st.integers(-(2**63), 2**63 - 1) | int32s | st.sampled_from(BORDERS)
LONGEST = {VARINT_BYTES: int32s, VARLONG_BYTES: int64s}


def laid_out(numbers: list[int], gap: int = 0) -> tuple[bytes, list[int]]:
    """``numbers`` as varints, ``gap`` bytes in front of each, and where they are."""
    data, positions = b"", []
    for number in numbers:
        data += b"\xff" * gap
        positions.append(len(data))
        data += write_varint(number)
    return data, positions


@pytest.mark.parametrize("max_bytes", [VARINT_BYTES, VARLONG_BYTES])
@given(st.data())
def test_reading(max_bytes: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(LONGEST[max_bytes], min_size=1, max_size=60))
    raw, positions = laid_out(numbers, data.draw(st.integers(0, 2)))
    values, behind = read_varints(np.frombuffer(raw, np.uint8), np.array(positions), max_bytes)
    assert values.tolist() == numbers
    assert behind.tolist() == [
        position + len(write_varint(number)) for position, number in zip(positions, numbers, strict=True)
    ]


@given(st.lists(int64s, max_size=60), st.integers(0, 2))
def test_writing(numbers: list[int], gap: int) -> None:
    wanted, positions = laid_out(numbers, gap)
    zigzagged = zigzag(np.array(numbers, dtype=np.int64))
    assert unzigzag(zigzagged).tolist() == numbers
    sizes = varint_sizes(zigzagged)
    assert sizes.tolist() == [len(write_varint(number)) for number in numbers]
    out = np.full(len(wanted), 0xFF, dtype=np.uint8)
    write_varints(out, np.array(positions, dtype=np.int64), zigzagged, sizes)
    assert bytes(out) == wanted


@given(int64s)
def test_one_at_a_time(number: int) -> None:
    raw = varint(number)
    assert raw == write_varint(number)
    assert read_varint(memoryview(b"x" + raw), 1, len(raw) + 1, 0, VARLONG_BYTES) == (number, len(raw) + 1)
    for end in range(len(raw)):
        with pytest.raises(BadRecord, match="a varint is cut off"):
            read_varint(memoryview(raw), 0, end, 0, VARLONG_BYTES)


@pytest.mark.parametrize(
    ("raw", "max_bytes"),
    [
        (b"\x80\x80\x80\x80\x80\x00", VARINT_BYTES),
        (b"\xff\xff\xff\xff\xff", VARINT_BYTES),
        (b"\x80\x80\x80\x80\x10", VARINT_BYTES),
        (b"\xff" * 10, VARLONG_BYTES),
        (b"\x80" * 9 + b"\x02", VARLONG_BYTES),
        (b"\x80" * 10 + b"\x00", VARLONG_BYTES),
    ],
)
@pytest.mark.parametrize("before", [0, 3, 100])
def test_too_long_or_too_large(raw: bytes, max_bytes: int, before: int) -> None:
    data = np.frombuffer(b"\x02" * before + raw + bytes(10), np.uint8)
    positions = np.arange(before + 1)
    with pytest.raises(BadRecord, match=f"longer than {max_bytes} bytes or out of range") as raised:
        read_varints(data, positions, max_bytes)
    assert raised.value.index == before
    with pytest.raises(BadRecord, match=f"longer than {max_bytes} bytes or out of range"):
        read_varint(data.data, before, len(data), 0, max_bytes)


@pytest.mark.parametrize(
    ("raw", "max_bytes", "number"),
    [
        (b"\x80\x00", VARINT_BYTES, 0),  # padded: no writer does it, Java reads it
        (b"\x80\x80\x80\x80\x00", VARINT_BYTES, 0),
        (b"\xff\xff\xff\xff\x0f", VARINT_BYTES, -(2**31)),
        (b"\x80" * 9 + b"\x01", VARLONG_BYTES, 2**62),
    ],
)
def test_as_long_as_can_be(raw: bytes, max_bytes: int, number: int) -> None:
    values, behind = read_varints(np.frombuffer(raw, np.uint8), np.array([0]), max_bytes)
    assert (values.tolist(), behind.tolist()) == ([number], [len(raw)])
    assert read_varint(memoryview(raw), 0, len(raw), 0, max_bytes) == (number, len(raw))


def test_positions_outside_read_the_nearest_byte() -> None:
    values, behind = read_varints(np.frombuffer(b"\x02\x04", np.uint8), np.array([1, 7, 2**40]))
    assert (values.tolist(), behind.tolist()) == ([2, 2, 2], [2, 8, 2**40 + 1])


def test_the_first_bad_record_is_named() -> None:
    require(np.array([True, True]), "bad")
    with pytest.raises(BadRecord, match="record 2: bad") as raised:
        require(np.array([True, True, False, False]), "bad")
    assert (raised.value.index, raised.value.detail) == (2, "bad")
