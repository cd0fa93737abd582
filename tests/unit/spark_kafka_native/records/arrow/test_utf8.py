import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records.arrow.utf8 import FAIL, KEEP, NULL, REPLACE, NotUtf8, decode_utf8

BYTES = st.one_of(
    st.none(),
    # Encoded surrogates aside, Java and Python replace alike; see OF_JAVA.
    st.binary(max_size=6).map(lambda value: value.replace(b"\xed", b"\xee")),
    st.text(max_size=4).map(str.encode),
)
OF_JAVA = {
    "80": "?",
    "80bf": "??",
    "c0": "?",
    "c080": "??",
    "c1bf": "??",
    "c2": "?",
    "c241": "?A",
    "c2c2": "??",
    "df": "?",
    "e0": "?",
    "e080": "??",
    "e09f80": "???",
    "e0a0": "?",
    "e0a041": "?A",
    "e1": "?",
    "e180": "?",
    "e18041": "?A",
    "e180c2": "??",
    "ec80": "?",
    "eda0": "?",
    "eda041": "?A",
    "eda080": "?",
    "edbfbf": "?",
    "eda0c0": "??",
    "eda08041": "?A",
    "eda080edb080": "??",
    "ed": "?",
    "ed9f": "?",
    "ee80": "?",
    "efbf": "?",
    "f0": "?",
    "f080": "??",
    "f0808080": "????",
    "f08f8080": "????",
    "f090": "?",
    "f09080": "?",
    "f0908041": "?A",
    "f180": "?",
    "f18080c2": "??",
    "f3bfbf": "?",
    "f48f": "?",
    "f490": "??",
    "f4908080": "????",
    "f5": "?",
    "f5808080": "????",
    "f8888080": "????",
    "fc": "?",
    "fe": "?",
    "ff": "?",
    "ffff": "??",
    "c3a4ff": "ä?",
    "edc3a4": "?ä",
}
"""What ``new String(bytes, UTF_8)`` of Java 17 makes of malformed bytes: U+FFFD as ?."""

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
def test_any_bytes_become_valid_utf8(values: list[bytes | None], start: int, invalid: str) -> None:
    column = pa.array(values, pa.binary()).slice(start)
    text = decode_utf8(column, invalid)
    text.validate(full=True)
    assert text.type == pa.string()
    assert text.to_pylist() == [expected(value, invalid) for value in values[start:]]
    kept = decode_utf8(column, KEEP)
    assert kept.type == pa.string()
    assert kept.cast(pa.binary()).to_pylist() == values[start:]


@pytest.mark.parametrize("malformed", OF_JAVA)
def test_malformed_bytes_are_replaced_as_in_java(malformed: str) -> None:
    text = decode_utf8(pa.array([b"a" + bytes.fromhex(malformed) + b"z"], pa.binary()), REPLACE)
    assert text.to_pylist() == [f"a{OF_JAVA[malformed]}z".replace("?", "\ufffd")]


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
