"""The checksum in an lz4 frame's header: right, and as message format v0 has it."""

import lz4.frame
import pytest

from spark_kafka_native.records.errors import CorruptBatch
from spark_kafka_native.records.lz4_header import break_checksum, repair_checksum

PLAIN = b"abc" * 100


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
def test_a_wrong_checksum_is_repaired(store_size: bool, checksum: bool) -> None:
    frame = lz4.frame.compress(PLAIN, store_size=store_size, content_checksum=checksum)
    assert repair_checksum(frame) == frame
    at = 14 if store_size else 6
    wrong = bytearray(frame)
    wrong[at] ^= 0xFF
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(bytes(wrong))
    assert lz4.frame.decompress(bytes(repair_checksum(memoryview(wrong)))) == PLAIN


def test_damaging_and_repairing_is_the_identity() -> None:
    frame = lz4.frame.compress(PLAIN, store_size=False)
    broken = break_checksum(frame)
    assert [at for at, (ours, theirs) in enumerate(zip(broken, frame, strict=True)) if ours != theirs] == [6]
    assert repair_checksum(broken) == frame


@pytest.mark.parametrize("end", range(7))
def test_a_frame_that_ends_in_its_header(end: int) -> None:
    with pytest.raises(CorruptBatch, match="cut off within its header"):
        repair_checksum(lz4.frame.compress(PLAIN, store_size=False)[:end])
