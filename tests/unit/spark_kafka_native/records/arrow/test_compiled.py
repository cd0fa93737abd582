from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._client.partitioning.key_hashes import murmur2 as murmur2_of_one
from spark_kafka_native._records.arrow import reference as plain
from spark_kafka_native._records.arrow.column_reader import read_columns
from spark_kafka_native._records.arrow.schema import ALL
from spark_kafka_native._records.arrow.views import byte_spans
from spark_kafka_native._records.errors import CorruptBatch
from tests.support.records import reference
from tests.support.records.reference import CODECS, Batch, Record, numbered, write_batch
from tests.support.records.strategies import record_lists

if TYPE_CHECKING:
    from spark_kafka_native._records.arrow import compiled
    from tests.support.records.both_kernels import read_both
else:
    compiled = pytest.importorskip(
        "spark_kafka_native._records.arrow.compiled", reason="the kernel has not been built", exc_type=ImportError
    )
    from tests.support.records.both_kernels import read_both


def refused(buffer: bytes) -> bool:
    try:
        read_both(buffer)
    except CorruptBatch:
        return True
    return False


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Batches of several codecs and producers with gaps, in some of them bytes that no writer writes."""
    buffer, offset = b"", draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 4))):
        records = numbered(draw(record_lists(min_size=1, max_size=12)), offset)
        step = draw(st.sampled_from([1, 1, 3, 100]))
        records = tuple(replace(record, offset=offset + step * index) for index, record in enumerate(records))
        raw = bytearray(b"".join(reference.write_record(record, offset, records[0].timestamp) for record in records))
        for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 2]))):
            place = draw(st.integers(0, len(raw) - 1))
            raw[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
        last = records[-1].offset - offset + draw(st.sampled_from([0, 0, 0, 5, -1]))
        batch = Batch(
            records=records,
            base_offset=offset,
            codec=draw(st.sampled_from(CODECS)),
            log_append_time=draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
            last_offset_delta=max(last, len(records) - 1),
            producer_id=draw(st.integers(-1, 5)),
        )
        if len(raw) < 7 * len(records):
            continue
        buffer += write_batch(batch, bytes(raw))
        offset += step * len(records) + 6
    return buffer


@given(batches(), st.data())
@settings(max_examples=60)
def test_the_same_columns_or_both_refuse(buffer: bytes, data: st.DataObject) -> None:
    first = int.from_bytes(buffer[:8], "big") if buffer else 0
    low = data.draw(st.sampled_from([0, first]) | st.integers(first, first + 60))
    high = data.draw(st.just(2**63 - 1) | st.integers(low, low + 60))
    with suppress(CorruptBatch):
        read_both(buffer, low, high, data.draw(st.just(ALL) | st.lists(st.sampled_from(ALL), unique=True)))


def test_every_byte_of_a_payload_changed() -> None:
    records = numbered(
        [
            Record(b"key", b"value" * 20, (("name", b"x"), ("n", None)), 1_700_000_000_000),
            Record(None, b"", (), 1_700_000_005_000),
            Record(b"", None, (("é", b""),), 1_699_000_000_003),
        ]
    )
    raw = b"".join(reference.write_record(record, 0, records[0].timestamp) for record in records)
    bad = 0
    for place in range(len(raw)):
        for flip in (0x01, 0x02, 0x7F, 0x80, 0xFF):
            broken = bytearray(raw)
            broken[place] ^= flip
            bad += refused(write_batch(Batch(records=records), bytes(broken)))
    assert 0 < bad < 5 * len(raw)


@pytest.mark.parametrize("delta", [0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("base", [0, 2**62, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("by_broker", [None, 5, 2**63 - 1, -(2**63)])
def test_times_at_the_edges(delta: int, base: int, by_broker: int | None) -> None:
    raw = reference.write_varint(0) + reference.write_varint(delta) + b"\x00\x01\x01\x00"
    batch = Batch(records=(Record(),), base_timestamp=base, log_append_time=by_broker)
    time = base + delta if by_broker is None else by_broker
    found = read_both(write_batch(batch, reference.write_varint(len(raw)) + raw))
    assert found is not None
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [(time + 2**63) % 2**64 - 2**63]


def test_the_last_offset_there_is() -> None:
    batch = Batch(records=(Record(offset=2**63 - 2),), base_offset=2**63 - 2)
    found = read_both(write_batch(batch), until_offset=2**63 - 1)
    assert found is not None
    assert found.column("offset").to_pylist() == [2**63 - 2]


def as_columns(records: Sequence[Record], names: Sequence[str]) -> pa.RecordBatch:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns: dict[str, Any] = {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.large_binary()),
        "headers": pa.array(
            [[{"key": key, "value": value} for key, value in record.headers] or None for record in records], kind
        ),
        "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
    }
    return pa.record_batch({name: columns[name] for name in names})


@given(record_lists(min_size=1), st.data())
@settings(max_examples=100)
def test_the_same_payload_byte_for_byte(records: tuple[Record, ...], data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(["key", "value", "headers", "timestamp"]), unique=True, min_size=1))
    start = data.draw(st.integers(0, len(records) - 1))
    columns = read_columns(as_columns(records, names)[start:], 1_700_000_000_000)
    rows = len(records) - start
    order = np.array(data.draw(st.permutations(range(rows)) | st.just(range(rows))), np.int64)
    others = data.draw(st.lists(st.integers(1, max(rows - 1, 1)), unique=True)) if rows > 1 else []
    firsts = np.array([0, *sorted(others)], np.int64)
    expected, found = plain.Measured(columns), compiled.Measured(columns)
    assert found.fixed_sizes.tolist() == expected.fixed_sizes.tolist()
    room = data.draw(st.sampled_from([0, 1, 61]))
    wanted, made = expected.payload(order, firsts, room), found.payload(order, firsts, room)
    assert bytes(made.data) == bytes(wanted.data)
    assert made.begins.tolist() == wanted.begins.tolist()


@given(st.lists(st.none() | st.binary(max_size=40), max_size=40), st.booleans(), st.data())
@settings(max_examples=60)
def test_murmur2_of_the_kernel_is_that_of_the_reference(
    keys: list[bytes | None], large: bool, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(keys)))
    column = pa.array(keys, pa.large_binary() if large else pa.binary())[start:]
    hashes = compiled.murmur2(*byte_spans(column))
    assert hashes.dtype == np.int32
    assert hashes.tolist() == [murmur2_of_one(key or b"") for key in keys[start:]]
    hashes &= np.int32(1)  # callers change it in place
