"""The compiled kernel and the reference: the same columns, the same errors, or both refuse."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spark_kafka_native._records.arrow import compiled, kernel, reference
from spark_kafka_native._records.arrow.batches import Batches
from spark_kafka_native._records.arrow.decode import Decoded, decode
from spark_kafka_native._records.arrow.schema import ALL, RECORD_FIELDS
from spark_kafka_native._records.arrow.selected import Limits, Part
from spark_kafka_native._records.arrow.selection import select
from spark_kafka_native._records.errors import CorruptBatch, UnreadableBatch
from spark_kafka_native._records.scratch import scratch


def read_both(
    buffer: bytes, from_offset: int = 0, until_offset: int = 2**62, columns: Sequence[str] = ALL
) -> pa.RecordBatch | None:
    """What both make of the batches in ``buffer``, None if there are none to show; asserts that it is the same.

    Raises CorruptBatch: the reference's, when both refuse.
    """
    view = memoryview(buffer)
    limits = Limits(
        from_offset=from_offset,
        until_offset=until_offset,
        check_crcs=True,
        max_decompressed_bytes=1 << 24,
        target_rows=None,
        target_bytes=1 << 24,
    )
    schema = pa.schema([RECORD_FIELDS.field(name) for name in columns])
    with scratch() as memory:
        parts = select(Batches.of(view), limits, None, memory).parts
        if not parts:
            return None
        (part,) = parts
        assert isinstance(part, Part)
        found = compiled.read_batches(view, memory, part, limits, schema)
        try:
            expected = reference.read_batches(view, memory, part, limits, schema)
        except CorruptBatch:
            assert found is None
            raise
        assert found is not None
        found.validate(full=True)
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert found.equals(expected)
        assert [column.null_count for column in found.columns] == [column.null_count for column in expected.columns]
        return found


def decode_both(batches: bytes | Batches, **options: Any) -> Decoded | UnreadableBatch:
    """What ``decode`` makes of it, or raises; asserts that both kernels do the same."""
    outcomes: list[Decoded | UnreadableBatch] = []
    for wish in ("off", "required"):
        with kernel.using(wish):
            try:
                outcomes.append(decode(batches, **options))
            except UnreadableBatch as error:
                outcomes.append(error)
    expected, found = outcomes
    if isinstance(expected, Decoded):
        assert isinstance(found, Decoded), found
        found.records.validate(full=True)
        assert found == expected
        assert found.records.schema.equals(expected.records.schema, check_metadata=True)
    else:
        assert isinstance(found, UnreadableBatch)
        assert (type(found), str(found), found.position) == (type(expected), str(expected), expected.position)
    return expected


def next_offset_by_both(buffer: bytes, start: int, offset: int, epoch: int) -> tuple[int, int]:
    """The next offset and its leader epoch; asserts that both kernels return the same."""
    results = []
    for wish in ("off", "required"):
        with kernel.using(wish):
            results.append(Batches.of(buffer).skip(start).next_offset(offset, epoch))
    expected, found = results
    assert found[:2] == expected[:2]
    assert (type(found.error), str(found.error)) == (type(expected.error), str(expected.error))
    return expected[:2]
