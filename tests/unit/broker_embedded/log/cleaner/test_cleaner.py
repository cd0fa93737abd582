from typing import Any

import pytest

from broker_embedded._config.log_config import CleanerConfig, LogConfig
from broker_embedded._log.append.producer_store import PRODUCER_ID_EXPIRATION_MS
from broker_embedded._log.cleaner.cleanable import cleanable_range
from broker_embedded._log.cleaner.cleaner import Cleaner, CleanerLimits, group_segments
from broker_embedded._log.segment import LogSegment
from broker_embedded._log.segment_files import SegmentFiles
from broker_embedded._platform.platform import Platform
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._records.batch import CompressionType
from spark_kafka_native._records.legacy_write import write_message_set
from spark_kafka_native._records.record import LogRecord
from tests.support.broker.compaction_driver import CompactionDriver
from tests.support.broker.disk import MemoryFileSystem
from tests.support.broker.log_driver import batches_of, offset_for_timestamp, slice_bytes
from tests.support.records import reference
from tests.support.records.message_sets import messages_in

SMALL = {"segment.bytes": 300}


@pytest.fixture
def driver() -> CompactionDriver:
    return CompactionDriver(SMALL)


def test_the_last_record_of_each_key_is_left_with_its_offset(driver: CompactionDriver) -> None:
    for number in range(20):
        driver.put(**{f"k{number % 3}": str(number), "same": str(number)})
    driver.compact()
    assert driver.rows() == [(34, "k2", "17"), (36, "k0", "18"), (38, "k1", "19"), (39, "same", "19")]
    driver.check_segments()
    assert driver.log.log_start_offset == 0
    assert driver.clean() == 0


def test_the_active_segment_is_left_alone(driver: CompactionDriver) -> None:
    driver.put(a="1")
    driver.put(a="2")
    assert driver.clean() == 0
    driver.roll()
    driver.put(a="3")
    assert driver.clean() == 1
    assert driver.rows() == [(1, "a", "2"), (2, "a", "3")]
    driver.compact()
    assert driver.rows() == [(2, "a", "3")]


def test_a_tombstone_is_kept_for_delete_retention_ms(driver: CompactionDriver) -> None:
    driver.put(a="1", b="2")
    driver.put(a=None)
    driver.compact()
    assert driver.rows() == [(1, "b", "2"), (2, "a", None)]
    driver.clock.advance(driver.config.delete_retention_ms)
    driver.put(c="3")
    driver.compact()
    assert driver.rows() == [(1, "b", "2"), (3, "c", "3")]


@pytest.mark.parametrize("codec", reference.CODECS)
def test_batches_keep_their_codec(codec: int) -> None:
    driver = CompactionDriver()
    driver.write(("a", "1"), ("b", "2"), codec=codec)
    driver.write(("c", "3"), ("a", "4"), codec=codec)
    driver.put(a="5")
    driver.compact()
    assert driver.rows() == [(1, "b", "2"), (2, "c", "3"), (4, "a", "5")]
    assert [batch.codec for batch in driver.batches()] == [codec, codec, reference.NONE]


def test_batches_larger_than_the_buffers() -> None:
    driver = CompactionDriver({}, CleanerConfig(io_buffer_size=0))
    driver.put(a="x" * 20_000, b="1")
    driver.put(a="2")
    driver.put(c="y" * 9_000)
    driver.put(d="z" * 3_000)
    driver.compact()
    assert driver.rows() == [(1, "b", "1"), (2, "a", "2"), (3, "c", "y" * 9_000), (4, "d", "z" * 3_000)]


def test_a_map_that_is_too_small_takes_several_rounds() -> None:
    bytes_for_ten_keys = 10 * 24
    driver = CompactionDriver(SMALL, CleanerConfig(dedupe_buffer_size=bytes_for_ten_keys, io_buffer_load_factor=1.0))
    for _ in range(2):
        for key in range(25):
            driver.put(**{f"k{key}": str(key)})
    driver.roll()
    assert driver.clean() > 3
    assert driver.rows() == [(25 + key, f"k{key}", str(key)) for key in range(25)]
    driver.check_segments()


def test_cleaned_records_are_kept_when_only_some_keys_are_written_again(driver: CompactionDriver) -> None:
    driver.put(a="1", b="2", c="3")
    driver.compact()
    driver.put(b="4")
    driver.compact()
    driver.put(c=None)
    driver.compact()
    assert driver.rows() == [(0, "a", "1"), (3, "b", "4"), (4, "c", None)]


def test_with_both_policies_old_segments_go_and_the_rest_is_compacted() -> None:
    driver = CompactionDriver({**SMALL, "cleanup.policy": "compact,delete", "retention.ms": 1000})
    for number in range(8):
        driver.put(**{f"k{number % 4}": str(number)})
    driver.compact()
    driver.clock.advance(1001)
    for number in range(8):
        driver.put(**{f"n{number % 2}": str(number)})
    driver.manager.delete_old_segments()
    assert driver.log.log_start_offset == 8
    driver.compact()
    assert driver.rows() == [(14, "n0", "6"), (15, "n1", "7")]
    driver.restart(clean=False)
    assert driver.rows() == [(14, "n0", "6"), (15, "n1", "7")]
    assert driver.clean() == 0


def test_retention_may_take_everything_before_a_compaction_begins() -> None:
    driver = CompactionDriver({**SMALL, "cleanup.policy": "compact,delete", "retention.ms": 1000})
    for number in range(8):
        driver.put(a=str(number))
    driver.roll()
    dirty = cleanable_range(driver.log, 0, driver.clock.now_ms())
    driver.clock.advance(1001)
    driver.manager.delete_old_segments()
    for number in range(8):
        driver.put(a=str(number))
    tools = CleanerLimits(max_keys=10, load_factor=1.0, buffer_bytes=0, spend=lambda _: None, rest=lambda: None)
    before = driver.rows()
    report = Cleaner(driver.log, dirty, tools, driver.platform).run()
    assert (report.until_offset, report.segments_after) == (0, 0)
    assert driver.rows() == before
    driver.compact()
    assert driver.rows() == [(15, "a", "7")]


def test_a_report_counts(driver: CompactionDriver) -> None:
    for number in range(6):
        driver.put(a=str(number), b="x")
    driver.compact()
    report = driver.cleaner.last
    assert report is not None
    assert (report.from_offset, report.until_offset, report.map_keys) == (0, 12, 2)
    assert (report.records_read, report.records_kept) == (12, 2)
    assert report.segments_after == 2
    assert report.bytes_written < report.bytes_read


@pytest.mark.parametrize("release", ["0.9.0", "0.10.2"])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP, CompressionType.LZ4])
def test_message_sets_of_old_formats(release: str, codec: CompressionType) -> None:
    driver = CompactionDriver({"segment.bytes": 600, "message.format.version": release})
    magic = driver.config.record_magic
    for number in range(30):
        pairs = [(b"k%d" % ((number + index) % 5), None if index == 2 else b"%d" % number) for index in range(3)]
        messages = [LogRecord(index, driver.clock.now_ms(), *pair) for index, pair in enumerate(pairs)]
        driver.log.append(write_message_set(messages, magic=magic, compression=codec), leader_epoch=0)
    driver.log.append(bytearray(reference.write_batch(KEYED)), leader_epoch=0)
    before = stored(driver)
    assert len(before) == 91
    driver.compact()
    last = {message.key: message for message in before}
    assert stored(driver) == sorted(last.values())
    driver.restart(clean=False)
    assert stored(driver) == sorted(last.values())
    assert driver.cleaner.uncleanable == set()
    # These formats keep no horizon: tombstones go from segments that are older by delete.retention.ms than the last one
    # that was compacted. So that there are such, segments must not be joined any more.
    driver.log.reconfigure(driver.config.parse({"segment.bytes": 100}, driver.config))
    for _ in range(2):
        driver.clock.advance(2 * driver.config.delete_retention_ms)
        driver.log.append(bytearray(reference.write_batch(KEYED)), leader_epoch=0)
        driver.compact()
    kept = [message for message in stored(driver) if message.key != b"new"]
    assert kept == sorted(message for message in last.values() if message.value is not None and message.key != b"new")


KEYED = reference.Batch(records=(reference.Record(b"new", b"a record batch"),))


def stored(driver: CompactionDriver) -> list[LogRecord]:
    return messages_in(slice_bytes(driver.log.reader.read(0, max_bytes=1 << 20)))


def test_small_segments_become_one(driver: CompactionDriver) -> None:
    for number in range(12):
        driver.put(a=str(number), **{f"k{number % 6}": "x"})
    driver.compact()
    first = driver.log.local.view.bases
    driver.put(a="last")
    driver.compact()
    second = driver.log.local.view.bases
    assert (len(first), len(second)) == (5, 3)
    assert all(len(data) <= 300 for data in driver.segment_bytes())
    assert driver.rows() == [*((2 * number + 1, f"k{number % 6}", "x") for number in range(6, 12)), (24, "a", "last")]
    driver.check_segments()


@pytest.mark.parametrize(
    ("policy", "lost"),
    [
        ("compact", ["recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"]),
        ("delete", ["recovery-point-offset-checkpoint"]),
        ("delete", ["cleaner-offset-checkpoint"]),
    ],
)
def test_offsets_without_records_after_compaction_are_no_loss_to_recovery(
    driver: CompactionDriver, policy: str, lost: list[str]
) -> None:
    for number in range(20):
        driver.put(**{f"k{number}" if number in {0, 9, 19} else "same": str(number)})
    driver.compact()
    expected = [(0, "k0", "0"), (9, "k9", "9"), (18, "same", "18"), (19, "k19", "19")]
    assert driver.rows() == expected
    assert len(driver.log.local.view.bases) > 3
    driver.log.local.flush()
    driver.manager.checkpoint_recovery_points()
    for name in lost:
        driver.disk.remove(f"/data/{name}")
    driver.config = driver.config.parse({"cleanup.policy": policy}, driver.config)
    driver.crash()
    assert driver.rows() == expected
    assert driver.log.log_end_offset == 20
    driver.check_segments()


def test_indexes_of_compacted_segments_are_complete() -> None:
    driver = CompactionDriver({"segment.bytes": 2000, "index.interval.bytes": 0})
    for number in range(40):
        driver.clock.advance(10)
        driver.put(**{f"k{number % 30}": str(number)})
    driver.compact()
    for offset, _, _ in driver.rows():
        located = next(batches_of(driver.log, offset), None)
        assert located is not None
        assert located[0].last_offset >= offset
        time = reference.read_batch(located[1]).records[0].timestamp
        assert offset_for_timestamp(driver.log, time) == (offset, time)
    for data in driver.files().items():
        assert not data[0].endswith(".index") or data[1] % 8 == 0


def test_a_segment_that_keeps_all_records_is_not_rewritten(driver: CompactionDriver) -> None:
    driver.put(a="1")
    driver.compact()
    inode = driver.log.local.view.segments[0]
    driver.put(b="2")
    driver.roll()
    driver.config = driver.config.parse({"segment.bytes": 90}, driver.config)
    driver.log.reconfigure(driver.config)
    driver.compact()
    assert driver.log.local.view.segments[0] is inode
    assert driver.rows() == [(0, "a", "1"), (1, "b", "2")]


def segments(*shapes: tuple[int, int, int, int]) -> list[LogSegment]:
    """Segments of base offset, log size, index size, time index size."""
    platform = Platform(file_system=MemoryFileSystem(), max_open_files=4)
    return [
        LogSegment("/d", base, LogConfig(), platform, SegmentFiles(log=log, index=index, time_index=time_index))
        for base, log, index, time_index in shapes
    ]


def grouped(*shapes: tuple[int, int, int, int], until: int = 2**40, **limits: Any) -> list[list[int]]:
    config = LogConfig.parse({"segment.bytes": 100, "segment.index.bytes": 120, **limits})
    groups = group_segments(segments(*shapes), config, until_offset=until)
    return [[segment.base_offset for segment in group] for group in groups]


def test_adjacent_segments_are_grouped_by_size_and_offset_range() -> None:
    assert grouped((0, 50, 0, 0), (10, 50, 0, 0), (20, 1, 0, 0), until=30) == [[0, 10], [20]]
    assert grouped((0, 1, 80, 0), (10, 1, 40, 0), (20, 1, 8, 0), until=30) == [[0, 10], [20]]
    assert grouped((0, 1, 0, 96), (10, 1, 0, 36), until=30) == [[0], [10]]
    assert grouped((0, 1, 0, 0), (10, 1, 0, 0), until=2**31) == [[0, 10]]
    assert grouped((0, 1, 0, 0), (10, 1, 0, 0), until=2**31 + 1) == [[0], [10]]
    assert grouped((0, 1, 0, 0), (10, 0, 0, 0), until=2**31 + 1) == [[0, 10]]
    assert grouped((0, 500, 0, 0), (10, 1, 0, 0), until=20) == [[0], [10]]
    assert grouped() == []


def test_a_producer_is_known_after_its_records_are_gone(driver: CompactionDriver) -> None:
    driver.send(7, 0, a="1")
    driver.send(7, 1, a="2")
    driver.put(a="3")
    driver.compact()
    assert driver.rows() == [(2, "a", "3")]
    for clean in (True, False):
        driver.restart(clean=clean)
        for name in driver.files():
            if name.endswith(".snapshot"):
                driver.disk.remove(f"/data/t-0/{name}")
        driver.restart(clean=False)
        with pytest.raises(KafkaError, match="sequence number 5, but 2 is next"):
            driver.send(7, 5, a="x")
    driver.send(7, 2, a="4")


def test_aborted_records_go_and_their_marker_stays_for_a_while(driver: CompactionDriver) -> None:
    driver.put(a="1", b="2")
    driver.send_in_transaction(7, 0, a="aborted", c="aborted")
    driver.roll()
    driver.send_in_transaction(8, 0, d="committed")
    driver.end(7, abort=True)
    driver.end(8)
    driver.put(e="5")
    assert len(driver.log.local.view.aborted_transactions(0, 99)) == 1
    driver.compact()
    assert driver.rows() == [(0, "a", "1"), (1, "b", "2"), (4, "d", "committed"), (7, "e", "5")]
    assert [batch.base_offset for batch in driver.batches() if batch.control] == [5, 6]
    assert len(driver.log.local.view.aborted_transactions(0, 99)) == 1
    driver.restart(clean=False)
    assert driver.log.last_stable_offset == 8
    # The header of the producer's last batch stays for its sequence, and the marker with it, until the producer goes.
    driver.clock.advance(PRODUCER_ID_EXPIRATION_MS)
    assert driver.log.expire_producers(driver.clock.now_ms()) == 2
    for number in range(2):
        driver.put(f=str(number))
        driver.compact()
        assert len([batch for batch in driver.batches() if batch.control]) == 2
        driver.clock.advance(driver.config.delete_retention_ms)
    driver.put(f="2")
    driver.compact()
    assert [batch.base_offset for batch in driver.batches() if batch.control] == [6]
    assert driver.rows() == [(0, "a", "1"), (1, "b", "2"), (4, "d", "committed"), (7, "e", "5"), (10, "f", "2")]
    assert driver.log.local.view.aborted_transactions(0, 99) == []
    driver.check_segments()


def test_nothing_is_compacted_from_an_open_transaction_on(driver: CompactionDriver) -> None:
    driver.put(a="1")
    driver.put(a="2")
    driver.roll()
    driver.send_in_transaction(7, 0, a="open")
    driver.put(b="x")
    driver.put(b="y")
    driver.compact()
    assert driver.rows() == [(1, "a", "2"), (2, "a", "open"), (3, "b", "x"), (4, "b", "y")]
    driver.end(7, abort=True)
    driver.compact()
    assert driver.rows() == [(1, "a", "2"), (4, "b", "y")]


def test_a_reader_has_the_aborted_transactions_of_what_it_reads(driver: CompactionDriver) -> None:
    driver.send_in_transaction(7, 0, a="aborted")
    driver.end(7, abort=True)
    driver.roll()
    view = driver.log.local.view
    before = driver.log.reader.read(0, max_bytes=1000, with_aborted=True)
    driver.clock.advance(PRODUCER_ID_EXPIRATION_MS)
    driver.log.expire_producers(driver.clock.now_ms())
    for number in range(2):
        driver.put(b=str(number))
        driver.compact()
    after = driver.log.reader.read(0, max_bytes=1000, with_aborted=True)
    assert [item.producer_id for item in before.aborted] == [7]
    assert [item.producer_id for item in view.aborted_transactions(0, 2)] == [7]
    assert after.aborted == ()
    assert driver.log.reader.read(0, max_bytes=1000).aborted == ()
