"""The fields of records, a column each."""

import numpy as np
import pytest
from hypothesis import given, settings

from spark_kafka_native.records.arrow.fields import Fields, read_fields
from spark_kafka_native.records.arrow.varint import I64
from spark_kafka_native.records.arrow.walk import Region, walk
from spark_kafka_native.records.errors import BadRecord
from tests.support.record_strategies import record_lists
from tests.support.reference_records import Record, write_record, write_varint


def fields_of(payload: bytes, count: int) -> Fields:
    data = np.frombuffer(payload, np.uint8)
    return read_fields(data, walk(data, [Region(0, 0, len(data), count)]))


def cut(payload: bytes, starts: I64, lengths: I64) -> list[bytes | None]:
    return [
        None if length < 0 else payload[start : start + length]
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]


@given(record_lists(min_size=1))
@settings(max_examples=60)
def test_every_field(records: tuple[Record, ...]) -> None:
    payload = b"".join(write_record(record, 0, 0) for record in records)
    fields = fields_of(payload, len(records))
    assert fields.timestamp_deltas.tolist() == [record.timestamp for record in records]
    assert fields.offset_deltas.tolist() == [record.offset for record in records]
    assert cut(payload, fields.key_starts, fields.key_lengths) == [record.key for record in records]
    assert cut(payload, fields.value_starts, fields.value_lengths) == [record.value for record in records]
    assert fields.headers_counts.tolist() == [len(record.headers) for record in records]
    part = fields.rows(1, 3)
    assert cut(payload, part.value_starts, part.value_lengths) == [record.value for record in records[1:3]]


@pytest.mark.parametrize("bad_row", [0, 7, 199])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\x00\x00\x00\x01\x01\x00\x00", "its fields do not end where it ends"),
        (b"\x00\x00\x00\x01\x04\x61\x00", "its fields do not end where it ends"),
        (b"\x00\x00\x00\x01\x01\x02\x00", "its fields do not end where it ends"),
        (b"\x00\x00\x00\x01\x01\x01", "a negative number of headers"),
        (b"\x00\x00\x00\x05\x01\x00", "its key has an impossible length"),
        (b"\x00\x00\x00\x01\x05\x00", "its value has an impossible length"),
        (b"\x00\x00\xff\xff\xff\xff\x1f\x01\x01\x00", "a varint is longer than 5 bytes or out of range"),
    ],
)
def test_a_bad_record_is_named(body: bytes, message: str, bad_row: int) -> None:
    bodies = [b"\x00\x00\x00\x01\x02x\x00"] * 200
    bodies[bad_row] = body
    with pytest.raises(BadRecord, match=message) as raised:
        fields_of(b"".join(write_varint(len(each)) + each for each in bodies), 200)
    assert raised.value.index == bad_row
