"""The first record of a time or later, in plain Python and compiled: the same record, the same errors."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native.records import times
from spark_kafka_native.records.batch import BatchHeader, read_header
from spark_kafka_native.records.errors import BadRecord
from tests.support.record_strategies import record_lists
from tests.support.reference_records import Batch, Record, numbered, write_batch

Outcome = tuple[int, int] | None | str


def outcome(payload: bytes, header: BatchHeader, time: int, offset: int, find: times.Find | None) -> Outcome:
    try:
        return times.first_at_or_after(payload, header, time, offset, find)
    except BadRecord as error:
        return str(error)


def first(raw: bytes, time: int, offset: int = 0, header: BatchHeader | None = None) -> Outcome:
    """Of a batch; asserts that both ways find the same."""
    header = read_header(raw) if header is None else header
    in_python = outcome(raw[61:], header, time, offset, None)
    assert outcome(raw[61:], header, time, offset, times.compiled()) == in_python
    return in_python


TIMES = numbered([Record(timestamp=time, value=b"v" * 70) for time in (100, 300, 200, 300)], 5)
RAW = write_batch(Batch(records=TIMES, base_offset=5))


@pytest.mark.parametrize(
    ("time", "offset", "found"),
    [
        (-(2**63), 0, (5, 100)),
        (100, 0, (5, 100)),
        (101, 0, (6, 300)),
        (101, 7, (7, 200)),
        (201, 7, (8, 300)),
        (300, 0, (6, 300)),
        (301, 0, None),
        (0, 9, None),
        (2**63 - 1, 0, None),
    ],
)
def test_the_first(time: int, offset: int, found: Outcome) -> None:
    assert first(RAW, time, offset) == found


def test_a_time_of_the_broker_is_that_of_all() -> None:
    raw = write_batch(Batch(records=TIMES, base_offset=5, log_append_time=250))
    assert [first(raw, 250), first(raw, 250, 7), first(raw, 251)] == [(5, 250), (7, 250), None]


def test_numbers_beyond_an_int64() -> None:
    header = read_header(RAW)
    for base_timestamp in (2**63 - 150, -(2**63)):
        first(RAW, 2**63 - 1, header=header._replace(base_timestamp=base_timestamp))
    assert first(RAW, 2**63 - 1, header=header._replace(base_timestamp=2**63 - 101)) == (6, 2**63 + 99)
    assert first(RAW, 100, 2**63 - 1, header=header._replace(base_offset=2**63 - 3)) == (2**63 - 1, 200)


def test_what_is_behind_the_one_found_is_not_looked_at() -> None:
    broken = RAW[:-100] + b"\xff" * 100
    assert first(broken, 100) == (5, 100)
    assert first(broken, 301) == "record 3: a varint is longer than 5 bytes or out of range"


@given(record_lists(min_size=1, max_size=6), st.data())
@settings(max_examples=150)
def test_anything(records: tuple[Record, ...], data: st.DataObject) -> None:
    raw = bytearray(write_batch(Batch(records=records)))
    header = read_header(raw)
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(61, len(raw) - 1))
        raw[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        if len(raw) == 61:
            break
    near = st.sampled_from([record.timestamp + shift for record in records for shift in (-1, 0, 1)])
    time = min(max(data.draw(near | st.integers(-(2**63), 2**63 - 1)), -(2**63)), 2**63 - 1)
    header = data.draw(st.sampled_from([header, header, header._replace(records_count=9)]))
    first(bytes(raw), time, data.draw(st.integers(0, 7)), header)


@pytest.mark.parametrize("time", range(0, 400, 50))
def test_every_cut(time: int) -> None:
    for end in range(61, len(RAW)):
        first(RAW[:end], time, header=read_header(RAW))


def test_empty_batches() -> None:
    assert first(write_batch(replace(Batch(), base_offset=3)), 0) is None
