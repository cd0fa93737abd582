"""Batches to Arrow and Arrow to records in plain Python, by the reader and writer of `_records.record`.

The compiled kernel must equal it, and it alone raises errors. It reads what the kernel refuses, message sets, and
everything where the kernel has not been built.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from spark_kafka_native._records.arrow.columns import Columns, Payload, Spans
from spark_kafka_native._records.arrow.schema import HEADERS, I64, TYPES, Column, record_batch
from spark_kafka_native._records.arrow.selected import Limits, Part
from spark_kafka_native._records.arrow.utf8 import repaired
from spark_kafka_native._records.batch import BatchHeader, Buffer, read_header
from spark_kafka_native._records.errors import CorruptBatch
from spark_kafka_native._records.record import (
    NO_HEADERS,
    LogRecord,
    as_int64,
    bad_record,
    encode_body,
    encode_headers,
    parse_records,
    read_headers,
    read_varint,
    varint,
)
from spark_kafka_native._records.scratch import Scratch

_MIN_HEADER_BYTES = 2
_DELTAS_OF_ZERO = 2
"""Bytes of the two deltas of a batch's first record."""


def read_batches(view: memoryview, memory: Scratch, part: Part, limits: Limits, schema: pa.Schema) -> pa.RecordBatch:
    """The wanted records of the batches of a ``part``.

    Raises CorruptBatch: anything no writer would write.
    """
    rows: list[LogRecord] = []
    types: list[int] = []
    for batch in part:
        header = read_header(view, batch.position)
        payload = (memory.data if batch.is_in_scratch else view)[batch.start : batch.start + batch.length]
        try:
            rows += _read_batch(payload, header, limits, look_into_headers="headers" in schema.names)
        except CorruptBatch as error:
            raise error.placed(start=batch.position, base_offset=batch.base_offset) from None
        types += [batch.time_type] * (len(rows) - len(types))
    offsets, timestamps, keys, values, headers = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return columns_of(offsets, timestamps, keys, values, headers, types, schema)


def _read_batch(payload: Buffer, header: BatchHeader, limits: Limits, *, look_into_headers: bool) -> list[LogRecord]:
    rows: list[LogRecord] = []
    before = header.base_offset - 1
    for index, record in enumerate(parse_records([payload], header)):
        offset = record.offset
        if offset <= before:
            raise bad_record(index, f"offset {offset} is not greater than the previous record's offset {before}")
        if offset > header.last_offset:
            raise bad_record(index, f"offset {offset} is greater than the batch's last offset {header.last_offset}")
        before = offset
        if record.headers != NO_HEADERS:
            count, position = read_varint(record.headers, 0, len(record.headers), index)
            left = len(record.headers) - position
            if not 0 <= count * _MIN_HEADER_BYTES <= left or (left and not count):
                raise bad_record(index, f"impossible header count {count}, {left} bytes of the record are left")
        if limits.from_offset <= offset < limits.until_offset:
            if look_into_headers:
                read_headers(record.headers, index)
            rows.append(record)
    return rows


def columns_of(
    offsets: Sequence[int],
    timestamps: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[bytes],
    types: Sequence[int],
    schema: pa.Schema,
) -> pa.RecordBatch:
    """The fields of records as columns. ``types`` are timestamp types; ``headers`` are as they are stored."""
    columns: dict[str, Callable[[], Column]] = {
        "key": lambda: pa.array(keys, pa.binary()),
        "value": lambda: pa.array(values, pa.binary()),
        "offset": lambda: pa.array(offsets, pa.int64()),
        "timestamp": lambda: pa.array(timestamps, pa.int64()).cast(TYPES["timestamp"]),
        "timestamp_type": lambda: pa.array(types, pa.int32()),
        "headers": lambda: pa.array([_headers(raw) for raw in headers], HEADERS),
    }
    return record_batch([columns[name]() for name in schema.names], schema, len(offsets))


def _headers(raw: bytes) -> list[dict[str, str | bytes | None]] | None:
    if raw == NO_HEADERS:
        return None
    return [{"key": repaired(key).decode(), "value": value} for key, value in read_headers(raw)] or None


class Measured:
    """Records measured, and ready to be written in any order. See `kernel.MeasuredRecords`."""

    def __init__(self, columns: Columns) -> None:
        self._timestamps: list[int] = columns.timestamps.tolist()
        rows = len(self._timestamps)
        headers = [NO_HEADERS] * rows
        if columns.headers is not None:
            keys, values = columns.headers.keys.content.to_pylist(), columns.headers.values.content.to_pylist()
            ends = np.cumsum(columns.headers.counts).tolist()
            headers = [
                encode_headers(
                    [(key or b"", value) for key, value in zip(keys[start:end], values[start:end], strict=True)]
                )
                for start, end in pairwise([0, *ends])
            ]
        self._records = list(zip(_content(columns.keys, rows), _content(columns.values, rows), headers, strict=True))
        sizes = [len(encode_body(0, 0, *record)) - _DELTAS_OF_ZERO for record in self._records]
        self.fixed_sizes: I64 = np.array(sizes, dtype=np.int64)

    def payload(self, rows: I64, firsts: I64, header_bytes: int) -> Payload:
        """As `kernel.MeasuredRecords`."""
        data, begins, starts = bytearray(), list[int](), set(firsts.tolist())
        first = base_timestamp = 0
        for index, row in enumerate(rows.tolist()):
            if index in starts:
                first, base_timestamp = index, self._timestamps[row]
                data += bytes(header_bytes)
            begins.append(len(data))
            delta = as_int64(self._timestamps[row] - base_timestamp)
            body = encode_body(delta, index - first, *self._records[row])
            data += varint(len(body)) + body
        return Payload(memoryview(data), np.array([*begins, len(data)], dtype=np.int64))


def _content(spans: Spans | None, rows: int) -> Sequence[bytes | None]:
    return [None] * rows if spans is None else spans.content.to_pylist()
