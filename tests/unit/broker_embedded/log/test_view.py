import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_embedded._log.view import FirstBatch, LogSlice
from tests.support.broker.log_driver import DIRECTORY, LogDriver, batches_of, slice_bytes
from tests.support.records.log_batches import batch, rows

SMALL = {"segment.bytes": 400, "index.interval.bytes": 100}


def offsets(found: LogSlice) -> list[int]:
    return [row.offset for row in rows(slice_bytes(found))]


@pytest.fixture
def driver() -> LogDriver:
    """Ten batches of two records in one segment."""
    driver = LogDriver()
    for _ in range(10):
        driver.append(count=2)
    return driver


@pytest.fixture
def size(driver: LogDriver) -> int:
    return driver.log.local.size_in_bytes // 10


def test_a_slice_starts_with_the_batch_that_holds_the_offset(driver: LogDriver, size: int) -> None:
    found = driver.log.reader.read(7, max_bytes=10**6)
    assert (found.size, offsets(found)) == (7 * size, list(range(6, 20)))


def test_bytes_are_cut_exactly_at_the_limit(driver: LogDriver, size: int) -> None:
    for limit in (size, size + 1, 3 * size - 1, 3 * size):
        found = driver.log.reader.read(0, max_bytes=limit)
        assert found.size == len(slice_bytes(found)) == limit
        assert offsets(found) == list(range(2 * (limit // size)))


def test_the_first_batch_is_whole_if_requested(driver: LogDriver, size: int) -> None:
    for limit in (0, 1, size - 1):
        assert driver.log.reader.read(4, max_bytes=limit).size == size
        assert driver.log.reader.read(4, max_bytes=limit, first_batch=FirstBatch.CUT).size == limit
        assert driver.log.reader.read(4, max_bytes=limit, first_batch=FirstBatch.FITTING).size == 0
    assert driver.log.reader.read(4, max_bytes=size + 1, first_batch=FirstBatch.FITTING).size == size + 1


def test_a_read_at_the_log_end_or_at_the_bound_is_empty(driver: LogDriver) -> None:
    nothing = LogSlice(regions=(), size=0)
    assert driver.log.reader.read(20, max_bytes=1000) == nothing
    assert driver.log.reader.read(20, max_bytes=0) == nothing
    assert driver.log.reader.read(10, max_bytes=1000, upper_bound_offset=10).size == 0
    assert driver.log.reader.read(12, max_bytes=1000, upper_bound_offset=10).size == 0


def test_no_batch_after_the_bound(driver: LogDriver) -> None:
    for bound, end in ((10, 10), (11, 10), (99, 20)):
        assert offsets(driver.log.reader.read(2, max_bytes=10**6, upper_bound_offset=bound)) == list(range(2, end))


def test_a_slice_continues_in_the_next_segment() -> None:
    driver = LogDriver(SMALL)
    for _ in range(12):
        driver.append()
    assert len(driver.log.local.view.bases) == 3
    found = driver.log.reader.read(1, max_bytes=10**6)
    assert len(found.regions) == 3
    assert offsets(found) == list(range(1, 12))
    assert offsets(driver.log.reader.read(1, max_bytes=10**6, upper_bound_offset=7)) == list(range(1, 7))
    first = found.regions[0].length
    assert len(driver.log.reader.read(1, max_bytes=first).regions) == 1
    assert len(driver.log.reader.read(1, max_bytes=first + 1).regions) == 2


def test_a_slice_spans_only_so_many_segments() -> None:
    driver = LogDriver({"segment.bytes": 100})
    for _ in range(40):
        driver.append()
    assert len(driver.log.local.view.bases) == 40
    assert offsets(driver.log.reader.read(0, max_bytes=10**6)) == list(range(16))


def test_a_slice_stays_readable_until_its_segment_is_removed() -> None:
    driver = LogDriver({**SMALL, "retention.bytes": 0, "file.delete.delay.ms": 1000})
    for _ in range(9):
        driver.append()
    found = driver.log.reader.read(0, max_bytes=10**6)
    assert driver.log.retention.delete_old_segments() == 2
    driver.log.local.remove_retired(driver.clock.now_ms() + 999)
    assert offsets(found) == list(range(9))
    driver.log.local.remove_retired(driver.clock.now_ms() + 1000)
    assert [name for name in driver.files() if name.endswith((".log", ".deleted"))] == ["00000000000000000009.log"]
    with pytest.raises(FileNotFoundError):
        offsets(found)


def test_a_slice_stays_readable_while_its_deleted_directory_is_there() -> None:
    """Also a segment that had left the log before; and never a file of a log that takes over the directory's name."""
    driver = LogDriver({**SMALL, "retention.bytes": 0, "file.delete.delay.ms": 1000})
    for _ in range(7):
        driver.append()
    found = driver.log.reader.read(0, max_bytes=10**6)
    driver.log.retention.delete_old_segments()
    driver.append()
    later = driver.log.reader.read(7, max_bytes=10**6)
    platform = driver.log.local.platform
    driver.log.local.delete("/data/t-0.deleted")
    driver.disk.make_directory(DIRECTORY)
    driver.log = driver._open(clean=True)
    driver.log.append(batch(b"of another topic"), leader_epoch=0)
    assert offsets(found) == list(range(7))
    assert offsets(later) == [7]
    platform.open_files.forget_directory("/data/t-0.deleted")
    driver.disk.remove_tree("/data/t-0.deleted")
    with pytest.raises(FileNotFoundError):
        offsets(found)


def test_a_view_does_not_see_what_comes_later(driver: LogDriver) -> None:
    view = driver.log.local.view
    driver.append(count=2)
    driver.log.local.roll()
    driver.append(count=2)
    found = view.slice(16, until_offset=view.end_offset, max_bytes=10**6, first_batch=FirstBatch.WHOLE)
    assert offsets(found) == [16, 17, 18, 19]


@settings(max_examples=80)
@given(
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=30),
    reads=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2000), st.integers(0, 200)), min_size=1, max_size=8),
)
def test_any_read_is_a_piece_of_the_log(counts: list[int], reads: list[tuple[int, int, int]]) -> None:
    driver = LogDriver(SMALL)
    for count in counts:
        driver.append(count=count)
    end = sum(counts)
    for offset, max_bytes, bound in reads:
        if offset > end:
            continue
        data = slice_bytes(driver.log.reader.read(offset, max_bytes=max_bytes, upper_bound_offset=bound))
        visible = [raw for header, raw in batches_of(driver.log, offset) if header.next_offset <= bound]
        if offset >= bound or not visible:
            assert data == b""
        else:
            assert data == b"".join(visible)[: max(max_bytes, len(visible[0]))]
