import struct
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._records.confluent_header import build_header
from spark_kafka_native._spark.confluent.wire import from_record_headers, join, split

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
REFS = st.integers(0, 2**31 - 1) | st.uuids()


def column(*values: bytes | None) -> Any:
    return pa.array(values, pa.binary())


def taken_apart(values: Any, in_headers: Any = None) -> list[tuple[object, bytes | None]]:
    found = split(values, in_headers)
    return [
        (None if code < 0 else found.refs[code], payload)
        for code, payload in zip(found.codes.tolist(), found.payloads.to_pylist(), strict=True)
    ]


@pytest.mark.feature("more.wireFormat")
def test_ids_guids_and_values_without_a_header() -> None:
    values = column(
        struct.pack(">bI", 0, 7) + b"data",
        None,
        b"\x01" + GUID.bytes + b"more",
        struct.pack(">bI", 0, 2**31 - 1),
        b"",
        b"\x00\x00\x00\x00",
        b"\x01" + GUID.bytes[:15],
        b"{plain json}",
        struct.pack(">bI", 0, 7) + b"again",
    )
    expected = [(7, b"data"), (None, None), (GUID, b"more"), (2**31 - 1, b""), *[(None, None)] * 4, (7, b"again")]
    assert taken_apart(values) == expected
    assert taken_apart(values.slice(2, 6)) == expected[2:8]
    assert taken_apart(values.cast(pa.large_binary())) == expected
    assert len(split(values).refs) == 3


@given(st.lists(st.none() | st.tuples(REFS, st.binary(max_size=9)), max_size=30))
def test_joined_headers_are_split(rows: list[tuple[int | UUID, bytes] | None]) -> None:
    values = column(*(None if row is None else build_header(row[0]) + row[1] for row in rows))
    assert taken_apart(values) == [(None, None) if row is None else row for row in rows]


@given(REFS)
def test_headers_are_split_and_joined(ref: int | UUID) -> None:
    assert split(column(build_header(ref))).refs == [ref]
    joined = join(ref, column(b"a", None, b""))
    assert joined.to_pylist() == [build_header(ref) + b"a", None, build_header(ref)]


def test_splitting_no_rows() -> None:
    found = split(column())
    assert (list(found.refs), found.codes.tolist(), len(found.payloads)) == ([], [], 0)
    assert found.codes.dtype == np.int64


def record_headers(*rows: list[tuple[str | None, bytes | None]] | None) -> Any:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    named = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows]
    return pa.array(named, kind)


@pytest.mark.feature("more.wireFormat")
def test_schema_in_a_record_header_takes_precedence() -> None:
    head = build_header(GUID)
    headers = record_headers(
        [("x", b"1"), ("__value_schema_id", b"old"), ("__value_schema_id", head)],
        None,
        [],
        [("__key_schema_id", head)],
        [("__value_schema_id", None), (None, b"")],
        [("__value_schema_id", head)],
    )
    named = from_record_headers(headers, "__value_schema_id")
    assert named.to_pylist() == [head, None, None, None, None, head]
    assert from_record_headers(headers.slice(3), "__key_schema_id").to_pylist() == [head, None, None]
    values = column(b"whole", build_header(9) + b"in", b"none", None, build_header(9), None)
    assert taken_apart(values, named) == [
        (GUID, b"whole"),
        (9, b"in"),
        (None, None),
        (None, None),
        (9, b""),
        (None, None),
    ]


def test_records_without_any_header() -> None:
    assert from_record_headers(record_headers(None, []), "h").to_pylist() == [None, None]
    assert taken_apart(column(build_header(1) + b"a"), pa.nulls(1, pa.binary())) == [(1, b"a")]
