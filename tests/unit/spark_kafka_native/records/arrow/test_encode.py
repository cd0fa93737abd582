from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records.arrow import encode, kernel
from spark_kafka_native._records.arrow.encode import EncodedBatch, MeasuredRows
from spark_kafka_native._records.arrow.schema import I64
from spark_kafka_native._records.batch import RECORD_BATCH_OVERHEAD, CompressionType, check_crc, read_header
from tests.support.records import reference
from tests.support.records.reference import Record, numbered, read_batch
from tests.support.records.strategies import record_lists

pytestmark = pytest.mark.usefixtures("each_kernel")

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MAP = pa.map_(pa.string(), pa.binary())
BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
STRINGS = (pa.string(), pa.large_string(), pa.string_view())


def as_batch(records: tuple[Record, ...]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "headers": pa.array(
                [[{"key": key, "value": value} for key, value in record.headers] for record in records], HEADERS
            ),
            "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
        }
    )


def encode_rows(
    records: pa.RecordBatch,
    max_batch_bytes: int = 1 << 20,
    codec: int = 0,
    starts: I64 | None = None,
    rows: I64 | None = None,
) -> list[EncodedBatch]:
    return MeasuredRows(records, 1_700_000_000_000).encode(
        rows, compression=CompressionType(codec), max_batch_bytes=max_batch_bytes, starts=starts
    )


def read_back(batches: list[EncodedBatch]) -> tuple[Record, ...]:
    return numbered(record for batch in batches for record in read_batch(bytes(batch.buffer)).records)


@given(record_lists(min_size=1), st.sampled_from(reference.CODECS), st.integers(62, 4000))
@settings(max_examples=80)
def test_the_reference_reads_what_is_encoded(records: tuple[Record, ...], codec: int, max_batch_bytes: int) -> None:
    if max(record.timestamp for record in records) - min(record.timestamp for record in records) >= 2**63:
        return
    batches = encode_rows(as_batch(records), max_batch_bytes, codec)
    assert read_back(batches) == records
    row = 0
    for batch in batches:
        found = read_batch(bytes(batch.buffer))
        assert (batch.first_row, batch.records_count) == (row, len(found.records))
        assert [record.offset for record in found.records] == list(range(batch.records_count))
        assert found.last_offset_delta == batch.records_count - 1
        assert (found.codec, found.base_offset, found.partition_leader_epoch) == (codec, 0, -1)
        assert (found.producer_id, found.producer_epoch, found.base_sequence) == (-1, -1, -1)
        assert (found.transactional, found.control, found.log_append_time) == (False, False, None)
        assert found.base_timestamp == found.records[0].timestamp
        assert found.max_timestamp == max(record.timestamp for record in found.records)
        row += batch.records_count


@given(record_lists(min_size=1), st.integers(70, 4000))
@settings(max_examples=60)
def test_batches_are_full_and_none_is_too_large(records: tuple[Record, ...], max_batch_bytes: int) -> None:
    if max(record.timestamp for record in records) - min(record.timestamp for record in records) >= 2**63:
        return
    batches = encode_rows(as_batch(records), max_batch_bytes)
    for batch in batches:
        assert batch.records_count == 1 or len(batch.buffer) <= max_batch_bytes
    for left, right in pairwise(batches):
        first = len(reference.write_record(records[right.first_row], 0, records[right.first_row].timestamp))
        slack = 16 * (left.records_count + 1)  # what deltas and lengths may be overestimated by
        assert len(left.buffer) + first + slack > max_batch_bytes


@given(record_lists(min_size=1), st.integers(62, 4000), st.sets(st.integers(1, 20)))
@settings(max_examples=60)
def test_batches_begin_where_they_are_wanted_as_if_encoded_apart(
    records: tuple[Record, ...], max_batch_bytes: int, wanted: set[int]
) -> None:
    records = records[:60]  # so few that a delta takes a byte, whether encoded together or apart
    rows = as_batch(numbered(Record(value=record.value, timestamp=7) for record in records))
    starts = [0, *sorted(start for start in wanted if start < len(records))]
    together = encode_rows(rows, max_batch_bytes, starts=np.array(starts))
    apart = [
        (start + batch.first_row, bytes(batch.buffer))
        for start, stop in pairwise([*starts, len(records)])
        for batch in encode_rows(rows.slice(start, stop - start), max_batch_bytes)
    ]
    assert [(batch.first_row, bytes(batch.buffer)) for batch in together] == apart


@given(record_lists(min_size=1), st.integers(62, 4000), st.data())
@settings(max_examples=60)
def test_rows_in_another_order_are_as_if_taken_first(
    records: tuple[Record, ...], max_batch_bytes: int, data: st.DataObject
) -> None:
    records = tuple(replace(record, timestamp=record.timestamp % 2**62) for record in records)
    batch = as_batch(records)
    order = np.array(data.draw(st.lists(st.integers(0, len(records) - 1), max_size=30)), np.int64)
    found, taken = encode_rows(batch, max_batch_bytes, rows=order), encode_rows(batch.take(order), max_batch_bytes)
    assert [(each.first_row, bytes(each.buffer)) for each in found] == [
        (each.first_row, bytes(each.buffer)) for each in taken
    ]


def test_a_record_that_is_too_large_is_alone() -> None:
    batches = encode_rows(pa.record_batch({"value": [b"a", b"b", b"x" * 500, b"c", b"d"]}), 200)
    assert [(batch.first_row, batch.records_count) for batch in batches] == [(0, 2), (2, 1), (3, 2)]
    assert len(batches[1].buffer) > 500


def test_no_rows_no_batches() -> None:
    assert encode_rows(as_batch(())) == []


def test_stamping_again_and_again() -> None:
    (batch,) = encode_rows(pa.record_batch({"value": [b"a", b"b"]}))
    unstamped = bytes(batch.buffer)
    batch.stamp(producer_id=7, producer_epoch=0, base_sequence=41)
    first = read_batch(bytes(batch.buffer))
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.transactional) == (7, 0, 41, False)
    batch.stamp(producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    second = read_batch(bytes(batch.buffer))
    assert (second.producer_epoch, second.base_sequence, second.transactional) == (1, 0, True)
    batch.stamp(producer_id=-1, producer_epoch=-1, base_sequence=-1)
    assert bytes(batch.buffer) == unstamped
    check_crc(batch.buffer, 0, read_header(batch.buffer))


@pytest.mark.parametrize("key", BYTES + STRINGS)
@pytest.mark.parametrize("value", BYTES + STRINGS)
def test_every_kind_of_bytes_and_text(key: pa.DataType, value: pa.DataType) -> None:
    texts = ["", "a", None, "ключ", "v" * 300]
    contents = [None if text is None else text.encode() for text in texts]
    columns: dict[str, Any] = {
        "key": pa.array(texts, pa.string()).cast(key),
        "value": pa.array(texts[::-1], pa.string()).cast(value),
    }
    wanted = list(zip(contents, contents[::-1], strict=True))
    for start, end in ((0, 5), (1, 4), (2, 5), (3, 3)):
        batch = pa.record_batch(columns)[start:end]
        assert [(record.key, record.value) for record in read_back(encode_rows(batch))] == wanted[start:end]


def test_bytes_under_nulls_are_not_sent() -> None:
    offsets, data = pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"abcd")
    column = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\1"), offsets, data])
    assert [record.value for record in read_back(encode_rows(pa.record_batch({"value": column})))] == [b"ab", None]


def test_fixed_size_binary_and_columns_of_nulls() -> None:
    columns: dict[str, Any] = {"key": pa.array([b"abc", None], pa.binary(3)), "value": pa.nulls(2)}
    batch = pa.record_batch(columns)
    assert [(record.key, record.value) for record in read_back(encode_rows(batch))] == [(b"abc", None), (None, None)]


@pytest.mark.parametrize("columns", [["key"], ["value"], ["headers"], ["timestamp"], ["headers", "key"]])
def test_missing_columns_are_null(columns: list[str]) -> None:
    records = numbered([Record(b"k", b"v", (("h", b"x"),), 5), Record(None, b"w", (), 6)])
    found = read_back(encode_rows(as_batch(records).select(columns)))
    for record, back in zip(records, found, strict=True):
        assert back.key == (record.key if "key" in columns else None)
        assert back.value == (record.value if "value" in columns else None)
        assert back.headers == (record.headers if "headers" in columns else ())
        assert back.timestamp == (record.timestamp if "timestamp" in columns else 1_700_000_000_000)


ENTRIES: list[list[tuple[str, bytes | None]] | None] = [
    [("a", b"1"), ("b", None), ("a", b"")],
    None,
    [],
    [("ключ", b"x" * 100)],
    [("a", b"")],
]


@pytest.mark.parametrize(
    "kind",
    [
        HEADERS,
        pa.large_list(pa.struct([("value", pa.large_binary()), ("key", pa.large_string())])),
        pa.list_(pa.struct([("key", pa.string_view()), ("value", pa.binary_view())])),
        MAP,
        pa.map_(pa.string(), pa.string()),
    ],
)
@pytest.mark.parametrize("keys", [True, False])
def test_every_kind_of_headers(kind: pa.DataType, keys: bool) -> None:
    rows: list[Any] = ENTRIES
    if not pa.types.is_map(kind):
        rows = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in ENTRIES]
    columns: dict[str, Any] = {"value": pa.array([b"1", None, b"333", b"4", b"5"]), "headers": pa.array(rows, kind)}
    if keys:
        columns["key"] = pa.array([b"k1", b"", None, b"k", None])
    batch = pa.record_batch(columns)
    wanted = [tuple(row or ()) for row in ENTRIES]
    assert [record.headers for record in read_back(encode_rows(batch))] == wanted
    assert [record.headers for record in read_back(encode_rows(batch[1:4]))] == wanted[1:4]
    assert [record.value for record in read_back(encode_rows(batch[1:4]))] == [None, b"333", b"4"]


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (pa.timestamp("s"), [1_700_000_000, None, -1]),
        (pa.timestamp("ms", tz="UTC"), [1_700_000_000_000, None, -1000]),
        (pa.timestamp("us", tz="Europe/Berlin"), [1_700_000_000_000_999, None, -999_001]),
        (pa.timestamp("ns"), [1_700_000_000_000_999_999, None, -999_999_999]),
        (pa.int64(), [1_700_000_000_000, None, -1000]),
    ],
)
def test_every_kind_of_timestamp(kind: pa.DataType, rows: list[int | None]) -> None:
    batch = pa.record_batch({"timestamp": pa.array(rows, pa.int64()).cast(kind)})
    found = MeasuredRows(batch, 77).encode(compression=CompressionType.NONE, max_batch_bytes=1000)
    assert [record.timestamp for record in read_back(found)] == [1_700_000_000_000, 77, -1000]


def test_an_arrow_timestamp_is_milliseconds() -> None:
    moment = datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)
    (record,) = read_back(encode_rows(pa.record_batch({"timestamp": pa.array([moment])})))
    assert record.timestamp == 1_700_000_000_123


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": pa.array([1, 2])}, "column 'value' must be binary or string, it is int64"),
        ({"key": pa.array([[b"a"], None])}, "column 'key' must be binary or string, it is list"),
        ({"vlaue": pa.array([b"a"])}, "no record has a column 'vlaue'; there are key, value, headers, timestamp"),
        ({"timestamp": pa.array(["now"])}, "column 'timestamp' must be a timestamp or integer milliseconds"),
        ({"timestamp": pa.array([2**63 - 1], pa.timestamp("s"))}, "a time that milliseconds in an int64 cannot hold"),
        ({"timestamp": pa.array([2**63 - 1, -5])}, "too far apart"),
        ({"headers": pa.array([["a"]])}, "column 'headers' must be list<struct<key: string, value: binary>> or map"),
        ({"headers": pa.array([[{"key": b"a", "value": b"b"}]])}, "column 'headers' must be"),
        ({"headers": pa.array([[{"key": "a"}]])}, "column 'headers' must be"),
        ({"headers": pa.array([[{"key": "a", "value": 1}]])}, "column 'headers.value' must be binary or string"),
        (
            {"headers": pa.array([None, [{"key": "a", "value": b""}], [], [{"key": "b"}, {"value": b"c"}]], HEADERS)},
            "row 3 has a header whose key is null",
        ),
        ({"headers": pa.array([[None]], HEADERS)}, "row 0 has a header whose key is null"),
    ],
)
def test_columns_that_cannot_be_sent(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_rows(pa.record_batch(columns))


def test_columns_twice() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([b"a"]), pa.array([b"b"])], ["key", "key"])
    with pytest.raises(ValueError, match="twice: key, key"):
        encode_rows(twice)


def test_a_record_that_no_batch_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 2**31
    if not kernel.is_compiled():  # which would copy two GiB
        limit = 2**20
        monkeypatch.setattr(encode, "_MAX_BATCH_BYTES", limit - 1)
    offsets = np.array([0, 1, limit - 60], dtype=np.int64)
    data = np.zeros(limit, dtype=np.uint8)  # never touched, so never there
    column = pa.Array.from_buffers(pa.large_binary(), 2, [None, pa.py_buffer(offsets.data), pa.py_buffer(data.data)])
    with pytest.raises(ValueError, match=r"row 1 makes a record of \d+ bytes, more than any batch can hold"):
        encode_rows(pa.record_batch({"value": column}), 2**40)


def test_a_level_the_codec_does_not_have() -> None:
    batch = pa.record_batch({"value": [b"a" * 1000]})
    with pytest.raises(ValueError, match="compression level 23 of zstd is not within -131072 to 22"):
        MeasuredRows(batch, 0).encode(compression=CompressionType.ZSTD, level=23, max_batch_bytes=1000)


def test_compression_makes_it_smaller() -> None:
    batch = pa.record_batch({"value": [b"abcdefgh" * 20] * 100})
    plain = len(encode_rows(batch)[0].buffer)
    for codec in reference.CODECS[1:]:
        (compressed,) = encode_rows(batch, codec=codec)
        assert RECORD_BATCH_OVERHEAD < len(compressed.buffer) < plain / 5
