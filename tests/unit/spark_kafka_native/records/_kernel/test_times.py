"""The compiled lookup by itself: what it refuses, and what it may not read."""

import pytest

from spark_kafka_native.records._kernel.times import first_at_or_after
from tests.support.raw_kernel import Edges
from tests.support.reference_records import Record, write_record, write_varint

RECORDS = [
    write_record(Record(timestamp=100 * index, offset=index, value=b"v" * 80 * index), 0, 0) for index in range(3)
]
SAMPLE = b"".join(RECORDS)


def find(payload: bytes | memoryview, records: int = 3, time: int = 500, **more: int) -> object:
    numbers = {"base_offset": 0, "base_time": 0, "from_offset": 0} | more
    return first_at_or_after(
        payload,
        records,
        numbers["base_offset"],
        numbers["base_time"],
        False,
        time,
        numbers["from_offset"],
    )


def test_found_and_not_found() -> None:
    assert find(SAMPLE, time=101) == (2, 200)
    assert find(SAMPLE) == ()
    assert find(SAMPLE, 0, 0) == find(SAMPLE, -1, 0) == ()


def body(*parts: bytes) -> bytes:
    joined = b"\x00" + b"".join(parts)
    return write_varint(len(joined)) + joined


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",
        b"\x01",
        b"\x80",
        b"\x80\x80\x80\x80\x10\x00",
        b"\x06\x00\x00",
        b"\x02\x00",
        b"\x04\x00\x00",
        body(b"\x80" * 9 + b"\x02", b"\x00"),
        body(b"\x00", b"\x80" * 4 + b"\x10"),
        body(b"\x00", b"\x80"),
        body(b"\x80"),
    ],
)
def test_refused(payload: bytes) -> None:
    assert find(payload, 1, -1) is None
    assert find(RECORDS[0] + payload, 2, 1) is None
    assert find(RECORDS[0] + payload, 2, 0) == (0, 0)


def test_sums_that_are_no_int64_are_refused() -> None:
    two = RECORDS[0] + RECORDS[1]
    assert find(two, 2, 2**63 - 1, base_time=2**63 - 101) == (1, 2**63 - 1)
    assert find(two, 2, 2**63 - 1, base_time=2**63 - 102) == ()
    assert find(two, 2, 2**63 - 1, base_time=2**63 - 100) is None
    assert find(two, 2, from_offset=2**63 - 1, time=0, base_offset=2**63 - 2) == (2**63 - 1, 100)
    assert find(two, 2, time=1, base_offset=2**63 - 1) is None
    below = body(write_varint(-1), b"\x00")
    assert find(below, 1, base_time=-(2**63)) is None
    assert find(below, 1, base_time=-(2**63) + 1) == ()


def test_no_byte_outside_the_payload_is_read() -> None:
    edges = Edges()
    ends = [len(b"".join(RECORDS[:count])) for count in range(4)]
    for length in range(len(SAMPLE) + 1):
        for records in range(4):
            found = find(edges.at_the_end(SAMPLE[:length]), records)
            assert found == find(edges.at_the_beginning(SAMPLE[:length]), records)
            assert found == (() if length >= ends[records] else None)
    for tail in range(1, 60):
        for byte in b"\x80\xff":
            find(edges.at_the_end(SAMPLE[:-tail] + bytes([byte]) * tail))
