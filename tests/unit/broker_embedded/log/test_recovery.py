from collections.abc import Callable

import pytest

from broker_embedded._platform.platform import read_file
from tests.support.broker.log_driver import DIRECTORY, LogDriver, offset_for_timestamp
from tests.support.records.log_batches import NOW_MS, batch

SMALL = {"segment.bytes": 400, "index.interval.bytes": 100}
Damage = Callable[[bytes], bytes]


def path(offset: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{offset:020d}{suffix}"


@pytest.fixture
def driver() -> LogDriver:
    """Twenty records in four segments; nothing was flushed."""
    driver = LogDriver(SMALL)
    for _ in range(20):
        driver.append()
    assert driver.log.local.view.bases == (0, 5, 10, 15)
    return driver


def rewrite(driver: LogDriver, offset: int, damage: Damage, suffix: str = ".log") -> None:
    data = damage(read_file(driver.disk, path(offset, suffix)))
    driver.disk.create(path(offset, suffix)).write_at(0, data)


def size_of_batch() -> int:
    return len(batch(b"000000"))


# Each damages a segment of five batches so that this many of them stay.
DAMAGES: dict[str, tuple[Damage, int]] = {
    "a bit of the last payload": (lambda data: data[:-1] + bytes([data[-1] ^ 1]), 4),
    "a bit of a payload in the middle": (lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], 2),
    "a bit of the first header": (lambda data: data[:30] + bytes([data[30] ^ 1]) + data[31:], 0),
    "a huge length": (lambda data: data[:8] + b"\x7f\xff\xff\xff" + data[12:], 0),
    "a negative length": (lambda data: data[:8] + b"\xff\xff\xff\xff" + data[12:], 0),
    "an unknown magic": (lambda data: data[:16] + b"\x07" + data[17:], 0),
    "half of the last batch missing": (lambda data: data[: -size_of_batch() // 2], 4),
    "only a part of the last header": (lambda data: data[: -size_of_batch() + 20], 4),
    "one byte of the last batch": (lambda data: data[: -size_of_batch() + 1], 4),
    "zeroes after it": (lambda data: data + bytes(100), 5),
    "a short tail of zeroes": (lambda data: data + bytes(5), 5),
    "garbage after it": (lambda data: data + b"garbage " * 20, 5),
    "zeroes instead of the last batch": (lambda data: data[: -size_of_batch()] + bytes(size_of_batch()), 4),
    "zeroes instead of all": (lambda data: bytes(len(data)), 0),
    "an old batch again": (lambda data: data + data[: size_of_batch()], 5),
    "nothing": (lambda data: data[:0], 0),
}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("base", [0, 10, 15])
def test_the_log_ends_at_the_first_batch_that_is_not_sound(
    driver: LogDriver, name: str, base: int, caplog: pytest.LogCaptureFixture
) -> None:
    damage, whole = DAMAGES[name]
    rewrite(driver, base, damage)
    left = base + whole
    driver.reopen(clean=False)
    assert driver.log.log_end_offset == (20 if whole == 5 and base == 15 else left)
    del driver.values[driver.log.log_end_offset :]
    driver.check()
    assert "bytes dropped" in caplog.text or (base == 15 and name == "nothing")
    if name != "nothing":
        assert f"{path(base)}: cut off at position {whole * size_of_batch()}, " in caplog.text
    assert driver.files()[f"{base:020d}.log"] == whole * size_of_batch()
    assert not driver.disk.exists(path(base + 5))
    driver.append()
    driver.reopen()
    driver.check()


def test_the_offset_and_reason_of_a_truncation_are_logged(driver: LogDriver, caplog: pytest.LogCaptureFixture) -> None:
    rewrite(driver, 10, DAMAGES["a bit of a payload in the middle"][0])
    driver.reopen(clean=False)
    position, size = 2 * size_of_batch(), size_of_batch()
    cut, gone = (record.getMessage() for record in caplog.records)
    assert cut.startswith(
        f"{path(10)}: cut off at position {position}, {3 * size} bytes dropped: CRC-32C of the record"
    )
    assert cut.endswith(f"(file {path(10)}, position {position}, base offset 12)")
    assert gone == f"{path(15)}: deleted, {5 * size} bytes dropped: the log ends before it, at offset 12"


def test_segments_before_the_recovery_point_are_not_read(driver: LogDriver) -> None:
    driver.log.local.flush()
    assert driver.log.local.recovery_point == 15
    rewrite(driver, 5, DAMAGES["a bit of the last payload"][0])
    rewrite(driver, 15, DAMAGES["half of the last batch missing"][0])
    driver.checkpointed = 15
    driver.faults.fail("read 00000000000000000005.log")
    driver.reopen(clean=False)
    assert driver.log.log_end_offset == 19


def test_after_a_clean_shutdown_nothing_is_read_but_the_end(driver: LogDriver) -> None:
    driver.reopen()
    driver.log.close()
    for base in (0, 5, 10):
        driver.faults.fail(f"read {base:020d}.log")
    driver.reopen()
    assert driver.log.log_end_offset == 20


@pytest.mark.parametrize(
    "name", ["half of the last batch missing", "garbage after it", "only a part of the last header"]
)
def test_a_bad_end_is_noticed_though_the_shutdown_was_clean(
    driver: LogDriver, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    damage, whole = DAMAGES[name]
    driver.log.close()
    rewrite(driver, 15, damage)
    driver.reopen()
    assert driver.log.log_end_offset == 15 + whole
    assert "closed cleanly, but its end cannot be read" in caplog.text
    del driver.values[driver.log.log_end_offset :]
    driver.append()
    driver.check()


def test_a_lost_end_of_a_file_is_noticed_by_the_gap(driver: LogDriver, caplog: pytest.LogCaptureFixture) -> None:
    """The file ends with a whole batch: only the next file's name shows the loss."""
    rewrite(driver, 5, lambda data: data[: -size_of_batch()])
    driver.reopen(clean=False)
    assert driver.log.log_end_offset == 9
    assert "it starts at offset 10, the log before ends at 9" in caplog.text
    assert driver.log.local.view.bases == (0, 5)


def test_a_gap_between_flushed_segments_is_kept(driver: LogDriver) -> None:
    """A compaction by another broker may have made it."""
    driver.flush()
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        driver.disk.remove(path(5, suffix))
    driver.reopen(clean=False)
    assert [offset for offset, _ in driver.contents()] == [*range(5), *range(10, 20)]


def test_batches_of_other_offsets_are_not_recovered(driver: LogDriver) -> None:
    rewrite(driver, 15, lambda data: data + read_file(driver.disk, path(0)))
    driver.reopen(clean=False)
    assert driver.log.log_end_offset == 20
    driver.check()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("base", [0, 15])
@pytest.mark.parametrize("damage", ["missing", "cut", "zeroes", "too long"])
def test_bad_indexes_are_rebuilt(
    driver: LogDriver, suffix: str, base: int, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    driver.log.close()
    good = read_file(driver.disk, path(base, suffix))
    assert good
    if damage == "missing":
        driver.disk.remove(path(base, suffix))
    else:
        bad = {"cut": good[:-1], "zeroes": bytes(96), "too long": good + b"\xff" * 24}[damage]
        driver.disk.create(path(base, suffix)).write_at(0, bad)
    driver.reopen()
    driver.check()
    if base == 0 and damage in {"zeroes", "too long"}:  # what the listing does not tell is found with the first use
        assert offset_for_timestamp(driver.log, NOW_MS + 1) is None
        assert offset_for_timestamp(driver.log, None) == (0, NOW_MS)
        assert caplog.text.count(path(base, suffix)) >= 1
        driver.reopen(clean=False)
    assert f"{path(base)}: rebuilding its indexes: " in caplog.text
    driver.log.close()
    assert read_file(driver.disk, path(base, suffix)) == good


def test_an_index_without_a_log_goes(driver: LogDriver, caplog: pytest.LogCaptureFixture) -> None:
    for suffix in (".index", ".timeindex", ".txnindex"):
        driver.disk.create(path(77, suffix)).write_at(0, bytes(48))
    driver.reopen(clean=False)
    driver.check()
    assert not any(name.startswith(f"{77:020d}") for name in driver.files())
    assert caplog.text.count("an index without its log, removed") == 3


@pytest.mark.parametrize("clean", [True, False])
def test_files_marked_for_deletion_or_unfinished_go(driver: LogDriver, *, clean: bool) -> None:
    driver.log.close()
    names = ["0" * 19 + "3.log.deleted", "0" * 20 + ".log.cleaned", "0" * 20 + ".index.cleaned", "x.snapshot.deleted"]
    names += ["leader-epoch-checkpoint.tmp", "partition.metadata.tmp"]
    for name in names:
        driver.disk.create(f"{DIRECTORY}/{name}").write_at(0, b"leftover")
    driver.checkpointed = 20
    driver.reopen(clean=clean)
    driver.check()
    assert not set(names) & driver.files().keys()


def test_files_whose_names_are_no_offsets_are_ignored(driver: LogDriver, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("notes.txt", "x.log", "5.index", "old.snapshot"):
        driver.disk.create(f"{DIRECTORY}/{name}").write_at(0, b"mine")
    driver.disk.make_directory(f"{DIRECTORY}/sub.log")
    driver.reopen(clean=False)
    driver.check()
    assert {"notes.txt", "x.log", "5.index", "old.snapshot", "sub.log"} <= driver.files().keys()
    assert caplog.text.count("not named after an offset, ignored") == 3


def swap(driver: LogDriver, offset: int, data: bytes, suffix: str = ".swap") -> None:
    driver.disk.create(path(offset, ".log" + suffix)).write_at(0, data)
    driver.disk.create(path(offset, ".index" + suffix))


def compacted(*offsets: int) -> bytes:
    return b"".join(bytes(batch(b"compacted", base_offset=offset)) for offset in offsets)


def test_a_complete_swap_is_finished(driver: LogDriver, caplog: pytest.LogCaptureFixture) -> None:
    """A cleaner of Apache Kafka was stopped after all its files were ready, before the old ones were gone."""
    driver.flush()
    driver.log.close()
    swap(driver, 0, compacted(1, 3, 9))
    driver.reopen()
    assert driver.log.local.view.bases == (0, 10, 15)
    assert [offset for offset, _ in driver.contents()] == [1, 3, 9, *range(10, 20)]
    assert not any(".swap" in name for name in driver.files())
    assert "finishing a compaction that was interrupted" in caplog.text


def test_an_incomplete_swap_is_undone(driver: LogDriver) -> None:
    driver.flush()
    driver.log.close()
    swap(driver, 5, compacted(6, 7))
    swap(driver, 0, compacted(1), suffix=".cleaned")
    driver.reopen()
    driver.check()
    assert not any(name.endswith((".swap", ".cleaned")) for name in driver.files())


def test_the_rest_of_a_swap_that_was_nearly_finished(driver: LogDriver) -> None:
    driver.flush()
    driver.log.close()
    driver.disk.rename(path(0, ".index"), path(0, ".index.swap"))
    driver.reopen()
    driver.check()
    assert path(0, ".index").removeprefix(f"{DIRECTORY}/") in driver.files()


def test_a_log_that_ends_before_its_start_offset_is_emptied_and_starts_there(
    driver: LogDriver, caplog: pytest.LogCaptureFixture
) -> None:
    """DeleteRecords was checkpointed, and the records before it were lost."""
    driver.reopen(clean=False, log_start_offset=33)
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (33, 33)
    assert driver.log.local.view.bases == (33,)
    assert caplog.text.count("bytes dropped: it ends at offset 20, before the log's start 33") == 4
    driver.values += [b""] * 13
    driver.append()
    driver.reopen()
    assert [offset for offset, _ in driver.contents()] == [33]


def test_the_start_offset_is_that_of_the_checkpoint_or_of_the_files(driver: LogDriver) -> None:
    driver.flush()
    driver.reopen(clean=False, log_start_offset=7)
    assert driver.log.log_start_offset == 7
    driver.check()
    for suffix in (".log", ".index", ".timeindex"):
        driver.disk.remove(path(0, suffix))
    driver.reopen(clean=False, log_start_offset=2)
    assert driver.log.log_start_offset == 5


def test_an_empty_segment_or_directory_has_its_base_offset_as_end_offset(driver: LogDriver) -> None:
    driver.log.local.roll()
    driver.reopen(clean=False)
    assert (driver.log.log_end_offset, driver.log.local.view.bases[-1]) == (20, 20)
    driver.append()
    driver.check()
    for name in driver.files():
        driver.disk.remove(f"{DIRECTORY}/{name}")
    driver.values, driver.flushed, driver.checkpointed = [], 0, 0
    driver.reopen(clean=False)
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (0, 0)
    driver.append()
    driver.check()
