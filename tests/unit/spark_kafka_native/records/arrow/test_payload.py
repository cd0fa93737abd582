"""Payloads as the encoder makes them, held against the reference's."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native.records.arrow.columns import read_columns
from spark_kafka_native.records.arrow.payload import measure
from tests.support.record_strategies import record_lists
from tests.support.reference_records import Record, write_record


def columns_of(records: tuple[Record, ...]) -> pa.RecordBatch:
    kind = pa.map_(pa.string(), pa.binary())
    return pa.record_batch(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "headers": pa.array([list(record.headers) for record in records], kind),
            "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
        }
    )


@given(record_lists(min_size=1), st.integers(0, 70))
@settings(max_examples=60)
def test_byte_for_byte(records: tuple[Record, ...], room: int) -> None:
    columns = read_columns(columns_of(records), 0)
    measured = measure(columns)
    payload = measured.payload(np.zeros(1, np.int64), room)
    wanted = [write_record(record, 0, records[0].timestamp) for record in records]
    assert bytes(payload.data) == bytes(room) + b"".join(wanted)
    assert payload.begins[0] == room
    assert np.diff(payload.begins).tolist() == [len(raw) for raw in wanted]
    lengths = [len(write_record(record, record.offset, record.timestamp)) for record in records]
    for fixed, length in zip(measured.fixed_sizes.tolist(), lengths, strict=True):
        assert 2 + 1 <= length - fixed <= 2 + 5  # two deltas of 0 and the record's own length
