"""Record batches to Arrow: every batch of a Fetch response into one ``pa.RecordBatch``, no Python object per record.

First batch by batch: header, CRC, codec, transactions (``selection``). Then all records of all batches (``kernel``:
compiled, or in plain Python).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_kafka_native._records.arrow.aborted import AbortedTransaction, AbortedTransactions
from spark_kafka_native._records.arrow.batches import Batches
from spark_kafka_native._records.arrow.kernel import read_batches
from spark_kafka_native._records.arrow.reference import columns_of
from spark_kafka_native._records.arrow.schema import ALL, record_batch, schema_of
from spark_kafka_native._records.arrow.selected import Limits, MessagePart, Part
from spark_kafka_native._records.arrow.selection import MAX_PAYLOAD_BYTES, select
from spark_kafka_native._records.batch import Buffer
from spark_kafka_native._records.decompression import MAX_DECOMPRESSED_BYTES
from spark_kafka_native._records.record import NO_HEADERS
from spark_kafka_native._records.scratch import Scratch, scratch

TARGET_BYTES = 1024 * 1024 * 1024
"""Bytes of decompressed payload after which ``decode`` stops, by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The result of ``decode``.

    ``next_offset``: the offset to continue at, never greater than ``until_offset``. ``bytes_used``: the bytes of the
    batches before it, shown or not. ``aborted``: the aborted transactions that the next call for the same buffer needs;
    None if they were not requested.
    """

    records: pa.RecordBatch
    next_offset: int
    bytes_used: int
    aborted: tuple[AbortedTransaction, ...] | None

    @property
    def records_count(self) -> int:
        """The number of rows."""
        return self.records.num_rows


def decode(
    buffer: Buffer | Batches,
    *,
    from_offset: int,
    until_offset: int,
    columns: Sequence[str] = ALL,
    check_crcs: bool = True,
    aborted: Iterable[AbortedTransaction] | None = None,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    target_rows: int | None = None,
    target_bytes: int = TARGET_BYTES,
) -> Decoded:
    """The records of ``buffer`` with offsets in [from_offset, until_offset), in order, as ``columns`` in that order.

    ``buffer`` is a Fetch response's records: batches in format v2, of any codecs and producers, and message sets of
    formats v0 and v1, the last one maybe cut off; nothing of the result refers to it. As ``Batches`` their headers are
    read once for several calls. Control batches are skipped, and with ``aborted`` given (it may be empty:
    read_committed) the batches of aborted transactions too. ``headers`` are null where a record has none.
    ``timestamp`` is the batch's ``max_timestamp`` under LogAppendTime; -1, "none", as all of format v0 have it, is a
    millisecond before 1970, as Spark's JVM connector has it. Columns that are not requested are not built, and then
    headers are not read.

    The result ends with the batch that reaches ``target_rows`` rows or ``target_bytes`` of decompressed payload. To
    continue, decode ``buffer[bytes_used:]``, or ``Batches.skip(bytes_used)``, from ``next_offset`` with the result's
    ``aborted``; once a call uses no bytes, no whole batch is left below ``until_offset``.

    Raises CorruptBatch: anything no writer would write, with its place; then nothing is returned, be it the last
    record of the last batch. ValueError: offsets or columns that make no sense.
    """
    if not 0 <= from_offset <= until_offset:
        raise ValueError(f"offsets from {from_offset} until {until_offset} are no range")
    if unknown := [name for name in columns if name not in ALL]:
        raise ValueError(f"no column {unknown[0]!r}; there are {', '.join(ALL)}")
    schema = schema_of(tuple(columns))
    batches = buffer if isinstance(buffer, Batches) else Batches.of(buffer)
    transactions = None if aborted is None else AbortedTransactions(aborted)
    limits = Limits(
        from_offset=from_offset,
        until_offset=until_offset,
        check_crcs=check_crcs,
        max_decompressed_bytes=min(max_decompressed_bytes, MAX_PAYLOAD_BYTES),
        target_rows=target_rows,
        target_bytes=target_bytes,
    )
    with scratch() as memory:
        selection = select(batches, limits, transactions, memory)
        parts = [_read(batches.view, memory, part, limits, schema) for part in selection.parts]
        records = _together(parts, schema)
    return Decoded(
        records=records,
        next_offset=selection.next_offset,
        bytes_used=selection.bytes_used,
        aborted=None if transactions is None else transactions.left(),
    )


def _read(
    view: memoryview, memory: Scratch, part: Part | MessagePart, limits: Limits, schema: pa.Schema
) -> pa.RecordBatch:
    if isinstance(part, Part):
        return read_batches(view, memory, part, limits, schema)
    found = part.messages
    no_headers = [NO_HEADERS] * len(found.offsets)
    return columns_of(found.offsets, found.timestamps, found.keys, found.values, no_headers, part.types, schema)


def _together(parts: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    some = [part for part in parts if part.num_rows]
    if len(some) == 1:
        return some[0]
    if not some or not schema.names:
        rows = sum(part.num_rows for part in some)
        return record_batch([pa.nulls(0, field.type) for field in schema], schema, rows)
    (whole,) = pa.Table.from_batches(some).combine_chunks().to_batches()
    return whole
