from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records.arrow.schema import HEADERS
from spark_kafka_native._records.arrow.utf8 import REPLACE, decode_utf8
from spark_kafka_native._spark.source.shaper import shape_headers

HEADER = st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.sampled_from([b"", b"1", b"22"])))
RECORDS = st.lists(st.one_of(st.none(), st.lists(HEADER, min_size=1, max_size=5)), max_size=12)

pytestmark = pytest.mark.feature("more.projection", "column.headers")


def column_of(records: list[list[tuple[str, bytes | None]] | None]) -> "pa.Array[Any]":
    return pa.array(
        [None if headers is None else [{"key": key, "value": value} for key, value in headers] for headers in records],
        HEADERS,
    )


@settings(max_examples=40)
@given(records=RECORDS, start=st.integers(0, 3), end=st.integers(0, 12))
def test_a_map_has_the_last_header_of_each_key(records: Any, start: int, end: int) -> None:
    shaped = shape_headers(column_of(records)[start:end], pa.map_(pa.string(), pa.binary()), lambda values: values)
    shaped.validate(full=True)
    maps = [None if pairs is None else dict(pairs) for pairs in shaped.to_pylist()]
    assert maps == [None if headers is None else dict(headers) for headers in records[start:end]]
    assert all(len(pairs or ()) == len(dict(pairs or ())) for pairs in shaped.to_pylist())


@settings(max_examples=40)
@given(records=RECORDS, start=st.integers(0, 3), end=st.integers(0, 12))
def test_an_array_has_all_headers_in_order(records: Any, start: int, end: int) -> None:
    pair = pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.string())])
    shaped = shape_headers(
        column_of(records)[start:end],
        pa.list_(pa.field("element", pair, False)),
        lambda values: decode_utf8(values, REPLACE),
    )
    shaped.validate(full=True)
    assert shaped.to_pylist() == [
        None
        if headers is None
        else [{"key": key, "value": None if value is None else value.decode()} for key, value in headers]
        for headers in records[start:end]
    ]
