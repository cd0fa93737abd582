"""Spans of bytes gathered into a column."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native.records.arrow.spans import gather

pieces = st.lists(st.tuples(st.binary(max_size=5), st.none() | st.binary(max_size=20)), max_size=50)


@given(pieces)
def test_gathering(spans: list[tuple[bytes, bytes | None]]) -> None:
    payload, starts, lengths = b"", [], []
    for gap, content in spans:
        payload += gap
        starts.append(len(payload))
        lengths.append(-1 if content is None else len(content))
        payload += content or b""
    column = gather(pa.py_buffer(payload), np.array(starts, np.int64), np.array(lengths, np.int64))
    column.validate(full=True)
    assert column.type == pa.binary()
    assert column.to_pylist() == [content for _, content in spans]


def test_the_column_is_a_copy() -> None:
    payload = bytearray(b"abcdef")
    column = gather(pa.py_buffer(payload), np.array([1, 4]), np.array([2, 1]))
    payload[:] = b"xxxxxx"
    assert column.to_pylist() == [b"bc", b"e"]
