import gc

import pytest

from spark_kafka_native._records.arrow.batches import Batches, NextOffset
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.batch import set_offsets
from spark_kafka_native._records.errors import CorruptBatch
from tests.support.records.message_sets import message_set
from tests.support.records.reference import Batch, Record, numbered, write_batch

pytestmark = pytest.mark.usefixtures("each_kernel")


def batch(first: int, epoch: int = 0, count: int = 3) -> bytes:
    raw = bytearray(write_batch(Batch(records=numbered([Record(value=b"v")] * count, first), base_offset=first)))
    set_offsets(raw, 0, base_offset=first, partition_leader_epoch=epoch)
    return bytes(raw)


SIZE = len(batch(0))


@pytest.mark.parametrize(
    ("buffer", "reach"),
    [
        (b"", (2, 9)),
        (batch(0)[:-1], (2, 9)),
        (batch(0, 4), (3, 4)),
        (batch(0, 4) + batch(3, 5) + batch(6, 6)[:70], (6, 5)),
        (batch(3, 5) + batch(0, 6) + batch(3, 7), (6, 5)),
        (batch(0, 4) + message_set(b"x", b"y", first_offset=3) + batch(5, 6), (8, 6)),
        (message_set(b"x", b"y", first_offset=3), (5, -1)),
    ],
)
def test_next_offset_and_its_leader_epoch(buffer: bytes, reach: tuple[int, int]) -> None:
    assert Batches.of(bytes(buffer)).next_offset(2, 9) == NextOffset(*reach, None)


def test_next_offset_before_damaged_bytes() -> None:
    found = Batches.of(batch(0, 4) + bytes(60)).next_offset(0, -1)
    assert found[:2] == (3, 4)
    assert isinstance(found.error, CorruptBatch)
    assert found.error.position == SIZE


def test_next_offset_after_skipped_batches() -> None:
    batches = Batches.of(batch(0, 4) + batch(3, 5) + batch(6, 6))
    assert batches.skip(SIZE).next_offset(0, -1) == (9, 6, None)
    assert batches.skip(SIZE).before(2 * SIZE).next_offset(0, -1) == (6, 5, None)
    assert batches.skip(3 * SIZE).next_offset(0, -1) == (0, -1, None)


def test_decode_continues_after_skipped_bytes() -> None:
    batches = Batches.of(batch(0) + batch(3) + batch(6))
    shown = []
    while batches.size:
        decoded = decode(batches, from_offset=0, until_offset=100, columns=["offset"], target_rows=1)
        assert decoded.bytes_used == SIZE
        shown += decoded.records.column("offset").to_pylist()
        batches = batches.skip(decoded.bytes_used)
    assert shown == list(range(9))
    assert decode(batches, from_offset=0, until_offset=100).bytes_used == 0


def test_positions_count_from_the_beginning_of_the_buffer() -> None:
    damaged = bytearray(batch(0) + batch(3))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch, match=f"CRC-32C .*position {SIZE}, base offset 3") as caught:
        decode(Batches.of(damaged).skip(SIZE), from_offset=0, until_offset=100)
    assert decode(Batches.of(damaged).before(caught.value.position), from_offset=0, until_offset=100).next_offset == 3


def test_batches_in_a_cycle_are_garbage_collected() -> None:
    """A memoryview in a cycle must not be held by memory that the collector does not see."""
    gc.freeze()  # so that only what follows is looked at
    try:
        for _ in range(20):
            batches = Batches.of(memoryview(bytearray(batch(0))))
            decode(batches, from_offset=0, until_offset=100)
            cycle: list[object] = [batches, batches.view]
            cycle.append(cycle)
            del cycle, batches
            gc.collect()
    finally:
        gc.unfreeze()
