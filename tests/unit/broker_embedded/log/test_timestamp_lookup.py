from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_embedded._log import batches, index, timestamp_lookup
from broker_embedded._log.timestamp_lookup import ContinueAt, OffsetTimestamp
from broker_embedded._platform.cancellation import Cancellation, WorkCancelled
from broker_embedded._platform.platform import File
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._records import scan
from spark_kafka_native._records.batch import BatchHeader, CompressionType
from tests.support.broker.log_driver import LogDriver, offset_for_timestamp
from tests.support.broker.old_format_log import OldFormatLog
from tests.support.records.log_batches import NOW_MS

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
        found = [offset_for_timestamp(driver.log, timestamp) for timestamp in (0, 100, 101, 200, 201, 300, 301, 400)]
        assert found == [(0, 100), (0, 100), (1, 200), (1, 200), (2, 300), (2, 300), (4, 400), (4, 400)]
        assert offset_for_timestamp(driver.log, 401) is None
        assert offset_for_timestamp(driver.log, None) == (4, 400)


def test_an_empty_log_and_records_without_times_give_nothing() -> None:
    driver = LogDriver()
    assert (offset_for_timestamp(driver.log, 0), offset_for_timestamp(driver.log, None)) == (None, None)
    driver.append(timestamps=-1)
    assert (offset_for_timestamp(driver.log, 0), offset_for_timestamp(driver.log, None)) == (None, None)


def test_hidden_records_are_not_found() -> None:
    driver = LogDriver()
    driver.append(b"a", b"b", b"c", timestamps=[100, 200, 300])
    driver.log.retention.delete_records(1)
    assert offset_for_timestamp(driver.log, 0) == (1, 200)


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.ZSTD])
def test_under_the_brokers_time_all_records_of_a_batch_have_it(codec: CompressionType) -> None:
    driver = LogDriver({"message.timestamp.type": "LogAppendTime"})
    driver.append(count=3, timestamps=[5, 6, 7], compression=codec)
    driver.clock.advance(10)
    driver.append(count=3, timestamps=1, compression=codec)
    assert offset_for_timestamp(driver.log, 1) == (0, NOW_MS)
    assert offset_for_timestamp(driver.log, NOW_MS + 1) == (3, NOW_MS + 10)
    assert offset_for_timestamp(driver.log, None) == (3, NOW_MS + 10)
    driver.log.retention.delete_records(1)
    assert offset_for_timestamp(driver.log, NOW_MS) == (1, NOW_MS)


def test_a_max_timestamp_above_those_of_the_records_is_detected() -> None:
    """The largest timestamp is the producer's; those of the records decide."""
    driver = LogDriver()
    driver.append(b"a", b"b", timestamps=[100, 200])
    file = driver.log.local.view.segments[0].file()  # the CRC is not looked at here
    file.write_at(35, (10**6).to_bytes(8, "big"))
    driver.append(b"c", timestamps=500)
    assert offset_for_timestamp(driver.log, 300) == (2, 500)


@pytest.mark.parametrize("magic", [1, 2])
def test_a_batch_with_too_large_a_max_timestamp_is_decompressed_once(
    magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = OldFormatLog(**{"message.format.version": "0.10.2" if magic == 1 else "3.0"})
    for _ in range(3):
        if magic == 2:
            log.put_batch(b"a", b"b", timestamps=[100, 200], compression=CompressionType.ZSTD)
        else:
            log.put_set(b"a", b"b", magic=1, timestamps=[100, 200], compression=CompressionType.GZIP)
    one = log.log.local.view.segments[0]
    for position, _ in list(one.headers(0, one.size)):  # the CRC is not looked at here
        one.file().write_at(position + (35 if magic == 2 else 18), (1000).to_bytes(8, "big"))
    log.put_batch(b"c", timestamps=500)
    read: list[int] = []
    for name in ("batch_bytes", "batch_records"):
        original = getattr(timestamp_lookup, name)

        def noted(file: File, position: int, header: BatchHeader, original: Any = original) -> Any:
            read.append(header.last_offset)
            return original(file, position, header)

        monkeypatch.setattr(timestamp_lookup, name, noted)
    assert log.log.reader.look_up(300) == ContinueAt(2)
    assert read == [1], "one batch at a time, so that other lookups can go between"
    assert offset_for_timestamp(log.log, 300) == (6, 500)
    assert read == [1, 3, 5, 6], "the first batch was not decompressed again"
    read.clear()
    assert offset_for_timestamp(log.log, 400) == (6, 500)
    assert offset_for_timestamp(log.log, 200) == (1, 200)
    assert read == [6, 1]


def test_a_batch_at_the_offset_of_one_that_was_truncated_during_its_lookup_is_not_taken_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = LogDriver()
    driver.append(b"a", timestamps=200)
    driver.append(b"c", timestamps=500)
    driver.log.local.view.segments[0].file().write_at(35, (1000).to_bytes(8, "big"))  # the CRC is not looked at here
    original = batches.batch_bytes

    def truncated_after(*args: Any) -> Any:
        raw = original(*args)
        driver.log.truncate_to(0)
        driver.values.clear()
        driver.append(b"b", timestamps=1000)
        return raw

    with monkeypatch.context() as during:
        during.setattr(timestamp_lookup, "batch_bytes", truncated_after)
        assert driver.log.reader.look_up(300) == ContinueAt(1)
    assert offset_for_timestamp(driver.log, 300) == (0, 1000)


def test_the_batches_that_a_segment_remembers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_MAX_OVERSTATED", 3)
    driver = LogDriver()
    driver.append(timestamps=100)
    one = driver.log.local.view.segments[0]
    (_, header), *_ = one.headers(0, one.size)
    headers = [header._replace(base_offset=offset) for offset in range(6)]
    for offset, header in enumerate(headers[:5]):
        one.overstated.remember(header, 50 + offset)
    one.overstated.remember(headers[5], 100)  # what the header says
    assert list(map(one.overstated.largest_in, headers)) == [100, 100, 52, 53, 54, 100]


def test_a_lookup_that_is_cancelled_stops_between_pieces_and_between_batches() -> None:
    driver = LogDriver()
    driver.append(b"a", b"b", timestamps=[100, 200])
    cancellation = Cancellation()
    assert driver.log.reader.look_up(150, 0, cancellation) == (1, 200)
    cancellation.cancel("the client has left")
    for timestamp in (150, None):
        with pytest.raises(WorkCancelled, match="the client has left"):
            driver.log.reader.look_up(timestamp, 0, cancellation)


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
        assert offset_for_timestamp(driver.log, target) == expected
    assert offset_for_timestamp(driver.log, None) == (written.index(max(written)), max(written))


def test_lookups_survive_lost_time_indexes() -> None:
    driver = LogDriver(SMALL)
    for number in range(30):
        driver.append(timestamps=number * 10)
    driver.log.close()
    for name in driver.files():
        if name.endswith(".timeindex"):
            driver.disk.open(f"/data/t-0/{name}").truncate(0)
    driver.reopen()
    assert offset_for_timestamp(driver.log, 95) == OffsetTimestamp(10, 100)


def test_an_impossible_record_is_corrupt_not_endless() -> None:
    driver = LogDriver()
    driver.append(b"a", b"b", timestamps=[100, 200])
    file = driver.log.local.view.segments[0].file()
    for damage, problem in (
        (b"\xff" * 6, ""),
        (b"\x00", ""),
        (b"\x7f", ""),
        (b"\x01", "impossible record length -1, "),
    ):
        file.write_at(61, damage)
        with pytest.raises(KafkaError, match=rf"{problem}.*CORRUPT_MESSAGE") as caught:
            offset_for_timestamp(driver.log, 150)
        assert "00000000000000000000.log, position 0, base offset 0, record 0" in str(caught.value)
