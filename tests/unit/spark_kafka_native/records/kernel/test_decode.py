"""Batches in memory whose surroundings must not be read or written."""

from array import array
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records._kernel import decode
from tests.support.memory import with_peak_bytes
from tests.support.records.raw_kernel import SURROUNDINGS, Edges, Memory, RawBatch, amid, decode_raw, listed
from tests.support.records.reference import Record, write_record
from tests.support.records.strategies import record_lists

RECORD = b"\x0c\x00\x00\x00\x01\x01\x00"


def test_payloads_in_either_place() -> None:
    first, second = RawBatch(7, base_offset=5), RawBatch(7, start=7, is_in_scratch=True, base_offset=9)
    rows = decode_raw(RECORD, first, second, scratch=RECORD * 2, columns=("offset", "key"))
    assert rows is not None
    assert (rows["count"], array("q", rows["offset"]).tolist(), rows["key"]["nulls"]) == (2, [5, 9], 2)


def test_a_buffer_without_batches_has_no_rows() -> None:
    rows = decode_raw(b"")
    assert rows is not None
    assert rows["count"] == 0


def test_columns_that_are_not_requested_are_not_built() -> None:
    rows = decode_raw(RECORD, RawBatch(7), columns=("offset",))
    assert rows == {"count": 1, "offset": bytes(8)}


@pytest.mark.parametrize(
    "batch",
    [
        RawBatch(8),
        RawBatch(7, start=7),
        RawBatch(7, start=-7),
        RawBatch(14),
        RawBatch(0, records=0, start=8),
        RawBatch(8, start=7, is_in_scratch=True),
        RawBatch(2**63 - 1, start=2),
        RawBatch(-7),
        RawBatch(7, records=2, last_offset_delta=1),
        RawBatch(7, records=-1),
        RawBatch(0, records=-1),
        RawBatch(7, records=2**60),
        RawBatch(7, records=-(2**63)),
        RawBatch(7, base_offset=-1),
        RawBatch(7, last_offset_delta=-1),
        RawBatch(0, records=0, last_offset_delta=-1),
        RawBatch(7, base_offset=2**63 - 1, last_offset_delta=1),
    ],
)
def test_impossible_batches_are_refused(batch: RawBatch) -> None:
    amid_records = memoryview(RECORD * 3)[7:14]
    assert decode_raw(amid_records, batch, scratch=RECORD * 2) is None
    assert decode_raw(amid_records, RawBatch(7), batch, scratch=RECORD * 2) is None


def test_more_bytes_than_offsets_can_count_are_refused() -> None:
    value = bytes(1 << 26)
    payload = write_record(Record(value=value), 0, 0)
    batch = RawBatch(len(payload))
    assert decode_raw(payload, *[batch] * 2, columns=("offset",)) is not None
    assert decode_raw(payload, *[batch] * 32, columns=("offset",)) is None


@given(record_lists(min_size=1, max_size=6), st.data())
@settings(max_examples=150)
def test_damage_stays_within_the_memory(records: tuple[Record, ...], data: st.DataObject) -> None:
    payload = bytearray(b"".join(write_record(record, 0, records[0].timestamp) for record in records))
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(payload) - 1))
        payload[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        if not payload:
            return
    payload = payload[: data.draw(st.just(len(payload)) | st.integers(0, len(payload)))]
    claimed = data.draw(st.just(len(records)) | st.integers(0, len(payload)))
    batch = RawBatch(len(payload), claimed, last_offset_delta=data.draw(st.just(2**31 - 1) | st.integers(0, 9)))
    found = []
    for around in SURROUNDINGS:
        memory = Memory()
        found.append(decode_raw(amid(payload, around), batch, allocate=memory.allocate))
        memory.check()
    assert found.count(found[0]) == len(found)


@given(st.binary(max_size=40), st.integers(0, 6))
@settings(max_examples=150)
def test_random_bytes_stay_within_the_memory(payload: bytes, claimed: int) -> None:
    batch = RawBatch(len(payload), claimed, last_offset_delta=9)
    found = [decode_raw(amid(payload, around), batch) for around in SURROUNDINGS]
    assert found.count(found[0]) == len(found)


RECORDS = [
    write_record(Record(key, value, headers, time, offset), 0, 0)
    for offset, (key, value, headers, time) in enumerate(
        [
            (b"k" * 70, b"v" * 300, (("name", b"x" * 80), ("n", None)), 2**40),
            (None, b"", (), -(2**50)),
            (b"", None, (("", b""),), 0),
        ]
    )
]
SAMPLE = b"".join(RECORDS)
LENGTHS = list(accumulate(map(len, RECORDS), initial=0))
"""Of no record, of the first, of the first two, of all."""


def is_read_at_the_edges(edges: Edges, payload: bytes, records: int) -> bool:
    batch = RawBatch(len(payload), records, last_offset_delta=9)
    found = decode_raw(edges.at_the_end(payload), batch)
    assert decode_raw(edges.at_the_beginning(payload), batch) == found
    return found is not None


def test_no_byte_outside_the_payload_is_read() -> None:
    edges = Edges()
    for length in range(len(SAMPLE) + 1):
        good = [records for records in range(4) if is_read_at_the_edges(edges, SAMPLE[:length], records)]
        assert good == [records for records, size in enumerate(LENGTHS) if size == length]
    for place in range(len(SAMPLE)):
        for byte in b"\x00\x01\x02\x7f\x80\xff":
            is_read_at_the_edges(edges, SAMPLE[:place] + bytes([byte]) + SAMPLE[place + 1 :], 3)
    for tail in range(1, 60):
        for byte in b"\x80\xff":
            is_read_at_the_edges(edges, SAMPLE[:-tail] + bytes([byte]) * tail, 3)


def test_memory_for_headers_is_bounded_by_the_bytes_they_are_in() -> None:
    """A header takes two bytes at least, and 8 bytes as a row: where its key and its value end."""
    payload = write_record(Record(headers=(("", None),) * 200_000), 0, 0)
    batch = RawBatch(len(payload))
    rows, peak = with_peak_bytes(lambda: decode.decode(payload, b"", listed(batch), 0, 2**62, ("headers",), bytearray))
    assert rows is not None
    assert rows.headers.count == 200_000
    assert peak < 5 * len(payload)


@pytest.mark.parametrize("lengths", [range(70), [0] * 9, [5, None, 0, 40, None], [None] * 17, [1000, 3]])
def test_strings_of_all_lengths(lengths: "list[int | None]") -> None:
    values = [None if length is None else bytes(range(256)) * 4 for length in lengths]
    values = [value if value is None else value[:length] for value, length in zip(values, lengths, strict=True)]
    records = [write_record(Record(value=value, offset=row), 0, 0) for row, value in enumerate(values)]
    payload, memory = b"".join(records), Memory()
    batch = RawBatch(len(payload), len(records), last_offset_delta=len(records))
    rows = decode.decode(payload, b"", listed(batch), 0, 2**62, ["value"], memory.allocate)
    assert rows is not None
    memory.check()
    buffers = [None if part is None else pa.py_buffer(part) for part in (rows.value.validity, rows.value.offsets)]
    column = pa.Array.from_buffers(pa.binary(), len(records), [*buffers, pa.py_buffer(rows.value.data)])
    column.validate(full=True)
    assert column.to_pylist() == values
    assert rows.value.nulls == values.count(None)
    assert (rows.value.validity is None) == (None not in values)
