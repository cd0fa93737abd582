import struct
from typing import Any

import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.index import CorruptIndex, TimestampOffset
from broker_embedded._log.segment import LogSegment, PlacedBatch
from broker_embedded._log.segment_files import SWAP, SegmentFiles, segment_path
from broker_embedded._log.transaction_index import AbortedTransaction
from broker_embedded._platform.platform import ManualClock, Platform, read_file
from spark_kafka_native._records.batch import NO_TIMESTAMP, read_header
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem
from tests.support.records.log_batches import NOW_MS, batch, rows

BASE = 1000


class SegmentDriver:
    def __init__(self, **settings: Any) -> None:
        self.config = LogConfig(**{"index_interval_bytes": 100, **settings})
        self.clock = ManualClock(NOW_MS)
        self.files = FaultyFileSystem(MemoryFileSystem(self.clock))
        self.files.make_directory("/t-0")
        self.platform = Platform(clock=self.clock, file_system=self.files)
        self.segment = LogSegment.create("/t-0", BASE, self.config, self.platform)
        self.end = BASE

    def append(self, count: int = 1, timestamp: int = NOW_MS) -> int:
        position = self.segment.size
        data = batch(*[b"v"] * count, timestamps=timestamp, base_offset=self.end)
        self.end += count
        placed = PlacedBatch(position=0, size=len(data), last_offset=self.end - 1, max_timestamp=timestamp)
        self.segment.append(data, [placed])
        return position

    def should_roll(self, *, size: int = 1, offset: int = BASE, timestamp: int = NOW_MS, **settings: Any) -> bool:
        return self.segment.should_roll(
            LogConfig(**settings), size=size, last_offset=offset, max_timestamp=timestamp, now_ms=self.clock.now_ms()
        )

    def reopened(self) -> LogSegment:
        sizes = {entry.name: entry.size for entry in self.files.list_directory("/t-0")}
        name = f"{BASE:020d}"
        files = SegmentFiles(
            log=sizes[name + ".log"],
            index=sizes[name + ".index"],
            time_index=sizes[name + ".timeindex"],
            txn_index=sizes.get(name + ".txnindex", -1),
        )
        return LogSegment("/t-0", BASE, self.config, Platform(file_system=self.files), files)

    def names(self) -> list[str]:
        return [entry.name for entry in self.files.list_directory("/t-0")]


@pytest.fixture
def driver() -> SegmentDriver:
    return SegmentDriver()


def test_files_have_twenty_digits(driver: SegmentDriver) -> None:
    assert segment_path("/t-0", 5, ".log.swap") == "/t-0/00000000000000000005.log.swap"
    assert driver.names() == [f"00000000000000001000{suffix}" for suffix in (".index", ".log", ".timeindex")]


def test_index_entries_come_once_enough_was_appended(driver: SegmentDriver) -> None:
    positions = [driver.append(count=2, timestamp=NOW_MS + number) for number in range(6)]
    size = positions[1]
    assert size < 100 < 2 * size
    driver.segment.finish()
    # Bytes before the third and the fifth batch exceed the interval since the last entry.
    expected = struct.pack(">iiii", 5, positions[2], 9, positions[4])
    assert read_file(driver.files, segment_path("/t-0", BASE, ".index")) == expected
    times = struct.pack(">qiqiqi", NOW_MS + 2, 5, NOW_MS + 4, 9, NOW_MS + 5, 11)
    assert read_file(driver.files, segment_path("/t-0", BASE, ".timeindex")) == times


def test_batches_are_located_by_any_of_their_offsets(driver: SegmentDriver) -> None:
    positions = [driver.append(count=3) for _ in range(50)]
    for segment in (driver.segment, driver.reopened()):
        for offset in range(BASE, BASE + 150):
            located = segment.locate(offset, segment.size)
            assert located is not None
            batch_number, delta = divmod(offset - BASE, 3)
            assert (located[0], located[1].base_offset) == (positions[batch_number], offset - delta)
        assert segment.locate(BASE + 150, segment.size) is None
        assert segment.locate(BASE + 149, positions[-1]) is None


def test_a_wrong_index_entry_does_not_prevent_a_lookup(driver: SegmentDriver, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(50):
        driver.append()
    driver.segment.finish()
    index = driver.files.open(segment_path("/t-0", BASE, ".index"))
    for entry in (
        struct.pack(">ii", 0, 33),
        struct.pack(">ii", 0, driver.segment.size - 1),
        struct.pack(">ii", 0, 84 * 20),
        struct.pack(">ii", 0, -841),
        struct.pack(">ii", 0, 0),
        struct.pack(">ii", 0, driver.segment.size + 1),
    ):
        index.write_at(0, entry)
        located = driver.reopened().locate(BASE + 1, driver.segment.size)
        assert located is not None
        assert located[1].base_offset == BASE + 1
    assert "does not fit its log" in caplog.text
    index.truncate(4)
    segment = driver.reopened()
    assert segment.locate(BASE + 40, segment.size) is not None


def test_an_entry_that_leads_past_its_batch_is_noticed(driver: SegmentDriver, caplog: pytest.LogCaptureFixture) -> None:
    positions = [driver.append() for _ in range(50)]
    driver.segment.finish()
    index = driver.files.open(segment_path("/t-0", BASE, ".index"))
    index.write_at(0, struct.pack(">ii", 2, positions[10]))  # offset 1002 where the batch of offset 1010 is
    located = driver.reopened().locate(BASE + 3, driver.segment.size)
    assert located is not None
    assert (located[0], located[1].base_offset) == (positions[3], BASE + 3)
    assert f"the index points after the offset (file {driver.segment.path}, position {positions[10]})" in caplog.text
    index.write_at(index.size() - 8, struct.pack(">ii", 40, positions[49]))
    with pytest.raises(CorruptIndex, match=r"entry \(1040, \d+\) points to offset 1049 in the log"):
        driver.reopened().next_offset()


def test_the_next_offset_is_found_from_the_last_entry(driver: SegmentDriver) -> None:
    for _ in range(20):
        driver.append(count=4)
    driver.segment.finish()
    assert driver.reopened().next_offset() == BASE + 80


def test_an_empty_segment_takes_any_batch_whose_offset_fits_its_index(driver: SegmentDriver) -> None:
    assert not driver.should_roll(offset=BASE + 2**31 - 1)
    assert driver.should_roll(offset=BASE + 2**31)
    assert not driver.should_roll(size=10**6, segment_bytes=100, segment_ms=1, segment_index_bytes=4)


def test_a_segment_is_full_by_bytes(driver: SegmentDriver) -> None:
    driver.append()
    room = 500 - driver.segment.size
    assert not driver.should_roll(size=room, segment_bytes=500)
    assert driver.should_roll(size=room + 1, segment_bytes=500)


def test_a_segment_ages_by_its_records_not_by_the_clock(driver: SegmentDriver) -> None:
    driver.append(timestamp=5000)
    driver.append(timestamp=9000)
    driver.clock.advance(10**9)
    for segment in (driver.segment, driver.reopened()):
        driver.segment = segment
        assert not driver.should_roll(timestamp=5100, segment_ms=100)
        assert driver.should_roll(timestamp=5101, segment_ms=100)
        assert not driver.should_roll(timestamp=4000, segment_ms=100)


def test_a_compacted_segment_ages_no_longer_than_records_may_wait(driver: SegmentDriver) -> None:
    driver.append(timestamp=5000)
    limits = {"segment_ms": 100, "max_compaction_lag_ms": 50}
    assert not driver.should_roll(timestamp=5100, **limits)
    assert driver.should_roll(timestamp=5051, cleanup_policy=("compact",), **limits)
    assert not driver.should_roll(timestamp=5050, cleanup_policy=("compact",), **limits)


def test_segments_end_up_to_the_jitter_earlier_each_at_its_own_time() -> None:
    config, platform = LogConfig(segment_ms=1000, segment_jitter_ms=400), Platform(file_system=MemoryFileSystem())
    ends = set()
    for base in range(20):
        segment, data = LogSegment.create("/", base, config, platform), batch(b"v", timestamps=5000)
        segment.append(data, [PlacedBatch(position=0, size=len(data), last_offset=base, max_timestamp=5000)])

        def is_over(age: int, segment: LogSegment = segment) -> bool:
            last = segment.base_offset + 1
            return segment.should_roll(config, size=1, last_offset=last, max_timestamp=5000 + age, now_ms=0)

        ends.add(next(age for age in range(2000) if is_over(age)))
    assert len(ends) > 10
    assert 600 < min(ends) < max(ends) <= 1001
    driver = SegmentDriver(segment_ms=10, segment_jitter_ms=10**12)
    driver.append(timestamp=5000)
    assert not driver.should_roll(timestamp=5000, segment_ms=10)


def test_without_timestamps_the_clock_counts(driver: SegmentDriver) -> None:
    driver.append(timestamp=NO_TIMESTAMP)
    driver.clock.advance(100)
    assert not driver.should_roll(timestamp=NO_TIMESTAMP, segment_ms=100)
    driver.clock.advance(1)
    assert driver.should_roll(timestamp=NO_TIMESTAMP, segment_ms=100)
    assert driver.segment.retention_timestamp() == NOW_MS, "the time of the last write"
    driver.append(timestamp=77)
    assert driver.segment.retention_timestamp() == 77


@pytest.mark.parametrize(("index_bytes", "appends"), [(16, 4), (24, 2)])
def test_a_segment_is_full_when_an_index_is(index_bytes: int, appends: int) -> None:
    """16 bytes: two offsets, but a time index of one entry, which is kept for the end. 24: three and one."""
    driver = SegmentDriver(segment_index_bytes=index_bytes, index_interval_bytes=0)
    driver.append(timestamp=-1)
    rolls = []
    for _ in range(5):
        rolls.append(driver.should_roll())
        driver.append(timestamp=-1 if index_bytes == 16 else NOW_MS + len(rolls))
    assert rolls.index(True) == (0 if index_bytes == 16 else appends - 1)


def test_the_largest_timestamp_and_its_first_record(driver: SegmentDriver) -> None:
    assert driver.segment.largest == TimestampOffset(NO_TIMESTAMP, BASE)
    for timestamp in (500, 900, 900, 700):
        driver.append(count=2, timestamp=timestamp)
    assert driver.segment.largest == TimestampOffset(900, BASE + 3)
    driver.segment.finish()
    assert driver.reopened().largest == TimestampOffset(900, BASE + 3)


def test_a_failed_append_leaves_nothing(driver: SegmentDriver) -> None:
    driver.append()
    size, entries = driver.segment.size, len(driver.segment.offset_index)
    driver.files.space = 30
    with pytest.raises(OSError, match="No space"):
        driver.append()
    assert "truncate" in driver.files.steps[-1]
    assert driver.files.open(driver.segment.path).size() == driver.segment.size == size
    assert len(driver.segment.offset_index) == entries


def test_index_entries_that_cannot_be_written_do_not_fail_an_append(caplog: pytest.LogCaptureFixture) -> None:
    driver = SegmentDriver(index_interval_bytes=0)
    driver.files.fail("write *index")
    for _ in range(4200):
        driver.append()
    assert "index entries stay in memory" in caplog.text
    driver.files.heal()
    driver.segment.finish()
    assert len(driver.reopened().offset_index) == 4199


def test_truncation_drops_the_batch_that_holds_the_offset(driver: SegmentDriver) -> None:
    for number in range(20):
        driver.append(count=3, timestamp=NOW_MS + number)
    driver.segment.finish()
    assert driver.segment.truncate_to(BASE + 31) == BASE + 30
    read = rows(driver.segment.file().read_at(0, driver.segment.size))
    assert [row.offset for row in read] == list(range(BASE, BASE + 30))
    assert driver.segment.largest == TimestampOffset(NOW_MS + 9, BASE + 29)
    assert driver.reopened().next_offset() == BASE + 30
    assert driver.segment.truncate_to(BASE + 500) == BASE + 30
    driver.end = BASE + 30
    driver.append()
    assert driver.segment.truncate_to(BASE) == BASE
    assert (driver.segment.size, len(driver.segment.offset_index), len(driver.segment.time_index)) == (0, 0, 0)


def test_an_open_file_can_be_read_after_it_was_renamed(driver: SegmentDriver) -> None:
    driver.append()
    held, content = driver.segment.file(), driver.segment.file().read_at(0, 999)
    driver.files.steps = []
    driver.segment.rename(SWAP)
    kinds = (".log", ".index", ".timeindex")
    assert driver.files.steps == [f"rename {BASE:020d}{kind}" for kind in kinds]
    assert driver.segment.paths() == [f"/t-0/{BASE:020d}{kind}.swap" for kind in kinds]
    assert driver.segment.file() is held
    path = segment_path("/t-0", BASE, ".log")
    driver.files.create(path).write_at(0, b"another")
    assert driver.segment.file().read_at(0, 999) == content
    assert driver.platform.open_files.get(path).read_at(0, 999) == b"another"


def test_a_renaming_that_fails_leaves_the_file_its_name(driver: SegmentDriver) -> None:
    driver.files.fail("rename *.index")
    with pytest.raises(OSError, match="Input/output"):
        driver.segment.rename(SWAP)
    kinds = (".log.swap", ".index", ".timeindex")
    assert driver.segment.paths() == [f"/t-0/{BASE:020d}{kind}" for kind in kinds]
    assert driver.platform.open_files.of(driver.segment.offset_index).size() == 0


def test_deleted_files_that_keep_their_names_or_are_not_there(
    driver: SegmentDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.files.remove(driver.segment.time_index.path)
    driver.files.fail("rename *.index")
    driver.segment.rename_deleted()
    kinds = (".log.deleted", ".index", ".timeindex.deleted")
    assert driver.segment.paths() == [f"/t-0/{BASE:020d}{kind}" for kind in kinds]
    assert "cannot be renamed before its deletion" in caplog.text


def test_deleted_files_are_renamed_and_stay_readable(driver: SegmentDriver) -> None:
    driver.append()
    file = driver.segment.file()
    driver.segment.rename_deleted()
    assert sorted(driver.segment.paths()) == [f"/t-0/{name}" for name in driver.names()]
    assert all(name.endswith(".deleted") for name in driver.names())
    assert read_header(file.read_at(0, 1000)).base_offset == BASE
    assert driver.segment.file().size() == driver.segment.size


def test_a_file_that_cannot_be_renamed_is_to_be_removed_by_its_old_name(driver: SegmentDriver) -> None:
    driver.files.fail("rename *.index")
    driver.segment.rename_deleted()
    assert f"/t-0/{BASE:020d}.index" in driver.segment.paths()
    driver.segment.remove()
    assert driver.names() == []


def test_a_deleted_segment_keeps_its_file_when_a_later_one_is_deleted(driver: SegmentDriver) -> None:
    """A client may be receiving the first one still; compaction gives both the same base offset."""
    driver.append()
    first = driver.segment
    first.rename_deleted()
    second = LogSegment.create("/t-0", BASE, driver.config, driver.platform)
    second.rename_deleted()
    assert first.path == f"/t-0/{BASE:020d}.log.deleted"
    assert second.path == f"/t-0/{BASE:020d}.log.1.deleted"
    assert (first.file().size(), second.file().size()) == (first.size, 0)


def test_a_segment_at_rest_keeps_no_file_open(driver: SegmentDriver) -> None:
    driver.append()
    driver.segment.finish()
    sizes = driver.reopened()
    driver.files.fail("open *")
    assert sizes.size == driver.segment.size
    with pytest.raises(OSError, match="Input/output"):
        sizes.file()


def test_a_segment_works_under_other_file_names(driver: SegmentDriver) -> None:
    driver.append()
    driver.segment.transaction_index.append(AbortedTransaction(7, BASE, BASE, BASE + 1))
    driver.segment.finish()
    driver.segment.rename(".swap")
    kinds = (".index", ".log", ".timeindex", ".txnindex")
    assert driver.names() == [f"{BASE:020d}{kind}.swap" for kind in kinds]
    assert sorted(driver.segment.paths()) == [f"/t-0/{name}" for name in driver.names()]
    assert driver.segment.locate(BASE, driver.segment.size) is not None
    assert len(driver.segment.transaction_index.entries()) == 1
    driver.segment.rename("")
    assert driver.names() == [f"{BASE:020d}{kind}" for kind in kinds]
    driver.segment.remove()
    assert driver.names() == []
    driver.segment.remove()


def test_a_segment_begins_at_the_timestamp_of_its_first_batch(driver: SegmentDriver) -> None:
    assert driver.segment.first_timestamp() == NO_TIMESTAMP
    driver.append(timestamp=7000)
    driver.append(timestamp=5000)
    driver.segment.finish()
    assert (driver.segment.first_timestamp(), driver.reopened().first_timestamp()) == (7000, 7000)
