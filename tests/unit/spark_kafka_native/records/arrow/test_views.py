"""Views of arrays by their buffers, beside pyarrow's own conversions."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._records.arrow.views import array_of, byte_spans, integers, nulls, offsets, validity

TEXT_TYPES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
INTEGER_TYPES = (pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64())
SLICES = st.tuples(st.integers(0, 20), st.integers(0, 20))


def sliced(values: list[Any], arrow_type: pa.DataType, part: tuple[int, int]) -> "pa.Array[Any]":
    return pa.array(values, arrow_type).slice(*part)


@given(st.lists(st.none() | st.text(max_size=5), max_size=20), st.sampled_from(TEXT_TYPES), SLICES)
def test_spans_are_the_bytes_of_the_values(values: list[str | None], kind: pa.DataType, part: tuple[int, int]) -> None:
    encoded = [None if value is None else value.encode() for value in values]
    column = sliced(values if pa.types.is_string(kind) or pa.types.is_large_string(kind) else encoded, kind, part)
    data, starts, lengths = byte_spans(column)
    found = [data[start : start + length].tobytes() for start, length in zip(starts, lengths, strict=True)]
    assert [value or b"" for value in encoded[part[0] : sum(part)]] == found
    assert offsets(column).tolist()[:-1] == starts.tolist()


@given(
    st.sampled_from(INTEGER_TYPES).flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(st.none() | st.integers(0, 127), max_size=20))
    ),
    SLICES,
)
def test_integers_are_the_values_of_any_width(
    column: tuple[pa.DataType, list[int | None]], part: tuple[int, int]
) -> None:
    kind, values = column
    found = integers(sliced(values, kind, part), missing=-7)
    assert found.tolist() == [-7 if value is None else value for value in values[part[0] : sum(part)]]
    assert found.dtype == np.int64


def test_timestamps_are_their_number() -> None:
    assert integers(pa.array([1, None], pa.timestamp("us", tz="UTC")), missing=0).tolist() == [1, 0]


def test_array_of_type_null_has_the_missing_number() -> None:
    assert integers(pa.nulls(2), missing=5).tolist() == [5, 5]


@pytest.mark.parametrize("other", [None, 3])
def test_number_beyond_int64_is_an_error(other: int | None) -> None:
    with pytest.raises(ValueError, match="18446744073709551615 is greater than the largest int64"):
        integers(pa.array([other, 2**64 - 1], pa.uint64()), missing=0)


def test_null_value_whose_memory_is_beyond_int64_is_missing() -> None:
    memory = pa.py_buffer(np.array([2**64 - 1, 1], np.uint64).tobytes())
    column = pa.Array.from_buffers(pa.uint64(), 2, [pa.py_buffer(b"\x02"), memory])
    assert integers(column, missing=-1).tolist() == [-1, 1]


@given(st.lists(st.none() | st.just(b"x"), max_size=40), SLICES)
def test_nulls_are_where_pyarrow_has_them(values: list[bytes | None], part: tuple[int, int]) -> None:
    column = sliced(values, pa.binary(), part)
    absent = nulls(column)
    expected = [value is None for value in column.to_pylist()]
    assert (absent is None and not any(expected)) or (absent is not None and absent.tolist() == expected)


def test_validity_of_nulls_is_a_bitmap() -> None:
    bitmap = validity(np.array([False] * 8 + [True, False]))
    assert bitmap is not None
    assert bitmap.to_pybytes() == b"\xff\x02"
    assert validity(None) is None


def test_array_of_numbers_shares_their_memory() -> None:
    numbers = np.array([1, 2, 3], np.int64)
    column = array_of(numbers, pa.int64())
    assert column.to_pylist() == [1, 2, 3]
    data = column.buffers()[1]
    assert data is not None
    assert data.address == numbers.ctypes.data


def test_array_without_offsets_has_no_spans() -> None:
    with pytest.raises(TypeError, match="binary or string, not int64"):
        byte_spans(pa.array([1]))
