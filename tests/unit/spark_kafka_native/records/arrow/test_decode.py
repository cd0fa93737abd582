from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records.arrow.decode import Decoded, decode
from spark_kafka_native._records.arrow.schema import ALL, RECORD_FIELDS, record_batch
from spark_kafka_native._records.batch import CorruptBatch
from spark_kafka_native._records.control import ControlType
from tests.support.records import reference
from tests.support.records.record_batches import Aborted, as_rows, marker
from tests.support.records.reference import CODECS, Batch, Record, numbered, rows, write_batch
from tests.support.records.strategies import record_lists

pytestmark = pytest.mark.usefixtures("each_kernel")

END = 2**62
PLAIN = ("key", "value", "offset", "timestamp", "headers")


def values(first: int, count: int) -> tuple[Record, ...]:
    return numbered([Record(value=str(offset).encode()) for offset in range(first, first + count)], first)


def log(*batches: Batch | bytes) -> bytes:
    return b"".join(batch if isinstance(batch, bytes) else write_batch(batch) for batch in batches)


def at(first: int, count: int, **fields: object) -> Batch:
    batch = Batch(records=values(first, count), base_offset=first)
    return replace(batch, **fields)  # type: ignore[arg-type]  # values of any field


def decode_all(buffer: bytes, from_offset: int = 0, until_offset: int = END) -> Decoded:
    return decode(buffer, from_offset=from_offset, until_offset=until_offset)


def offsets(decoded: Decoded) -> list[int]:
    return cast("list[int]", decoded.records.column("offset").to_pylist())


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, list[Record]]:
    """Several batches, as a Fetch response has them, and all records in them: gaps, all codecs, both kinds of time."""
    buffer, records, offset = b"", [], draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 4))):
        offset += draw(st.integers(0, 3))
        kept = numbered(draw(record_lists()), offset)
        gaps = draw(st.lists(st.integers(0, 70), min_size=len(kept), max_size=len(kept)))
        shift = 0
        moved = []
        for record, gap in zip(kept, gaps, strict=True):
            shift += gap
            moved.append(replace(record, offset=record.offset + shift))
        last = moved[-1].offset - offset if moved else 0
        batch = Batch(
            records=tuple(moved),
            base_offset=offset,
            codec=draw(st.sampled_from(CODECS)) if moved else reference.NONE,
            log_append_time=draw(st.none() | st.integers(0, 2**63 - 1)),
            last_offset_delta=last + draw(st.integers(0, 2)),
            producer_id=draw(st.integers(-1, 5)),
        )
        buffer += write_batch(batch)
        if batch.log_append_time is not None:
            moved = [replace(record, timestamp=batch.log_append_time) for record in moved]
        records += moved
        offset += last + 3
    return buffer, records


@given(logs(), st.data())
@settings(max_examples=80)
def test_decodes_what_the_reference_wrote(fetched: tuple[bytes, list[Record]], data: st.DataObject) -> None:
    buffer, records = fetched
    decoded = decode_all(buffer)
    assert as_rows(decoded) == rows(records)
    assert decoded.bytes_used == len(buffer)
    if records:
        low, high = sorted((data.draw(st.integers(0, len(records))), data.draw(st.integers(0, len(records)))))
        bounds = [record.offset for record in records] + [decoded.next_offset]
        part = decode_all(buffer, bounds[low], bounds[high])
        assert as_rows(part) == rows(records[low:high])
        assert part.next_offset == bounds[high]


@given(record_lists(min_size=1), st.sampled_from(CODECS), st.lists(st.sampled_from(ALL), unique=True))
@settings(max_examples=50)
def test_columns_have_the_requested_order(records: tuple[Record, ...], codec: int, columns: list[str]) -> None:
    buffer = write_batch(Batch(records=records, codec=codec))
    full = decode_all(buffer).records
    some = decode(buffer, from_offset=0, until_offset=END, columns=columns).records
    assert some.schema.equals(pa.schema([RECORD_FIELDS.field(name) for name in columns]))
    assert some.num_rows == len(records)
    for name in columns:
        assert some.column(name).equals(full.column(name))


def test_thousands_of_records_of_equal_and_of_odd_lengths() -> None:
    records = numbered(
        Record(
            key=None if index % 7 == 0 else b"k" * (index % 11),
            value=b"\x00" * 60 if index < 3000 else bytes(index % 251 for _ in range(index % 130)),
            headers=(("h", None), ("h", b"x")) if index % 1000 == 999 else (),
            timestamp=1_700_000_000_000 + index // 3,
        )
        for index in range(6000)
    )
    halves = (records[:4500], records[4500:])
    for codec in (reference.NONE, reference.ZSTD):
        buffer = log(*(Batch(records=half, base_offset=half[0].offset, codec=codec) for half in halves))
        assert as_rows(decode_all(buffer)) == rows(records)


def test_the_schema_of_decoded_records() -> None:
    empty = decode_all(b"").records
    assert empty.schema.equals(decode_all(log(at(0, 1))).records.schema)
    assert [str(field.type) for field in empty.schema] == [
        "binary",
        "binary",
        "int64",
        "timestamp[ms, tz=UTC]",
        "int32",
        "list<element: struct<key: string, value: binary>>",
    ]


def test_nothing_refers_to_the_buffer() -> None:
    buffer = bytearray(log(at(0, 3)))
    decoded = decode(buffer, from_offset=0, until_offset=END)
    before = decoded.records.to_pylist()
    buffer[:] = bytes(len(buffer))
    assert decoded.records.to_pylist() == before


@pytest.mark.parametrize("codec", CODECS)
def test_one_result_outlives_the_next_decode(codec: int) -> None:
    """Memory for decompressed payloads is used again."""
    first = decode_all(log(at(0, 200, codec=codec))).records
    before = first.to_pylist()
    others = [decode_all(log(at(1000, 300, codec=codec), at(2000, 1, codec=0))) for _ in range(3)]
    assert first.to_pylist() == before
    assert [offsets(other)[-1] for other in others] == [2000] * 3


def test_create_time_and_log_append_time() -> None:
    created = Batch(records=numbered([Record(timestamp=-1), Record(timestamp=1_700_000_000_123)]))
    appended = at(2, 2, log_append_time=1_600_000_000_000)
    records = decode_all(log(created, appended)).records
    assert records.column("timestamp").to_pylist() == [
        datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC),
        datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC),
    ]
    assert records.column("timestamp_type").to_pylist() == [0, 0, 1, 1]


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63)])
def test_any_time_that_is_an_int64(time: int) -> None:
    buffer = log(
        at(0, 2), Batch(records=(Record(timestamp=-1, offset=2), Record(timestamp=time, offset=3)), base_offset=2)
    )
    assert decode_all(buffer).records.column("timestamp").cast(pa.int64()).to_pylist()[2:] == [-1, time]


@pytest.mark.parametrize(
    ("from_offset", "until_offset", "shown", "next_offset"),
    [
        (0, END, [0, 1, 2, 5, 6, 7], 10),
        (1, 6, [1, 2, 5], 6),
        (2, 3, [2], 3),
        (3, 5, [], 5),
        (4, 4, [], 4),
        (0, 0, [], 0),
        (7, 9, [7], 9),
        (8, 9, [], 9),
        (10, 20, [], 10),
        (11, 20, [], 11),
    ],
)
def test_rows_outside_of_the_offset_range_are_left_out(
    from_offset: int, until_offset: int, shown: list[int], next_offset: int
) -> None:
    buffer = log(at(0, 3), at(5, 3, last_offset_delta=4))  # 3 and 4 are gone with their batch, 8 and 9 from theirs
    decoded = decode_all(buffer, from_offset, until_offset)
    assert offsets(decoded) == shown
    assert decoded.next_offset == next_offset


def test_a_batch_beyond_the_end_says_that_nothing_is_left_before_it() -> None:
    first = log(at(0, 3))
    decoded = decode_all(first + log(at(100, 3)), 0, 50)
    assert (decoded.next_offset, decoded.bytes_used) == (50, len(first))


def test_a_cut_off_batch_is_left_for_the_next_fetch() -> None:
    whole, cut = log(at(0, 3)), log(at(3, 3))
    for end in range(len(cut)):
        decoded = decode_all(whole + cut[:end])
        assert (offsets(decoded), decoded.next_offset, decoded.bytes_used) == ([0, 1, 2], 3, len(whole))


def test_empty_batches_move_the_offset_on() -> None:
    emptied = Batch(base_offset=3, last_offset_delta=6, producer_id=7)
    decoded = decode_all(log(at(0, 3), emptied))
    assert (offsets(decoded), decoded.next_offset) == ([0, 1, 2], 10)


def end_marker(kind: ControlType, offset: int, producer_id: int) -> bytes:
    return bytes(marker(kind, producer_id, base_offset=offset))


TRANSACTIONS = (
    at(0, 2, transactional=True, producer_id=1),
    at(2, 2, transactional=True, producer_id=2),
    at(4, 1, producer_id=1),  # idempotent, not part of the transaction
    at(5, 1),
    end_marker(ControlType.ABORT, 6, 1),
    at(7, 1, transactional=True, producer_id=1),
    end_marker(ControlType.COMMIT, 8, 2),
    at(9, 1, transactional=True, producer_id=2),
    end_marker(ControlType.ABORT, 10, 2),
    at(11, 1, transactional=True, producer_id=2),
    end_marker(ControlType.COMMIT, 12, 2),
    end_marker(ControlType.COMMIT, 13, 1),
)
ABORTED = (Aborted(2, 9), Aborted(1, 0))


def test_control_batches_are_never_shown_and_aborted_ones_are_dropped() -> None:
    buffer = log(*TRANSACTIONS)
    everything = decode_all(buffer)
    assert (offsets(everything), everything.next_offset) == ([0, 1, 2, 3, 4, 5, 7, 9, 11], 14)
    committed = decode(buffer, from_offset=0, until_offset=END, aborted=ABORTED)
    assert (offsets(committed), committed.next_offset) == ([2, 3, 4, 5, 7, 11], 14)
    assert (everything.aborted, committed.aborted) == (None, ())
    assert offsets(decode(buffer, from_offset=0, until_offset=END, aborted=())) == offsets(everything)


@pytest.mark.parametrize("from_offset", range(15))
def test_aborted_transactions_from_any_offset_on(from_offset: int) -> None:
    buffer = log(*TRANSACTIONS)
    shown = offsets(decode(buffer, from_offset=from_offset, until_offset=END, aborted=ABORTED))
    assert shown == [offset for offset in (2, 3, 4, 5, 7, 11) if offset >= from_offset]


def in_portions(buffer: bytes, **options: Any) -> list[Decoded]:
    portions: list[Decoded] = []
    rest, offset = buffer, 0
    aborted: Sequence[Any] | None = ABORTED
    while True:
        decoded = decode(rest, from_offset=offset, until_offset=END, aborted=aborted, **options)
        if not decoded.bytes_used:
            return portions
        portions.append(decoded)
        rest, offset, aborted = rest[decoded.bytes_used :], decoded.next_offset, decoded.aborted


def test_decode_resumes_in_the_same_buffer() -> None:
    buffer = log(*TRANSACTIONS)
    portions = in_portions(buffer, target_rows=1)
    assert [offsets(portion) for portion in portions] == [[2, 3], [4], [5], [7], [11], []]
    assert portions[-1].next_offset == 14
    assert [len(offsets(portion)) for portion in in_portions(buffer, target_rows=3)] == [3, 3, 0]
    assert [len(offsets(portion)) for portion in in_portions(buffer, target_bytes=1)] == [2, 1, 1, 1, 1, 0]
    assert sum(portion.bytes_used for portion in portions) == len(buffer)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"from_offset": 5, "until_offset": 4}, "from 5 until 4"),
        ({"from_offset": -1, "until_offset": 4}, "from -1 until 4"),
        ({"from_offset": 0, "until_offset": 4, "columns": ["value", "topic"]}, "no column 'topic'; there are key, "),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(b"", **arguments)


def test_batches_out_of_order_are_corrupt() -> None:
    with pytest.raises(CorruptBatch, match=r"offset 3 or a later one must come next .*base offset 2"):
        decode_all(log(at(0, 3), at(2, 3)))


def test_a_payload_above_the_limit_is_refused() -> None:
    buffer = write_batch(Batch(records=(Record(value=bytes(10_000_000)),), codec=reference.GZIP))
    assert len(buffer) < 20_000
    with pytest.raises(CorruptBatch, match="decompresses to more than 1000000 bytes"):
        decode(buffer, from_offset=0, until_offset=END, max_decompressed_bytes=1_000_000)


@pytest.mark.parametrize("records", [1, 3, 40, 700])
def test_records_with_many_headers(records: int) -> None:
    wanted = numbered(
        Record(headers=tuple((f"h{index}", None if index % 3 else b"v") for index in range(50 if row % 5 else 1)))
        for row in range(records)
    )
    assert as_rows(decode_all(write_batch(Batch(records=wanted)))) == rows(wanted)


def test_a_record_of_very_many_headers_does_not_take_minutes() -> None:
    """Two bytes each, so that a batch within every limit can hold them."""
    count = 200_000
    body = b"\x00\x00\x00\x01\x01" + reference.write_varint(count) + b"\x00\x01" * count
    decoded = decode_all(write_batch(Batch(records=(Record(),)), reference.write_varint(len(body)) + body))
    headers = cast("list[list[object]]", decoded.records.column("headers").to_pylist())[0]
    assert (len(headers), headers[-1]) == (count, {"key": "", "value": None})


def test_every_column_has_a_type() -> None:
    assert tuple(RECORD_FIELDS.names) == ALL


def test_rows_without_columns() -> None:
    schema = pa.schema([RECORD_FIELDS.field("offset")])
    assert record_batch([pa.array([7, 8])], schema, 2).column("offset").to_pylist() == [7, 8]
    empty = record_batch([], pa.schema([]), 3)
    assert (empty.num_rows, empty.num_columns) == (3, 0)
