import pytest

from spark_kafka_native._records._kernel.scan import Scanner
from spark_kafka_native._records.scan import BAD, DONE, FOUND, LONG_MAX, LONG_MIN, MORE, VALUE
from tests.support.records.raw_kernel import Edges
from tests.support.records.reference import Record, write_record, write_varint

RECORDS = [
    write_record(Record(timestamp=100 * index, offset=index, value=b"v" * 80 * index), 0, 0) for index in range(3)
]
SAMPLE = b"".join(RECORDS)
ENDS = [len(b"".join(RECORDS[:count])) for count in range(4)]


def scan(payload: bytes | memoryview, records: int = 3, latest: int = 500, *, is_last: bool = True) -> tuple[int, int]:
    return Scanner(records, 0, False, LONG_MIN, latest, False, 0).scan(payload, 0, is_last)


def test_the_first_record_out_of_range_is_found() -> None:
    assert scan(SAMPLE, latest=100) == (FOUND, ENDS[3])
    assert scan(SAMPLE, latest=99) == (FOUND, ENDS[2])
    assert scan(SAMPLE) == (DONE, ENDS[3])
    assert scan(SAMPLE, 0) == scan(SAMPLE, -1) == (DONE, 0)


def test_a_record_that_a_block_cuts_off_is_not_read() -> None:
    assert scan(SAMPLE[: ENDS[1] + 30], is_last=False) == (MORE, ENDS[1])
    assert scan(SAMPLE[: ENDS[2] + 30], is_last=False) == (MORE, ENDS[2])
    assert scan(SAMPLE[: ENDS[2] + 31], is_last=False) == (DONE, ENDS[3])
    long = write_record(Record(key=b"k" * 100, value=b"v" * 80), 0, 0)
    assert scan(long[:60], 1, is_last=False)[0] == VALUE
    assert scan(long[:60], 1) == (BAD, 0)


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
        b"\x0a\x00\x00\x00\x01\x01",
        b"\x02\x00",
        body(b"\x80" * 9 + b"\x02", b"\x00", b"\x01", b"\x01", b"\x00"),
        body(b"\x00", b"\x80" * 4 + b"\x10", b"\x01", b"\x01", b"\x00"),
        body(b"\x00", b"\x01", b"\x01", b"\x01", b"\x00"),
        body(b"\x00", b"\x00", b"\x03", b"\x01", b"\x00"),
        body(b"\x00", b"\x00", b"\x01", b"\x03", b"\x00"),
        body(b"\x00", b"\x00", b"\x01", b"\x02", b"\x00"),
        body(b"\x00", b"\x00", b"\x08", b"\x01", b"\x00"),
        body(b"\x80" * 5),
    ],
)
def test_malformed_records_are_refused(payload: bytes) -> None:
    assert scan(payload, 1) == (BAD, 0)
    assert scan(RECORDS[0] + payload, 2) == (BAD, ENDS[1])


def test_deltas_of_any_size() -> None:
    for delta in (LONG_MIN, LONG_MAX, -1):
        scanner = Scanner(1, LONG_MAX, False, 0, LONG_MAX, False, 0)
        payload = body(write_varint(delta), b"\x00", b"\x01", b"\x01", b"\x00")
        scanner.scan(payload, 0, True)
        assert scanner.timestamp == (LONG_MAX + delta - LONG_MIN) % 2**64 + LONG_MIN


def test_no_byte_outside_the_payload_is_read() -> None:
    edges = Edges()
    for length in range(len(SAMPLE) + 1):
        for records in range(4):
            for is_last in (True, False):
                found = scan(edges.at_the_end(SAMPLE[:length]), records, is_last=is_last)
                assert found == scan(edges.at_the_beginning(SAMPLE[:length]), records, is_last=is_last)
            assert (scan(SAMPLE[:length], records)[0] == DONE) == (length >= ENDS[records])
    for tail in range(1, 60):
        for byte in b"\x80\xff":
            for is_last in (True, False):
                scan(edges.at_the_end(SAMPLE[:-tail] + bytes([byte]) * tail), is_last=is_last)
