import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.append.incoming import AppendConditions, AppendOrigin
from broker_embedded._log.append.producer_state import ProducerStates
from broker_embedded._log.log import Log
from broker_embedded._log.opening import open_log
from broker_embedded._log.view import bytes_of
from broker_embedded._platform.platform import Clock, Platform
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._records.control import ControlType
from tests.support.broker.log_driver import DIRECTORY, LogDriver, offset_for_timestamp, slice_bytes
from tests.support.records.log_batches import batch, rows
from tests.support.records.record_batches import marker
from tests.support.refusals import refused

SMALL = {"segment.bytes": 400, "index.interval.bytes": 100}


@pytest.fixture
def driver() -> LogDriver:
    driver = LogDriver(SMALL)
    for _ in range(12):
        driver.append(count=2)
    return driver


def test_offsets_outside_of_the_log(driver: LogDriver) -> None:
    driver.log.retention.delete_records(5)
    for offset in (-1, 0, 4, 25):
        assert refused(driver.log.reader.read, offset, max_bytes=100).code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert [rows(driver.log.reader.read_bytes(offset, max_bytes=100))[0].offset for offset in (5, 6)] == [4, 6]
    assert driver.log.reader.read(24, max_bytes=100).size == 0


def test_sizes_and_offsets(driver: LogDriver) -> None:
    assert (driver.log.log_start_offset, driver.log.log_end_offset, driver.log.high_watermark) == (0, 24, 24)
    assert driver.log.last_stable_offset == 24
    assert driver.log.local.size_in_bytes == sum(size for name, size in driver.files().items() if name.endswith(".log"))
    assert str(driver.log) == "t-0"


def test_a_disk_that_fails_to_read(driver: LogDriver) -> None:
    driver.faults.fail("read *.log")
    assert refused(driver.log.reader.read, 0, max_bytes=100).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused(offset_for_timestamp, driver.log, 0).code is ErrorCode.KAFKA_STORAGE_ERROR
    driver.faults.heal()
    driver.check()


def test_bytes_that_are_no_batch(driver: LogDriver) -> None:
    driver.disk.open(f"{DIRECTORY}/00000000000000000000.log").write_at(0, bytes(100))
    assert refused(driver.log.reader.read, 0, max_bytes=100).code is ErrorCode.CORRUPT_MESSAGE
    driver.disk.remove(f"{DIRECTORY}/00000000000000000000.log")
    driver.log.local.platform.open_files.forget(f"{DIRECTORY}/00000000000000000000.log")
    assert refused(driver.log.reader.read, 0, max_bytes=100).code is ErrorCode.KAFKA_STORAGE_ERROR


def test_reading_a_closed_log_is_refused(driver: LogDriver) -> None:
    driver.log.close()
    assert refused(driver.log.reader.read, 0, max_bytes=100).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused(offset_for_timestamp, driver.log, 0).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.log.offline == "it is closed"


def test_regions_have_descriptors_that_sendfile_can_use(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    log = open_log(tmp_path / "t-0", LogConfig(), Platform(), clean_shutdown=True)
    log.append(batch(b"over the wire"), leader_epoch=0)
    (region,) = log.reader.read(0, max_bytes=1000).regions
    with open(tmp_path / "out", "wb") as out:
        assert os.sendfile(out.fileno(), region.owner.file().fileno(), region.position, region.length) == region.length
    assert rows((tmp_path / "out").read_bytes())[0].value == b"over the wire"
    log.close()


class Bystanders:
    """Threads that read, flush and delete while a log is appended to; the value of each record is its offset."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self.log = log
        self.clock = clock
        self.wrong: list[str] = []
        self.reads = 0
        self.many_reads = threading.Event()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=[use]) for use in (self.read, self.read, self.tidy)]

    def __enter__(self) -> "Bystanders":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, use: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                use()
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.wrong.append(str(error))
            except BaseException as error:  # whatever it is, the test is to show it
                self.wrong.append(repr(error))
                raise

    def read(self) -> None:
        found = self.log.reader.read(max(self.log.log_start_offset, self.log.log_end_offset - 60), max_bytes=1500)
        try:
            data = bytes_of(found.regions)
        except FileNotFoundError:  # regions are opened when they are sent, and file.delete.delay.ms is 0
            return
        self.wrong.extend(str(row) for row in rows(data) if row.value != b"%d" % row.offset)
        self.reads += 1
        if self.reads > 10:
            self.many_reads.set()

    def tidy(self) -> None:
        self.log.local.flush()
        self.log.retention.delete_old_segments()
        self.log.local.remove_retired(self.clock.now_ms())


def test_readers_flushers_and_retention_beside_appends(tmp_path: Path) -> None:
    """Real files and threads: no reader sees a torn or a wrong batch, whatever happens beside it."""
    (tmp_path / "t-0").mkdir()
    config = LogConfig(segment_bytes=2000, index_interval_bytes=200, retention_bytes=6000, file_delete_delay_ms=0)
    platform = Platform(max_open_files=8)
    log = open_log(tmp_path / "t-0", config, platform, clean_shutdown=True)
    now = platform.clock.now_ms()
    with Bystanders(log, platform.clock) as bystanders:
        for offset in range(0, 3000, 2):
            log.append(batch(b"%d" % offset, b"%d" % (offset + 1), timestamps=now), leader_epoch=0)
            if offset == 1500:
                assert bystanders.many_reads.wait(60)
    assert bystanders.wrong == []
    assert (log.log_end_offset, log.log_start_offset > 0) == (3000, True)
    log.close()


def test_a_transaction_that_begins_meanwhile_is_not_stable(driver: LogDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread appends during the call."""
    first_unstable = cast("property", ProducerStates.first_unstable_offset)
    waiting = [batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)]

    def asked(states: ProducerStates) -> int | None:
        found = cast("int | None", first_unstable.__get__(states))
        if waiting:
            driver.log.append(waiting.pop(), leader_epoch=0, conditions=AppendConditions(verified=True))
        return found

    end = driver.log.log_end_offset
    monkeypatch.setattr(ProducerStates, "first_unstable_offset", property(asked))
    assert driver.log.last_stable_offset == end
    assert driver.log.log_end_offset == end + 1


COORDINATOR = AppendConditions(origin=AppendOrigin.COORDINATOR)


@pytest.fixture
def aborting() -> LogDriver:
    """Sixty transactions of two records, one after the other, all aborted."""
    driver = LogDriver({"segment.bytes": 2000, "index.interval.bytes": 300})
    for number in range(60):
        records = batch(b"a", b"b", producer_id=number, producer_epoch=0, base_sequence=0, transactional=True)
        driver.log.append(records, leader_epoch=0, conditions=AppendConditions(verified=True))
        driver.log.append(marker(ControlType.ABORT, number), leader_epoch=0, conditions=COORDINATOR)
    return driver


def aborted_in(driver: LogDriver, offset: int, max_bytes: int) -> tuple[list[int], int]:
    """The producers of aborted transactions in a read, and the last offset of its complete batches."""
    found = driver.log.reader.read(offset, max_bytes=max_bytes, with_aborted=True)
    return [each.producer_id for each in found.aborted], rows(slice_bytes(found))[-1].offset


@pytest.mark.parametrize("offset", [0, 1, 2, 30, 91, 170])
@pytest.mark.parametrize("max_bytes", [1, 400, 1000, 5000])
def test_a_read_has_the_aborted_transactions_of_its_batches_and_few_further_ones(
    aborting: LogDriver, offset: int, max_bytes: int
) -> None:
    producers, last_offset = aborted_in(aborting, offset, max_bytes)
    first, last = offset // 3, last_offset // 3
    assert producers[: last - first + 1] == list(range(first, last + 1))
    assert producers == list(range(first, min(last + 4, 59) + 1))[: len(producers)]


def test_with_a_damaged_index_a_read_has_all_aborted_transactions_of_the_segment(aborting: LogDriver) -> None:
    intact, last_offset = aborted_in(aborting, 0, 1)
    path = f"{DIRECTORY}/00000000000000000000.index"
    aborting.log.local.flush()
    size = aborting.disk.open(path).size()
    aborting.disk.open(path).write_at(0, struct.pack(">ii", 1, 100) * (size // 8))
    aborting.log.local.platform.open_files.forget(path)
    damaged, _ = aborted_in(aborting, 0, 1)
    assert len(damaged) > len(intact) > last_offset // 3
    assert damaged[: len(intact)] == intact
