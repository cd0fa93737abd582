from dataclasses import replace

import pytest

from spark_kafka_native._records.arrow.aborted import AbortedTransactions
from spark_kafka_native._records.arrow.batches import Batches
from spark_kafka_native._records.arrow.selected import Limits, Part, SelectedBatch
from spark_kafka_native._records.arrow.selection import Selection, select
from spark_kafka_native._records.batch import CorruptBatch, read_header
from spark_kafka_native._records.control import ControlType
from spark_kafka_native._records.scratch import scratch
from tests.support.records.record_batches import marker
from tests.support.records.reference import CODECS, GZIP, Batch, Record, numbered, write_batch

pytestmark = pytest.mark.usefixtures("each_kernel")

LIMITS = Limits(
    from_offset=0,
    until_offset=100,
    check_crcs=True,
    max_decompressed_bytes=1_000_000,
    target_rows=None,
    target_bytes=1_000_000,
)


def batch(first: int, count: int = 10, codec: int = 0) -> bytes:
    return write_batch(Batch(records=numbered([Record(value=b"v")] * count, first), base_offset=first, codec=codec))


def broken(raw: bytes) -> bytes:
    return raw[:-3] + bytes([raw[-3] ^ 0xFF]) + raw[-2:]


def selected(buffer: bytes, limits: Limits = LIMITS, transactions: AbortedTransactions | None = None) -> Selection:
    with scratch() as memory:
        return select(Batches.of(buffer), limits, transactions, memory)


def chosen(selection: Selection) -> list[SelectedBatch]:
    return [batch for part in selection.parts if isinstance(part, Part) for batch in part]


@pytest.mark.parametrize("codec", CODECS)
def test_payloads_come_decompressed(codec: int) -> None:
    selection = selected(batch(0, 10) + batch(10, 5, codec))
    assert [(found.base_offset, found.length) for found in chosen(selection)] == [(0, 80), (10, 40)]
    assert chosen(selection)[1].position == len(batch(0, 10))


def test_only_wanted_batches_are_checked() -> None:
    buffer = broken(batch(0)) + batch(10) + broken(batch(20))
    limits = replace(LIMITS, from_offset=10, until_offset=20)
    assert [found.base_offset for found in chosen(selected(buffer, limits))] == [10]
    with pytest.raises(CorruptBatch, match=r"CRC-32C .*position 0, base offset 0"):
        selected(buffer, replace(limits, from_offset=9))
    with pytest.raises(CorruptBatch, match=f"CRC-32C .*position {2 * len(batch(0))}, base offset 20"):
        selected(buffer, replace(limits, until_offset=21))
    assert len(chosen(selected(buffer, replace(LIMITS, check_crcs=False)))) == 3


def test_a_broken_marker_does_not_end_a_transaction() -> None:
    with pytest.raises(CorruptBatch, match="CRC-32C"):
        selected(broken(bytes(marker(ControlType.ABORT, 1))), replace(LIMITS, from_offset=50), AbortedTransactions([]))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_payload_that_does_not_decompress_is_placed(codec: int) -> None:
    raw = bytearray(batch(10, 10, codec))
    raw[61:65] = b"junk"
    with pytest.raises(CorruptBatch, match=f"payload.*position {len(batch(0))}, base offset 10"):
        selected(batch(0) + bytes(raw), replace(LIMITS, check_crcs=False))


def test_a_false_records_count_is_corrupt() -> None:
    raw = bytearray(batch(0))
    raw[23:27] = raw[57:61] = (2**31 - 1).to_bytes(4, "big")
    raw[23:27] = (2**31 - 2).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="2147483647 records cannot make 80 bytes"):
        selected(bytes(raw), replace(LIMITS, check_crcs=False))


@pytest.mark.parametrize(
    ("target_rows", "target_bytes", "batches"),
    [(1, 10_000, 1), (10, 10_000, 1), (11, 10_000, 2), (None, 80, 1), (None, 81, 2), (None, 10_000, 3)],
)
def test_batches_are_selected_up_to_the_target(target_rows: int | None, target_bytes: int, batches: int) -> None:
    buffer = batch(0) + batch(10) + batch(20)
    limits = replace(LIMITS, target_rows=target_rows, target_bytes=target_bytes)
    selection = selected(buffer, limits)
    assert len(chosen(selection)) == batches
    assert (selection.next_offset, selection.bytes_used) == (10 * batches, len(buffer) // 3 * batches)


def test_more_than_positions_can_hold_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without half a gigabyte for it: the limit is lowered instead."""
    monkeypatch.setattr("spark_kafka_native._records.arrow.selection.MAX_PAYLOAD_BYTES", 250)
    for codec in CODECS[:2]:
        selection = selected(batch(0, 10, codec) + batch(10, 10, codec) + batch(20, 10, codec))
        assert len(chosen(selection)) == (1 if codec == 0 else 2)  # uncompressed ones stay where headers lie between
        assert selection.next_offset == 10 * len(chosen(selection))


BATCH = Batch(records=numbered([Record(timestamp=50)] * 2, 7), base_offset=7, last_offset_delta=4)


@pytest.mark.parametrize(
    ("batch", "row"),
    [
        (BATCH, SelectedBatch(0, 100, 14, 2, 7, 4, 50, 0, 39)),
        (replace(BATCH, codec=GZIP), SelectedBatch(1, 100, 14, 2, 7, 4, 50, 0, 39)),
        (replace(BATCH, log_append_time=60), SelectedBatch(0, 100, 14, 2, 7, 4, 60, 1, 39)),
    ],
)
def test_a_batch_is_listed_as_numbers(batch: Batch, row: SelectedBatch) -> None:
    part = Part()
    for start in (100, 200):
        part.add(read_header(write_batch(batch)), 39, start, 14)
    assert list(part) == [row, row._replace(start=200)]
