"""Rows of Arrow record batches as objects, a column at a time."""

import itertools
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.records import ConsumerRecord

_NO_TIMESTAMP: Final = -1
_LOG_APPEND_TIME: Final = 1


def records_of(partition: TopicPartition, batch: pa.RecordBatch) -> list[ConsumerRecord]:
    """The records of a batch with all columns of ``records.arrow.schema``."""
    timestamps = batch.column("timestamp").cast(pa.int64())
    has_none = pc.equal(timestamps, pa.scalar(_NO_TIMESTAMP, pa.int64()))
    rows = zip(
        itertools.repeat(partition.topic, batch.num_rows),
        itertools.repeat(partition.partition),
        batch.column("offset").to_pylist(),
        pc.if_else(has_none, pa.scalar(None, pa.int64()), timestamps).to_pylist(),
        pc.equal(batch.column("timestamp_type"), pa.scalar(_LOG_APPEND_TIME, pa.int32())).to_pylist(),
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        _headers(batch),
        strict=False,
    )
    return list(map(ConsumerRecord._make, rows))


def _headers(batch: pa.RecordBatch) -> list[tuple[tuple[str, bytes | None], ...]]:
    column = cast("pa.ListArray[Any]", batch.column("headers"))
    if column.null_count == len(column):
        return [()] * len(column)
    headers = column.flatten()
    names, values = (pc.struct_field(headers, name).to_pylist() for name in ("key", "value"))
    pairs = list(zip(names, values, strict=True))
    found = []
    end = 0
    for count in pc.list_value_length(column).to_pylist():
        start, end = end, end + (count or 0)
        found.append(tuple(pairs[start:end]))
    return found
