"""Record batches for tests, in one line each."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from spark_kafka_native._records.arrow.decode import Decoded
from spark_kafka_native._records.arrow.encode import MeasuredRows
from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._records.control import ControlType, encode_end_txn_marker

TIMESTAMP_MS = 1_700_000_000_000


def batch_of(
    values: Sequence[bytes | None],
    *,
    timestamp_ms: int = TIMESTAMP_MS,
    compression: CompressionType = CompressionType.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """One record batch with these values."""
    measured = MeasuredRows(rows(values), timestamp_ms)
    (encoded,) = measured.encode(compression=compression, max_batch_bytes=2**31 - 1)
    encoded.stamp(
        producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence, transactional=transactional
    )
    return bytearray(encoded.buffer)


def rows(values: Sequence[bytes | None], **columns: Sequence[object]) -> pa.RecordBatch:
    """Rows to write: a value column, and others as named."""
    return pa.RecordBatch.from_pydict(
        {"value": pa.array(values, pa.binary()), **{k: pa.array(v) for k, v in columns.items()}}
    )


class Aborted(NamedTuple):
    """An aborted transaction, as a Fetch response names it."""

    producer_id: int
    first_offset: int


def marker(kind: ControlType, producer_id: int, **fields: int) -> bytearray:
    """A transaction's end, as brokers write it into the log."""
    defaults = {"producer_epoch": 0, "timestamp_ms": TIMESTAMP_MS, "coordinator_epoch": 0}
    return encode_end_txn_marker(kind, producer_id=producer_id, **{**defaults, **fields})


def as_rows(decoded: Decoded) -> list[dict[str, object]]:
    """Rows as `tests.support.records.reference` has them."""
    table = pa.table(decoded.records)
    return table.set_column(3, "timestamp", table["timestamp"].cast(pa.int64())).drop("timestamp_type").to_pylist()
