import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records import record as record_module
from spark_kafka_native._records.record import record_blocks, varint
from tests.support.memory import with_peak_bytes


def record(size: int) -> bytes:
    return varint(size) + b"r" * size


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(record_module, "_BLOCK_BYTES", 100)
    return 100


def cut(payload: bytes, size: int) -> list[bytes]:
    return [payload[start : start + size] for start in range(0, len(payload), size)]


@given(sizes=st.lists(st.integers(1, 60) | st.integers(100, 400), max_size=30), piece=st.integers(1, 500))
@settings(max_examples=200)
def test_blocks_are_the_records_in_order(sizes: list[int], piece: int) -> None:
    records = [record(size) for size in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_module, "_BLOCK_BYTES", 100)
        found = list(record_blocks(cut(b"".join(records), piece), len(records)))
    first = 0
    for block, count in found:
        assert block == b"".join(records[first : first + count])
        assert len(block) < 100 + max(map(len, records))
        first += count
    assert first == len(records)


def test_a_large_record_is_held_twice_at_most() -> None:
    """Once as what has come so far, once as its block."""
    body = 32 * 1024 * 1024
    piece = b"r" * 65_536
    pieces = [varint(body), *[piece] * (body // len(piece)), record(10)]
    sizes, peak = with_peak_bytes(lambda: [len(block) for block, _ in record_blocks(pieces, 2)])
    assert sizes == [len(varint(body)) + body, len(record(10))]
    assert peak <= 2.3 * body


def test_a_payload_of_one_block_is_not_read(small_blocks: int) -> None:
    assert list(record_blocks([b"\xff" * (small_blocks - 1)], 7)) == [(b"\xff" * (small_blocks - 1), 7)]
    assert list(record_blocks([], 0)) == []


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (record(50) * 3 + b"\x00" * 200, 9),
        (record(50) * 3 + b"\x01" * 200, 9),
        (record(50) * 3 + b"\xff" * 200, 9),
        (record(50) * 3 + varint(10_000) + b"r" * 200, 4),
        (record(50) * 5, 3),
        (record(50) * 5, 7),
    ],
)
@pytest.mark.parametrize("piece", [1, 30, 1000])
@pytest.mark.usefixtures("small_blocks")
def test_what_is_left_comes_last_with_the_records_that_should_be_in_it(payload: bytes, count: int, piece: int) -> None:
    *complete, (rest, left) = record_blocks(cut(payload, piece), count)
    assert all(block == record(50) * found for block, found in complete)
    assert sum(found for _, found in complete) + left == count
    assert rest != record(50) * left
