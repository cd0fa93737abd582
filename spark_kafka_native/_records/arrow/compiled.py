"""The compiled kernel with the arguments of `reference`: batches or columns in, Arrow columns or payloads out.

Importing this raises ImportError where the kernel has not been built; only `kernel` imports it.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from spark_kafka_native._records._kernel import decode, encode
from spark_kafka_native._records._kernel import murmur2 as hashes
from spark_kafka_native._records._kernel.batch_headers import BatchHeaders
from spark_kafka_native._records._kernel.columns import Strings
from spark_kafka_native._records._kernel.decode import Rows
from spark_kafka_native._records._kernel.selection import select
from spark_kafka_native._records.arrow.columns import Columns, Payload, Spans
from spark_kafka_native._records.arrow.schema import HEADER, HEADERS, I64, TYPES, U8, Column, record_batch
from spark_kafka_native._records.arrow.selected import Limits, Part
from spark_kafka_native._records.arrow.utf8 import REPLACE, decode_utf8
from spark_kafka_native._records.scratch import Scratch

__all__ = ["BatchHeaders", "Measured", "murmur2", "read_batches", "select"]

_INT64_MAX = 2**63 - 1


def read_batches(
    view: memoryview, memory: Scratch, part: Part, limits: Limits, schema: pa.Schema
) -> pa.RecordBatch | None:
    """The wanted records of a ``part`` of format v2; None if a writer would not write all of it."""
    rows = decode.decode(
        view,
        memory.data,
        part.numbers,
        limits.from_offset,
        min(limits.until_offset, _INT64_MAX),
        schema.names,
        pa.allocate_buffer,
    )
    if rows is None:
        return None
    return record_batch([_COLUMNS[name](rows) for name in schema.names], schema, rows.count)


def _strings(strings: Strings, count: int) -> Column:
    return pa.Array.from_buffers(
        TYPES["value"], count, [strings.validity, strings.offsets, strings.data], null_count=strings.nulls
    )


def _numbers(name: str, data: pa.Buffer, count: int) -> Column:
    return pa.Array.from_buffers(TYPES[name], count, [None, data], null_count=0)


def _headers(rows: Rows) -> Column:
    lists = rows.headers
    if not lists.count:
        return pa.nulls(rows.count, HEADERS)
    names = decode_utf8(_strings(lists.keys, lists.count), REPLACE)
    entries = pa.StructArray.from_arrays([names, _strings(lists.values, lists.count)], fields=list(HEADER))
    return pa.Array.from_buffers(
        HEADERS, rows.count, [lists.validity, lists.offsets], null_count=lists.nulls, children=[entries]
    )


_COLUMNS: dict[str, Callable[[Rows], Column]] = {
    "key": lambda rows: _strings(rows.key, rows.count),
    "value": lambda rows: _strings(rows.value, rows.count),
    "offset": lambda rows: _numbers("offset", rows.offset, rows.count),
    "timestamp": lambda rows: _numbers("timestamp", rows.timestamp, rows.count),
    "timestamp_type": lambda rows: _numbers("timestamp_type", rows.timestamp_type, rows.count),
    "headers": _headers,
}


class Measured:
    """Records measured, and ready to be written in any order."""

    def __init__(self, columns: Columns) -> None:
        headers = columns.headers
        self._timestamps = columns.timestamps
        self._records = encode.Measured(
            len(columns.timestamps),
            _source(columns.keys),
            _source(columns.values),
            None if headers is None else headers.counts,
            None if headers is None else _source(headers.keys),
            None if headers is None else _source(headers.values),
        )
        self.fixed_sizes: I64 = np.frombuffer(self._records.sizes, np.int64)

    def payload(self, rows: I64, firsts: I64, header_bytes: int) -> Payload:
        """As `kernel.MeasuredRecords`."""
        data, begins = self._records.encode(rows, firsts, self._timestamps, header_bytes, pa.allocate_buffer)
        return Payload(memoryview(data), np.frombuffer(begins, np.int64))


def _source(spans: Spans | None) -> tuple[pa.Buffer | None, pa.Buffer, int, I64] | None:
    if spans is None:
        return None
    _, offsets, data = spans.content.buffers()
    assert offsets is not None
    return data, offsets, spans.content.offset, spans.lengths


def murmur2(data: U8, starts: I64, lengths: I64) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    """murmur2 of each span of ``data``: int32[n]."""
    return np.frombuffer(hashes.murmur2(data, starts, lengths), np.int32)
