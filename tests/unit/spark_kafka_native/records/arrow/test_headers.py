"""Headers, a numpy pass for each of a record's headers and plain ints for what few records have."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native.records.arrow import headers as headers_module
from spark_kafka_native.records.arrow.fields import Fields, read_fields
from spark_kafka_native.records.arrow.headers import HEADERS, read_headers
from spark_kafka_native.records.arrow.varint import U8
from spark_kafka_native.records.arrow.walk import Region, walk
from spark_kafka_native.records.errors import BadRecord
from tests.support.record_strategies import headers
from tests.support.reference_records import Header, Record, write_record, write_varint


def fields_of(rows: list[tuple[Header, ...]]) -> tuple[U8, Fields]:
    payload = b"".join(write_record(Record(headers=row), 0, 0) for row in rows)
    data = np.frombuffer(payload, np.uint8)
    return data, read_fields(data, walk(data, [Region(0, 0, len(data), len(rows))]))


@pytest.mark.parametrize("few_records", [0, 2, 8])
@given(rows=st.lists(headers(), min_size=1, max_size=20))
def test_reading(few_records: int, rows: list[tuple[Header, ...]]) -> None:
    data, fields = fields_of(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(headers_module, "_FEW_RECORDS", few_records)
        column = read_headers(data, pa.py_buffer(data.data), fields)
    column.validate(full=True)
    assert column.type.equals(HEADERS, check_metadata=True)
    assert column.to_pylist() == [[{"key": key, "value": value} for key, value in row] or None for row in rows]
    part = read_headers(data, pa.py_buffer(data.data), fields.rows(1, len(rows)))
    assert part.equals(column[1:])


def broken(headers: bytes, count: int, at: int, rows: int) -> tuple[U8, Fields]:
    """``rows`` records with two good headers each, but record ``at`` with ``headers``, said to be ``count``."""
    good = b"\x00\x00\x00\x01\x01" + write_varint(2) + b"\x02a\x02b\x02c\x01"
    bodies = [good] * rows
    bodies[at] = good[:5] + write_varint(count) + headers
    data = np.frombuffer(b"".join(write_varint(len(body)) + body for body in bodies), np.uint8)
    return data, read_fields(data, walk(data, [Region(0, 0, len(data), rows)]))


@pytest.mark.parametrize("rows", [3, 30])
@pytest.mark.parametrize(
    ("headers", "count", "message"),
    [
        (b"\x01\x01", 1, "a header without a key"),
        (b"\x02a\x02b\x03\x01", 2, "a header without a key"),
        (b"\x02a\x03", 1, "a header's value has an impossible length"),
        (b"\x02a\x02b\x00", 1, "its headers do not end where it ends"),
        (b"\x02a\x02b\x02c\x04d", 2, "its headers do not end where it ends"),
        (b"\x80\x80\x80\x80\x80\x00\x00", 1, "a varint is longer than 5 bytes or out of range"),
        (b"\x02a\x80\x80\x80\x80\x10", 1, "a varint is longer than 5 bytes or out of range"),
    ],
)
def test_headers_that_no_writer_writes(headers: bytes, count: int, message: str, rows: int) -> None:
    for at in range(rows):
        data, fields = broken(headers, count, at, rows)
        with pytest.raises(BadRecord, match=message) as raised:
            read_headers(data, pa.py_buffer(data.data), fields)
        assert raised.value.index == at


def test_a_record_of_very_many_headers_does_not_take_minutes() -> None:
    """Two bytes each, so that a batch within every limit can hold them."""
    data, fields = broken(b"\x00\x01" * 200_000, 200_000, 1, 20)
    assert len(read_headers(data, pa.py_buffer(data.data), fields)[1]) == 200_000


@pytest.mark.parametrize("header", [b"\x00\x01", b"\x00\x00", b"\x04\xff\xfe\x01"])
def test_memory_for_headers_is_bounded_by_the_bytes_they_are_in(header: bytes) -> None:
    """A header takes two bytes at least, and 8 bytes as a row: where its key and its value end."""
    data, fields = broken(header * 200_000, 200_000, 1, 2)
    payload = pa.py_buffer(data.data)
    tracemalloc.start()
    try:
        column = read_headers(data, payload, fields)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert column.nbytes < 5 * len(data)
    assert peak < 25 * len(data)
