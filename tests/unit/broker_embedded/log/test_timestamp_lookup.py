"""The first record of a time or later: through sparse indexes, compressed batches, times that go back and forth."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_embedded.log.timestamp_lookup import OffsetTimestamp
from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.records import scan
from spark_kafka_native.records.batch import CompressionType
from tests.support.batches import NOW_MS
from tests.support.log_driver import LogDriver

pytestmark = pytest.mark.usefixtures("each_way")

SMALL = {"segment.bytes": 700, "index.interval.bytes": 150, "message.timestamp.after.max.ms": 2**40}


@pytest.fixture(params=["python", "compiled"], scope="module")
def each_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Records are looked at in plain Python, then by the kernel."""
    scanner = scan.compiled()
    if request.param == "compiled" and scanner is None:
        pytest.skip("the kernel has not been built")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "compiled", lambda: scanner if request.param == "compiled" else None)
        yield


def test_a_record_inside_a_batch_is_found() -> None:
    for codec in CompressionType:
        driver = LogDriver()
        driver.append(b"a", b"b", b"c", timestamps=[100, 200, 300], compression=codec)
        driver.append(b"d", b"e", timestamps=[250, 400], compression=codec)
        found = [driver.log.offset_for_timestamp(timestamp) for timestamp in (0, 100, 101, 200, 201, 300, 301, 400)]
        assert found == [(0, 100), (0, 100), (1, 200), (1, 200), (2, 300), (2, 300), (4, 400), (4, 400)]
        assert driver.log.offset_for_timestamp(401) is None
        assert driver.log.max_timestamp_offset() == (4, 400)


def test_an_empty_log_and_records_without_times_give_nothing() -> None:
    driver = LogDriver()
    assert (driver.log.offset_for_timestamp(0), driver.log.max_timestamp_offset()) == (None, None)
    driver.append(timestamps=-1)
    assert (driver.log.offset_for_timestamp(0), driver.log.max_timestamp_offset()) == (None, None)


def test_hidden_records_are_not_found() -> None:
    driver = LogDriver()
    driver.append(b"a", b"b", b"c", timestamps=[100, 200, 300])
    driver.log.delete_records(1)
    assert driver.log.offset_for_timestamp(0) == (1, 200)


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.ZSTD])
def test_under_the_brokers_time_all_records_of_a_batch_have_it(codec: CompressionType) -> None:
    driver = LogDriver({"message.timestamp.type": "LogAppendTime"})
    driver.append(count=3, timestamps=[5, 6, 7], compression=codec)
    driver.clock.advance(10)
    driver.append(count=3, timestamps=1, compression=codec)
    assert driver.log.offset_for_timestamp(1) == (0, NOW_MS)
    assert driver.log.offset_for_timestamp(NOW_MS + 1) == (3, NOW_MS + 10)
    assert driver.log.max_timestamp_offset() == (3, NOW_MS + 10)
    driver.log.delete_records(1)
    assert driver.log.offset_for_timestamp(NOW_MS) == (1, NOW_MS)


def test_a_header_that_promises_too_much_is_seen_through() -> None:
    """Its largest timestamp is what the producer says; the records decide."""
    driver = LogDriver()
    driver.append(b"a", b"b", timestamps=[100, 200])
    file = driver.log._view.segments[0].file()  # the CRC is not looked at here
    file.write_at(35, (10**6).to_bytes(8, "big"))
    driver.append(b"c", timestamps=500)
    assert driver.log.offset_for_timestamp(300) == (2, 500)


def test_a_damaged_record_is_named() -> None:
    driver = LogDriver()
    driver.append(b"a", b"b", timestamps=[100, 200])
    driver.log._view.segments[0].file().write_at(61, b"\x01")
    with pytest.raises(KafkaError, match=r"impossible record length -1, .*position 0, base offset 0, record 0"):
        driver.log.offset_for_timestamp(200)


time_lists = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=25)


@settings(max_examples=60)
@given(batches=time_lists, wanted=st.lists(st.integers(-1, 61), min_size=1, max_size=5), reopen=st.booleans())
def test_any_times_in_any_order(batches: list[list[int]], wanted: list[int], reopen: bool) -> None:
    driver = LogDriver(SMALL)
    written = [timestamp for one in batches for timestamp in one]
    for one in batches:
        driver.append(count=len(one), timestamps=one)
    if reopen:
        driver.reopen()
    for target in wanted:
        expected = next(((offset, at) for offset, at in enumerate(written) if at >= target), None)
        assert driver.log.offset_for_timestamp(target) == expected
    assert driver.log.max_timestamp_offset() == (written.index(max(written)), max(written))


def test_lookups_survive_lost_time_indexes() -> None:
    driver = LogDriver(SMALL)
    for number in range(30):
        driver.append(timestamps=number * 10)
    driver.log.close()
    for name in driver.files():
        if name.endswith(".timeindex"):
            driver.disk.open(f"/data/t-0/{name}").truncate(0)
    driver.reopen()
    assert driver.log.offset_for_timestamp(95) == OffsetTimestamp(10, 100)


def test_an_impossible_record_is_corrupt_not_endless() -> None:
    driver = LogDriver()
    driver.append(b"a", b"b", timestamps=[100, 200])
    file = driver.log._view.segments[0].file()
    for damage in (b"\xff" * 6, b"\x00", b"\x7f"):
        file.write_at(61, damage)
        with pytest.raises(Exception, match=r"CORRUPT_MESSAGE") as caught:
            driver.log.offset_for_timestamp(150)
        assert "00000000000000000000.log, position 0, base offset 0, record 0" in str(caught.value)
