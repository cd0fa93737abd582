import tracemalloc
from itertools import count

import pytest

from tests.support.records.raw_kernel import Memory, NoMemory, RawBatch, decode_raw
from tests.support.records.reference import Record, write_record

RECORD = Record(b"key", b"value", (("name", b"x"), ("other", None)))

ALLOCATIONS = 15
"""Three columns of numbers; of four columns of strings data, offsets, and bitmaps where there are nulls; lists' two."""


def payload_of(records: int) -> bytearray:
    rows = [Record(b"key", None if offset % 2 else b"value", RECORD.headers, 0, offset) for offset in range(records)]
    return bytearray(b"".join(write_record(row, 0, 0) for row in rows))


def batch_of(payload: bytearray, records: int) -> RawBatch:
    return RawBatch(len(payload), records, last_offset_delta=records - 1)


def test_memory_that_cannot_be_written_is_refused() -> None:
    payload = payload_of(1)
    with pytest.raises(BufferError):
        decode_raw(payload, batch_of(payload, 1), allocate=bytes)


def test_memory_that_is_too_small_is_refused() -> None:
    payload = payload_of(2)
    whole = Memory()
    assert decode_raw(payload, batch_of(payload, 2), allocate=whole.allocate) is not None
    whole.check()
    assert whole.calls == ALLOCATIONS
    for short in range(ALLOCATIONS):
        memory = Memory(short=short)
        with pytest.raises(ValueError, match="bytes were requested"):
            decode_raw(payload, batch_of(payload, 2), allocate=memory.allocate)
        memory.check()


def test_views_are_released() -> None:
    good = payload_of(3)
    for bad in (good, good[:-1] + b"\xff", b"\xff" + good[1:]):
        payload = bytearray(bad)
        assert (decode_raw(payload, batch_of(payload, 3)) is None) == (bad != good)
        payload.clear()  # BufferError if anybody still had it
    for fails in range(ALLOCATIONS):
        payload = bytearray(good)
        with pytest.raises(NoMemory):
            decode_raw(payload, batch_of(payload, 3), allocate=Memory(fails=fails).allocate)
        payload.clear()


def test_views_are_released_after_errors() -> None:
    rows = 10_000
    good = payload_of(rows)
    bad = good[:-1] + b"\x02"  # the last header's value is longer than what is left

    def every_way() -> None:
        assert decode_raw(bad, batch_of(bad, rows)) is None
        for fails in count():
            try:
                decode_raw(good, batch_of(good, rows), allocate=Memory(fails=fails).allocate)
            except NoMemory:
                continue
            return

    every_way()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        every_way()
        after, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most - before > 8 * rows  # it is seen at all
    assert after - before < rows
