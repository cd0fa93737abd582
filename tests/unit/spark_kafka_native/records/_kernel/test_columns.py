"""Byte strings in Arrow's layout: offsets, data, and a bitmap if there are nulls."""

import pyarrow as pa
import pytest

from spark_kafka_native.records._kernel.decode import decode
from tests.support.raw_kernel import Memory, RawBatch, listed
from tests.support.reference_records import Record, write_record


@pytest.mark.parametrize("lengths", [range(70), [0] * 9, [5, None, 0, 40, None], [None] * 17, [1000, 3]])
def test_strings_of_all_lengths(lengths: "list[int | None]") -> None:
    values = [None if length is None else bytes(range(256)) * 4 for length in lengths]
    values = [value if value is None else value[:length] for value, length in zip(values, lengths, strict=True)]
    records = [write_record(Record(value=value, offset=row), 0, 0) for row, value in enumerate(values)]
    payload, memory = b"".join(records), Memory()
    batch = RawBatch(len(payload), len(records), last_offset_delta=len(records))
    rows = decode(payload, b"", listed(batch), 0, 2**62, ["value"], memory.allocate)
    assert rows is not None
    memory.check()
    buffers = [None if part is None else pa.py_buffer(part) for part in (rows.value.validity, rows.value.offsets)]
    column = pa.Array.from_buffers(pa.binary(), len(records), [*buffers, pa.py_buffer(rows.value.data)])
    column.validate(full=True)
    assert column.to_pylist() == values
    assert rows.value.nulls == values.count(None)
    assert (rows.value.validity is None) == (None not in values)
