"""Selected batches to Arrow, wherever their payloads lie; all else of it is tested through ``decode``."""

import pyarrow as pa
import pytest

from spark_kafka_native.records.arrow.batches import Batches
from spark_kafka_native.records.arrow.schema import RECORD_FIELDS
from spark_kafka_native.records.arrow.scratch import scratch
from spark_kafka_native.records.arrow.selected import Limits
from spark_kafka_native.records.arrow.selection import select
from spark_kafka_native.records.arrow.vectorised import read_batches
from spark_kafka_native.records.errors import BadRecord
from tests.support.reference_records import GZIP, NONE, Batch, Record, numbered, write_batch

SCHEMA = pa.schema([RECORD_FIELDS.field(name) for name in ("value", "offset")])


def batch(first: int, codec: int, payload: bytes | None = None) -> bytes:
    records = numbered([Record(value=b"%d" % (first + index)) for index in range(3)], first)
    return write_batch(Batch(records=records, base_offset=first, codec=codec), payload)


def read(buffer: bytes, from_offset: int, until_offset: int) -> pa.RecordBatch:
    view = memoryview(buffer)
    limits = Limits(
        from_offset=from_offset,
        until_offset=until_offset,
        check_crcs=True,
        max_decompressed_bytes=1 << 20,
        target_rows=None,
        target_bytes=1 << 20,
    )
    with scratch() as memory:
        (part,) = select(Batches.of(view), limits, None, memory).parts
        return read_batches(view, memory, part, limits, SCHEMA)


@pytest.mark.parametrize("codecs", [(NONE, NONE, NONE), (GZIP, GZIP, GZIP), (NONE, GZIP, NONE), (GZIP, NONE, GZIP)])
def test_payloads_in_the_buffer_in_the_scratch_and_in_both(codecs: tuple[int, ...]) -> None:
    buffer = b"".join(batch(3 * index, codec) for index, codec in enumerate(codecs))
    found = read(buffer, 2, 7)
    assert found.column("offset").to_pylist() == [2, 3, 4, 5, 6]
    assert found.column("value").to_pylist() == [b"2", b"3", b"4", b"5", b"6"]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_a_bad_record_is_counted_from_the_first_batch_on(codec: int) -> None:
    good = b"\x0c\x00\x00\x00\x01\x01\x00"
    bad = good + b"\x0c\x00\x00\x02\x03\x01\x00" + b"\x0c\x00\x00\x04\x01\x01\x00"
    with pytest.raises(BadRecord, match="record 4: its key has an impossible length"):
        read(batch(0, NONE) + batch(3, codec, bad), 0, 100)
