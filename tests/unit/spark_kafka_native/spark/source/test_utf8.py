"""Columns of bytes as text: what is UTF-8 passes as it is, the rest as it was asked for."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native.spark.source.utf8 import FAIL, KEEP, NULL, REPLACE, NotUtf8, decode_utf8

BYTES = st.one_of(st.none(), st.binary(max_size=6), st.text(max_size=4).map(str.encode))

pytestmark = pytest.mark.feature("more.strings")


def expected(value: bytes | None, invalid: str) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None if invalid == NULL else value.decode(errors="replace")


@settings(max_examples=40)
@given(values=st.lists(BYTES, max_size=60), start=st.integers(0, 5), invalid=st.sampled_from([REPLACE, NULL]))
def test_any_bytes(values: list[bytes | None], start: int, invalid: str) -> None:
    column = pa.array(values, pa.binary()).slice(start)
    text = decode_utf8(column, invalid)
    text.validate(full=True)
    assert text.type == pa.string()
    assert text.to_pylist() == [expected(value, invalid) for value in values[start:]]
    kept = decode_utf8(column, KEEP)
    assert kept.type == pa.string()
    assert kept.cast(pa.binary()).to_pylist() == values[start:]


@pytest.mark.parametrize("bad", [0, 1, 255, 256, 257, 499, 999])
def test_the_first_bad_row_is_named(bad: int) -> None:
    values = [b"good"] * 1000
    values[bad] = values[-1] = b"\xc3("
    with pytest.raises(NotUtf8) as caught:
        decode_utf8(pa.array(values, pa.binary()), FAIL)
    assert caught.value.row == bad


def test_good_columns_are_not_copied() -> None:
    column = pa.array([b"a", None, "\u00fc".encode()], pa.binary())
    for invalid in (REPLACE, NULL, FAIL, KEEP):
        text = decode_utf8(column, invalid)
        assert text.to_pylist() == ["a", None, "\u00fc"]
        assert text.buffers()[2] == column.buffers()[2]


@pytest.mark.parametrize("bad", [[], [0], [999], [3, 4, 700], list(range(0, 1000, 2)), list(range(1000))])
def test_bad_rows_among_many(bad: list[int]) -> None:
    values = [b"\xff" if row in bad else b"good" for row in range(1000)]
    text = decode_utf8(pa.array(values, pa.binary()), NULL)
    assert [row for row, value in enumerate(text.to_pylist()) if value is None] == bad
