import struct
from bisect import bisect_right
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._log.index import CorruptIndex, OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from broker_embedded._platform.open_files import OpenFiles
from broker_embedded._platform.platform import read_file
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem

PATH = "/00000000000000001000.index"
BASE = 1000
MANY = 5000  # more than an index gathers in memory


class Disk:
    """Indexes in one place, opened as often as you like."""

    def __init__(self) -> None:
        self.files = FaultyFileSystem(MemoryFileSystem())
        self.files.create(PATH)
        self.max_bytes = 1024 * 1024
        self.log_size = 100_000

    def offset_index(self) -> OffsetIndex:
        return OffsetIndex(
            PATH,
            BASE,
            open_files=OpenFiles(self.files, 8),
            max_bytes=self.max_bytes,
            file_size=self.size,
            log_size=self.log_size,
        )

    def time_index(self) -> TimeIndex:
        return TimeIndex(PATH, BASE, open_files=OpenFiles(self.files, 8), max_bytes=self.max_bytes, file_size=self.size)

    @property
    def size(self) -> int:
        return self.files.open(PATH).size()


@pytest.fixture
def disk() -> Disk:
    return Disk()


def test_offset_index_bytes(disk: Disk) -> None:
    index = disk.offset_index()
    index.append(1010, 4200)
    index.append(1020, 9000)
    index.finish()
    assert read_file(disk.files, PATH) == struct.pack(">iiii", 10, 4200, 20, 9000)
    assert len(index) == len(disk.offset_index()) == 2
    assert disk.offset_index().last() == OffsetPosition(1020, 9000)


def test_time_index_bytes_and_what_is_not_worth_an_entry(disk: Disk) -> None:
    index = disk.time_index()
    for timestamp, offset in [(5000, 1010), (5000, 1020), (4000, 1030), (6000, 1040)]:
        index.maybe_append(TimestampOffset(timestamp, offset))
    index.finish()
    assert read_file(disk.files, PATH) == struct.pack(">qiqi", 5000, 10, 6000, 40)
    assert disk.time_index().last() == TimestampOffset(6000, 1040)


def test_an_empty_index_sends_to_the_start(disk: Disk) -> None:
    assert disk.offset_index().lookup(5000) == 0
    assert disk.offset_index().last() is None
    assert disk.time_index().lookup(5000) == TimestampOffset(-1, BASE)
    assert disk.time_index().last() == TimestampOffset(-1, BASE)


@pytest.mark.parametrize("written", [511, 512, 513, MANY])
def test_every_entry_is_found_in_whichever_block_it_is(disk: Disk, written: int) -> None:
    index = disk.offset_index()
    for number in range(1, written + 1):
        index.append(BASE + 2 * number, 10 * number)
    index.finish()
    again = disk.offset_index()
    assert [again.lookup(BASE + 2 * number) for number in range(written + 1)] == [10 * n for n in range(written + 1)]
    assert again.lookup(BASE + 2 * written + 99) == 10 * written


@given(
    steps=st.lists(st.integers(1, 50), max_size=40),
    written=st.integers(0, 40),
    wanted=st.lists(st.integers(0, 2500), max_size=10),
)
def test_lookups_find_the_last_entry_at_or_before(steps: list[int], written: int, wanted: list[int]) -> None:
    """Some entries in the file, the others still in memory."""
    disk = Disk()
    entries: list[tuple[int, int]] = []
    index = disk.offset_index()
    offset = BASE
    for number, step in enumerate(steps):
        offset += step
        entries.append((offset, (number + 1) * 100))
        index.append(*entries[-1])
        if number == written:
            index.finish()
    for target in wanted:
        found = bisect_right([entry[0] for entry in entries], target)
        assert index.lookup(target) == (entries[found - 1][1] if found else 0)


def test_the_first_entry_from_a_position_on(disk: Disk) -> None:
    index = disk.offset_index()
    for step in range(1, 6):
        index.append(BASE + step * 10, step * 1000)
    found = [index.first_from(position) for position in (0, 1000, 1001, 5000, 5001)]
    assert found == [(1010, 1000), (1010, 1000), (1020, 2000), (1050, 5000), None]


def test_offsets_too_far_for_an_entry_are_after_all_entries(disk: Disk) -> None:
    index = disk.offset_index()
    index.append(BASE + 2**31 - 1, 2**31 - 1)
    assert index.lookup(BASE + 2**40) == 2**31 - 1
    assert index.lookup(BASE + 2**31 - 2) == 0


def test_many_entries_are_written_in_pieces(disk: Disk) -> None:
    index = disk.offset_index()
    for number in range(1, MANY + 1):
        index.append(BASE + number, number * 10)
        index.write_pending_if_many()
    assert 0 < disk.size < MANY * 8
    assert [index.lookup(BASE + number) for number in (1, 4095, 4096, 4097, MANY)] == [10, 40950, 40960, 40970, 50000]
    index.finish()
    assert disk.size == MANY * 8


def test_entries_that_cannot_be_written_stay_and_are_written_later(disk: Disk) -> None:
    index = disk.offset_index()
    for number in range(1, MANY + 1):
        index.append(BASE + number, number * 10)
    disk.files.space = 1001
    with pytest.raises(OSError, match="No space"):
        index.write_pending_if_many()
    assert index.lookup(BASE + MANY) == MANY * 10
    disk.files.heal()
    index.finish()
    assert disk.size == MANY * 8
    assert disk.offset_index().lookup(BASE + 77) == 770


def test_finish_leaves_no_bytes_after_the_entries(disk: Disk) -> None:
    disk.files.open(PATH).write_at(0, bytes(100))
    index = disk.offset_index()
    index.reset()
    index.append(1010, 50)
    index.finish()
    assert disk.size == 8


def test_full_indexes_take_no_more_but_for_the_closing_time(disk: Disk) -> None:
    disk.max_bytes = 24  # three entries of the one, two of the other
    offsets, times = disk.offset_index(), disk.time_index()
    for number in range(1, 4):
        assert not offsets.is_full
        offsets.append(BASE + number, number)
    offsets.append(BASE + 9, 9)
    assert (offsets.is_full, len(offsets)) == (True, 3)
    times.maybe_append(TimestampOffset(1, BASE))
    assert times.is_full
    times.maybe_append(TimestampOffset(2, BASE + 1))
    assert len(times) == 1
    times.maybe_append(TimestampOffset(2, BASE + 1), closing=True)
    assert len(times) == 2


def test_truncation_by_offset(disk: Disk) -> None:
    index = disk.offset_index()
    for offset in (1010, 1020, 1030):
        index.append(offset, offset)
    index.finish()
    index.append(1040, 1040)
    index.truncate_to(1030)
    assert (len(index), index.last(), disk.size) == (2, OffsetPosition(1020, 1020), 16)
    index.truncate_to(1000)
    assert (len(index), disk.size) == (0, 0)


def test_truncation_of_times_goes_by_offset_too(disk: Disk) -> None:
    index = disk.time_index()
    for timestamp, offset in [(50, 1010), (60, 1020), (70, 1030)]:
        index.maybe_append(TimestampOffset(timestamp, offset))
    index.truncate_to(1020)
    assert (index.last(), index.lookup(1000)) == (TimestampOffset(50, 1010), TimestampOffset(50, 1010))
    index.maybe_append(TimestampOffset(55, 1015))
    assert index.last() == TimestampOffset(55, 1015)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"1234", "4 bytes are not a multiple of 8"),
        (bytes(8), "is outside a log of 5000 bytes"),
        (struct.pack(">ii", 5, 5000), "is outside a log of 5000 bytes"),
        (struct.pack(">ii", -5, 500), "is outside a log of 5000 bytes"),
        (struct.pack(">ii", 5, 500) + bytes(80), "is outside a log of 5000 bytes"),
    ],
)
def test_an_offset_index_that_cannot_be_right(disk: Disk, raw: bytes, problem: str) -> None:
    disk.files.open(PATH).write_at(0, raw)
    disk.log_size = 5000
    index = disk.offset_index()
    if disk.size % 8:
        with pytest.raises(CorruptIndex, match=problem):
            index.check_size(disk.size)
        return
    for use in (index.check, index.last, lambda: index.lookup(BASE + 7)):
        with pytest.raises(CorruptIndex, match=problem):
            use()


@pytest.mark.parametrize(
    "raw", [b"12345", bytes(24), struct.pack(">qi", 5000, 10) + bytes(12), struct.pack(">qi", 5000, -1)]
)
def test_a_time_index_that_cannot_be_right(disk: Disk, raw: bytes) -> None:
    disk.files.open(PATH).write_at(0, raw)
    index = disk.time_index()
    use = partial(index.check_size, disk.size) if disk.size % 12 else partial(index.lookup, 0)
    with pytest.raises(CorruptIndex, match=PATH):
        use()


def test_valid_indexes_pass_the_check(disk: Disk) -> None:
    disk.log_size = 5000
    disk.offset_index().check()
    disk.time_index().check()
    disk.offset_index().check_size(0)
    disk.files.open(PATH).write_at(0, struct.pack(">iiii", 5, 500, 9, 4999))
    disk.offset_index().check()
    disk.offset_index().check_size(16)
    disk.files.create(PATH).write_at(0, struct.pack(">qiqi", 5, 500, 9, 4999))
    disk.time_index().check()
    disk.time_index().check_size(24)


def test_a_file_truncated_by_another_process_is_an_error_not_a_crash(disk: Disk) -> None:
    index = disk.offset_index()
    for offset in range(1001, 1100):
        index.append(offset, offset)
    index.finish()
    disk.files.open(PATH).truncate(20)
    with pytest.raises(CorruptIndex, match="ends before entry"):
        index.lookup(1090)


def test_opening_an_index_reads_nothing(disk: Disk) -> None:
    disk.files.fail("open *")
    index = OffsetIndex(PATH, BASE, open_files=OpenFiles(disk.files, 8), max_bytes=100, file_size=16)
    assert len(index) == 2
