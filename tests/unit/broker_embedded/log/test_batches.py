import random

import pytest

from broker_embedded._log.batches import batch_headers, batch_records, checked_batches, first_offset, is_zeroes
from broker_embedded._platform.platform import Buffer, File
from spark_kafka_native._records.batch import CompressionType, CorruptBatch, IncompleteBatch
from tests.support.broker.disk import MemoryFileSystem
from tests.support.records.log_batches import batch, joined
from tests.support.records.message_sets import message_set

LARGE = 3 * 1024 * 1024


def stored(data: Buffer) -> File:
    file = MemoryFileSystem().create("/0.log")
    file.write_at(0, data)
    return file


def walk(file: File, *, check: bool = True) -> list[tuple[int, int]]:
    step = checked_batches if check else batch_headers
    return [(position, header.size_in_bytes) for position, header in step(file, 0, file.size())]


@pytest.mark.parametrize("check", [True, False])
def test_batches_of_all_sizes_are_found(check: bool) -> None:
    sizes = [1, 10, 4000, 100, 70_000, 1, 1, LARGE, 5, 2 * 1024 * 1024, 30]
    batches = [batch(b"x" * size) for size in sizes]
    expected, position = [], 0
    for one in batches:
        expected.append((position, len(one)))
        position += len(one)
    assert walk(stored(joined(batches)), check=check) == expected


def test_a_range_in_the_middle() -> None:
    one = batch(b"a")
    file = stored(one * 10)
    found = [position for position, _ in batch_headers(file, len(one) * 2, len(one) * 5)]
    assert found == [len(one) * index for index in (2, 3, 4)]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("size", [10, 3000, LARGE])
def test_a_truncated_file_has_the_end_of_its_whole_batches(check: bool, size: int) -> None:
    one, last = batch(b"first"), batch(b"x" * size)
    for missing in {1, 2, 10, 50, len(last) // 2, len(last) - 62, len(last) - 61, len(last) - 12, len(last) - 1}:
        if 0 < missing < len(last):
            file = stored((one + last)[:-missing])
            found = []
            with pytest.raises(IncompleteBatch) as caught:
                found.extend(walk(file, check=check))
            assert (caught.value.position, caught.value.file) == (len(one), "/0.log")


@pytest.mark.parametrize("size", [10, 5000, LARGE])
@pytest.mark.parametrize("at", [17, 21, 40, 60, -1])
def test_a_flipped_bit_is_found_by_its_crc(size: int, at: int) -> None:
    one, bad = batch(b"x" * 2000), batch(b"x" * size)
    bad[at] ^= 1
    steps = checked_batches(stored(one + bad + one), 0, 2 * len(one) + len(bad))
    assert next(steps)[0] == 0
    with pytest.raises(CorruptBatch) as caught:
        next(steps)
    assert (caught.value.position, caught.value.file) == (len(one), "/0.log")


def test_headers_alone_do_not_look_at_payloads() -> None:
    bad = batch(b"x" * 100)
    bad[-1] ^= 1
    assert walk(stored(bad), check=False) == [(0, len(bad))]


@pytest.mark.parametrize("tail", [bytes(1), bytes(61), bytes(5000), b"\xff" * 100, b"garbage" * 20])
@pytest.mark.parametrize("check", [True, False])
def test_bytes_that_are_no_batch_are_corrupt(tail: bytes, check: bool) -> None:
    one = batch(b"a")
    with pytest.raises(CorruptBatch) as caught:
        walk(stored(one + tail), check=check)
    assert caught.value.position == len(one)


@pytest.mark.parametrize("check", [True, False])
def test_batches_of_every_format_are_skipped(check: bool) -> None:
    large = message_set(b"x" * 1_500_000, first_offset=9)
    parts = [
        message_set(b"a", b"b", magic=0),
        message_set(b"c", b"d", compression=CompressionType.GZIP, first_offset=2),
        batch(b"e", base_offset=4),
        message_set(*[b"v"] * 4, magic=1, first_offset=5),
        large,
        message_set(magic=0, first_offset=10),
    ]
    file = stored(b"".join(parts))
    steps = checked_batches(file, 0, file.size()) if check else batch_headers(file, 0, file.size())
    found = list(steps)
    assert [header.last_offset for _, header in found] == [0, 1, 3, 4, 5, 6, 7, 8, 9, 10]
    assert [header.magic for _, header in found] == [0, 0, 1, 2, 1, 1, 1, 1, 1, 0]
    assert [first_offset(file, *step) for step in found] == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]
    assert [record.offset for step in found for record in batch_records(file, *step)] == list(range(11))


@pytest.mark.parametrize("size", [10, 1_500_000])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_every_byte_of_a_message_is_checked(size: int, codec: CompressionType) -> None:
    one, bad = message_set(b"a"), message_set(random.Random(5).randbytes(size), compression=codec)
    bad[-1] ^= 1
    steps = checked_batches(stored(one + bad + one), 0, 2 * len(one) + len(bad))
    assert next(steps)[0] == 0
    with pytest.raises(CorruptBatch, match="CRC") as caught:
        next(steps)
    assert (caught.value.position, caught.value.file) == (len(one), "/0.log")


def test_the_error_of_unreadable_records_names_their_position() -> None:
    one, wrapped = message_set(b"a"), message_set(b"b" * 100, compression=CompressionType.GZIP)
    wrapped[60] ^= 1
    file = stored(one + wrapped)
    _, second = batch_headers(file, 0, file.size())
    with pytest.raises(CorruptBatch, match=r"gzip payload.*file /0\.log, position") as caught:
        batch_records(file, *second)
    assert caught.value.position == len(one)
    file.truncate(len(one) + 50)
    with pytest.raises(CorruptBatch, match="the file ends within"):
        batch_records(file, *second)


def test_zeroes_at_the_end_of_a_segment() -> None:
    file = stored(bytes(batch(b"a")) + bytes(3_000_000))
    size = file.size()
    assert is_zeroes(file, size - 3_000_000, size)
    assert is_zeroes(file, size, size)
    assert not is_zeroes(file, size - 3_000_000, size + 1)
    assert not is_zeroes(file, 0, size)


def test_a_file_shorter_than_said_is_incomplete() -> None:
    one = batch(b"a")
    file = stored(one)
    with pytest.raises(IncompleteBatch):
        list(checked_batches(file, 0, 2 * len(one)))
    with pytest.raises(IncompleteBatch):
        list(batch_headers(file, 0, 2 * len(one)))
