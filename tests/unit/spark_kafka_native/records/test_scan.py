from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records import scan
from spark_kafka_native._records.batch import BatchHeader, read_header
from spark_kafka_native._records.errors import CorruptBatch
from spark_kafka_native._records.scan import LONG_MAX, LONG_MIN, RecordScan
from tests.support.records.reference import Batch, Record, numbered, write_batch
from tests.support.records.strategies import record_lists

Outcome = tuple[list[tuple[int, int, int, bool]], str, int, bool]


@pytest.fixture(scope="module")
def kernel() -> type[scan.Scanner]:
    compiled = scan.compiled()
    if compiled is None:
        pytest.skip("the kernel has not been built")
    return compiled


def pieces_of(payload: bytes, size: int) -> Iterator[bytes]:
    return (payload[start : start + size] for start in range(0, len(payload), size))


def outcome(
    payload: bytes, header: BatchHeader, size: int, scanner: type[scan.Scanner] | None, **wanted: Any
) -> Outcome:
    """What is found before an error, the error, and the summary if there was none."""
    found: list[tuple[int, int, int, bool]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "compiled", lambda: scanner)
        one = RecordScan(header, **wanted)
        try:
            found.extend(one.found(pieces_of(payload, size)))
        except CorruptBatch as error:
            return found, str(error), 0, False
        return found, "", one.largest, one.in_order


TIMES = numbered([Record(timestamp=time, value=b"v" * 70) for time in (100, 300, 200, 300)], 5)
RAW = write_batch(Batch(records=TIMES, base_offset=5))
HEADER = read_header(RAW)
SIZES = (1, 7, 40, 1 << 20)


def offsets(raw: bytes, **wanted: int) -> list[int]:
    """Of the records that are found in a batch, the same for all sizes of pieces and both scanners."""
    header = read_header(raw)
    outcomes = [outcome(raw[61:], header, size, each, **wanted) for size in SIZES for each in (None, scan.compiled())]
    assert all(one == outcomes[0] for one in outcomes)
    assert not outcomes[0][1]
    return [offset for _, offset, _, _ in outcomes[0][0]]


def test_records_out_of_a_range_of_time() -> None:
    assert offsets(RAW) == []
    assert offsets(RAW, latest=99) == [5, 6, 7, 8]
    assert offsets(RAW, latest=100) == [6, 7, 8]
    assert offsets(RAW, latest=250) == [6, 8]
    assert offsets(RAW, latest=250, from_offset=7) == [8]
    assert offsets(RAW, latest=99, from_offset=9) == []
    assert offsets(RAW, earliest=200) == [5]
    assert offsets(RAW, earliest=101, latest=299) == [5, 6, 8]


def test_a_record_without_a_timestamp_is_never_out_of_range() -> None:
    raw = write_batch(Batch(records=numbered([Record(timestamp=time, value=b"") for time in (-1, 5)])))
    assert offsets(raw, earliest=10) == [1]


def test_records_without_a_key() -> None:
    keys = (b"a", None, b"", None, b"k" * 200)
    raw = write_batch(Batch(records=numbered([Record(key=key, value=b"v" * 90) for key in keys])))
    assert offsets(raw, needs_key=True) == [1, 3]
    assert offsets(raw, needs_key=False) == []


def test_the_brokers_time_is_that_of_all() -> None:
    raw = write_batch(Batch(records=TIMES, base_offset=5, log_append_time=250))
    assert (offsets(raw, latest=249), offsets(raw, latest=250)) == ([5, 6, 7, 8], [])


def test_the_largest_time_and_the_order_of_offsets() -> None:
    assert outcome(RAW[61:], HEADER, 50, None) == ([], "", 300, True)
    gap = (TIMES[0], replace(TIMES[1], offset=9))
    assert outcome(write_batch(Batch(records=gap, base_offset=5))[61:], HEADER._replace(records_count=2), 50, None) == (
        [],
        "",
        300,
        False,
    )


def test_times_beyond_an_int64_wrap_around() -> None:
    for scanner in (None, scan.compiled()):
        near_the_end = HEADER._replace(base_timestamp=LONG_MAX - 150)
        found, error, _, _ = outcome(RAW[61:], near_the_end, 1000, scanner, latest=-2, earliest=LONG_MIN)
        assert [timestamp for _, _, timestamp, _ in found] == [LONG_MAX - 150, LONG_MAX - 50]
        assert error == ""
        found, _, _, _ = outcome(RAW[61:], near_the_end, 1000, scanner, earliest=0)
        assert [timestamp for _, _, timestamp, _ in found] == [LONG_MIN + 49, LONG_MIN + 49]


@pytest.mark.parametrize(
    ("payload", "count", "message"),
    [
        (b"", 1, "the batch has fewer than 1 record .record 0"),
        (RAW[61:-1], 4, "record 3"),
        (RAW[61:-60], 4, "record 3"),
        (RAW[61:], 5, "the batch has fewer than 5 records .record 4"),
        (RAW[61:], 3, "bytes are left after the batch's last record"),
        (RAW[61:] + b"\0", 4, "1 bytes are left after the batch's last record"),
        (b"\xff" * 9, 1, "a varint is longer than 5 bytes or out of range .record 0"),
        (b"\x0a" + RAW[62:], 4, "impossible record length 5"),
    ],
)
@pytest.mark.parametrize("size", SIZES)
def test_a_payload_that_is_not_what_the_header_says(payload: bytes, count: int, message: str, size: int) -> None:
    header = HEADER._replace(records_count=count)
    for scanner in (None, scan.compiled()):
        with pytest.raises(AssertionError, match=message):
            assert not outcome(payload, header, size, scanner)[1]


@pytest.mark.parametrize("value_at", [4, 100, 70_000])
def test_a_value_longer_than_its_record_is_refused_wherever_the_pieces_are_cut(value_at: int) -> None:
    raw = bytearray(write_batch(Batch(records=numbered([Record(key=b"k" * value_at, value=b"v" * 90)]))))
    raw[raw.index(b"k\xb4\x01v") + 1] = 0xBE  # the length of the value, 95 instead of 90
    outcomes = {
        outcome(bytes(raw[61:]), read_header(raw), size, each)[1]
        for size in (1, 30, value_at, 1 << 20)
        for each in (None, scan.compiled())
    }
    assert outcomes == {"bad record: impossible value length 95, 91 bytes of the record are left (record 0)"}


def test_the_kernel_reads_on_after_each_record_that_it_finds(kernel: type[scan.Scanner]) -> None:
    found, error, largest, in_order = outcome(RAW[61:], HEADER, 1, kernel, latest=-1)
    assert ([one[0] for one in found], error, largest, in_order) == ([0, 1, 2, 3], "", 300, True)


@given(record_lists(min_size=0, max_size=6), st.integers(1, 90), st.data())
@settings(max_examples=200)
def test_any_records_and_any_damage(records: tuple[Record, ...], size: int, data: st.DataObject) -> None:
    raw = bytearray(write_batch(Batch(records=records)))
    header = read_header(raw)
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(61, max(61, len(raw) - 1)))
        raw[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    near = st.sampled_from([record.timestamp + shift for record in records for shift in (-1, 0, 1)] or [0])
    bounds = (near | st.integers(LONG_MIN, LONG_MAX)).map(lambda time: min(max(time, LONG_MIN), LONG_MAX))
    wanted = {
        "earliest": data.draw(bounds),
        "latest": data.draw(bounds),
        "needs_key": data.draw(st.booleans()),
        "from_offset": data.draw(st.integers(0, 7)),
    }
    header = data.draw(st.sampled_from([header, header, header._replace(records_count=9)]))
    whole = outcome(bytes(raw[61:]), header, 1 << 20, None, **wanted)
    assert outcome(bytes(raw[61:]), header, 1 << 20, scan.compiled(), **wanted) == whole
    for scanner in (None, scan.compiled()):
        cut = outcome(bytes(raw[61:]), header, size, scanner, **wanted)
        assert bool(cut[1]) == bool(whole[1])
        if not whole[1]:
            assert cut == whole
