import errno
from typing import Any

import pytest

from broker_embedded._log.append.incoming import AppendConditions, AppendOrigin
from broker_embedded._log.transaction_index import AbortedTransaction
from broker_embedded._platform.platform import read_file
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._records.control import ControlType
from tests.support.broker.disk import SimulatedCrash
from tests.support.broker.log_driver import DIRECTORY, LogDriver, slice_bytes
from tests.support.records.log_batches import NOW_MS, batch, rows
from tests.support.records.record_batches import marker
from tests.support.refusals import refused

SMALL = {"segment.bytes": 400, "index.interval.bytes": 100}


class IdempotentDriver(LogDriver):
    """A log with idempotent producers. ``send`` gives the offset, of the first time if the batch came before."""

    def send(self, producer_id: int, sequence: int, count: int = 1, **fields: Any) -> int:
        values = tuple(b"%d-%d" % (producer_id, sequence + index) for index in range(count))
        fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, **fields}
        return self.append(*values, **fields).base_offset

    def snapshots(self) -> list[int]:
        return [int(name[:20]) for name in self.files() if name.endswith(".snapshot")]

    def write_marker(self, producer_id: int, control_type: ControlType) -> None:
        end = marker(control_type, producer_id, timestamp_ms=NOW_MS)
        self.log.append(end, leader_epoch=0, conditions=AppendConditions(origin=AppendOrigin.COORDINATOR))
        self.values.append(b"marker")

    def send_transactional(self, producer_id: int, sequence: int) -> None:
        numbered: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        data = batch(b"%d" % sequence, transactional=True, **numbered)
        self.log.append(data, leader_epoch=0, conditions=AppendConditions(verified=True))
        self.values.append(b"%d" % sequence)


@pytest.fixture
def driver() -> IdempotentDriver:
    return IdempotentDriver(SMALL)


@pytest.mark.parametrize("clean", [True, False])
def test_batches_in_flight_over_a_restart_are_not_written_twice(driver: IdempotentDriver, *, clean: bool) -> None:
    """All five, though a snapshot of Apache Kafka has only the last."""
    first = [driver.send(1, sequence, 2) for sequence in range(0, 20, 2)]
    driver.reopen(clean=clean)
    assert [driver.send(1, sequence, 2) for sequence in range(10, 20, 2)] == first[5:]
    assert driver.log.log_end_offset == 20
    assert refused(driver.send, 1, 8, 2).code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert driver.send(1, 20, 2) == 20
    driver.check()


def test_a_snapshot_with_each_segment_and_one_at_the_end(driver: IdempotentDriver) -> None:
    for sequence in range(12):
        driver.send(1, sequence)
    bases = driver.log.local.view.bases
    assert len(bases) > 2
    assert driver.snapshots() == list(bases[1:])
    driver.log.close()
    assert driver.snapshots() == [*bases[1:], 12]


def test_strays_go_at_the_start(driver: IdempotentDriver) -> None:
    for sequence in range(5):
        driver.send(1, sequence)
        driver.reopen()
    assert driver.snapshots() == [base for base in driver.log.local.view.bases if base] + [5]


def test_closing_an_unchanged_log_writes_nothing(driver: IdempotentDriver) -> None:
    driver.send(1, 0)
    driver.reopen()
    driver.faults.steps = []
    driver.log.close()
    assert driver.faults.steps == []


@pytest.mark.parametrize("damage", [b"", b"\0", b"garbage" * 10])
def test_a_snapshot_that_does_not_read_is_replaced_by_the_log(
    driver: IdempotentDriver, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    first = [driver.send(1, sequence) for sequence in range(12)]
    driver.log.close()
    for offset in driver.snapshots():
        driver.disk.create(f"{DIRECTORY}/{offset:020d}.snapshot").write_at(0, damage)
    driver.reopen()
    assert [driver.send(1, sequence) for sequence in range(7, 12)] == first[7:]
    assert caplog.text.count(".snapshot: removed") == 3


def test_snapshots_after_the_log_end_are_deleted(driver: IdempotentDriver) -> None:
    """Their offsets are assigned again, to other records."""
    for sequence in range(12):
        driver.send(1, sequence)
    driver.log.close()
    assert max(driver.snapshots()) == 12
    last = f"{DIRECTORY}/{driver.log.local.view.bases[-1]:020d}.log"
    driver.disk.open(last).truncate(0)
    driver.values = driver.values[: driver.log.local.view.bases[-1]]
    driver.reopen(clean=False)
    end = driver.log.log_end_offset
    assert max(driver.snapshots()) == end
    assert driver.send(1, end) == end
    driver.check()


def test_deleted_segments_take_their_snapshots_along() -> None:
    driver = IdempotentDriver({**SMALL, "retention.bytes": 0})
    for sequence in range(12):
        driver.send(1, sequence)
    driver.log.retention.delete_old_segments()
    assert driver.snapshots() == [12]
    assert driver.send(1, 12) == 12
    assert driver.send(1, 11) == 11, "it is still known though its record is gone"


def test_replaying_restores_what_a_snapshot_does_not_hold(driver: IdempotentDriver) -> None:
    driver.send(1, 0)
    driver.log.local.roll()
    driver.send(2, 0, 3)
    driver.append()
    driver.send(1, 1)
    driver.reopen(clean=False)
    assert (driver.send(2, 0, 3), driver.send(1, 1)) == (1, 5)
    assert driver.send(2, 3) == 6


def test_producers_seen_long_ago_are_forgotten_after_a_restart_too(driver: IdempotentDriver) -> None:
    driver.send(1, 0)
    driver.reopen(producer_id_expiration_ms=1000)
    driver.clock.advance(1000)
    assert driver.log.expire_producers(driver.clock.now_ms()) == 1
    assert driver.send(1, 99) == 1


@pytest.mark.parametrize("clean", [True, False])
def test_open_and_aborted_transactions_survive_a_restart(driver: IdempotentDriver, *, clean: bool) -> None:
    driver.send_transactional(1, 0)
    driver.send_transactional(2, 0)
    driver.write_marker(1, ControlType.ABORT)
    driver.append()
    driver.log.local.roll()
    driver.send_transactional(3, 0)
    driver.write_marker(3, ControlType.COMMIT)
    aborted = [AbortedTransaction(1, 0, 2, 1)]
    for _ in range(2):
        assert driver.log.last_stable_offset == 1
        assert driver.log.local.view.aborted_transactions(0, 6) == aborted
        driver.reopen(clean=clean)
    driver.write_marker(2, ControlType.ABORT)
    driver.reopen(clean=clean)
    assert driver.log.last_stable_offset == driver.log.log_end_offset == 7
    assert driver.log.local.view.aborted_transactions(0, 7) == [*aborted, AbortedTransaction(2, 1, 6, 7)]
    assert driver.log.local.view.aborted_transactions(3, 7) == [AbortedTransaction(2, 1, 6, 7)]


def test_a_rebuilt_segment_gets_its_aborted_transactions_back(driver: IdempotentDriver) -> None:
    driver.send_transactional(1, 0)
    driver.write_marker(1, ControlType.ABORT)
    driver.log.local.roll()
    driver.append()
    driver.log.close()
    before = read_file(driver.disk, f"{DIRECTORY}/{0:020d}.txnindex")
    driver.disk.remove(f"{DIRECTORY}/{0:020d}.index")
    driver.reopen()
    assert driver.log.local.view.aborted_transactions(0, 3) == [AbortedTransaction(1, 0, 1, 2)]
    assert read_file(driver.disk, f"{DIRECTORY}/{0:020d}.txnindex") == before


def test_a_rebuilt_segment_leaves_later_transaction_indexes_alone(driver: IdempotentDriver) -> None:
    for sequence in range(2):
        driver.send_transactional(1, sequence)
        driver.write_marker(1, ControlType.ABORT)
        driver.log.local.roll()
    driver.log.close()
    later = f"{DIRECTORY}/{driver.log.local.view.bases[1]:020d}.txnindex"
    before = read_file(driver.disk, later)
    driver.disk.remove(f"{DIRECTORY}/{0:020d}.index")
    driver.reopen()
    assert read_file(driver.disk, later) == before


REBUILD_STEPS = (
    "remove *.index",
    "create *.index.tmp",
    "remove *.txnindex",
    "create *.txnindex",
    "write *.txnindex",
    "write *.timeindex",
    "sync *",
    "rename *.index.tmp",
)


@pytest.mark.parametrize("machine", [False, True], ids=["process", "machine"])
@pytest.mark.parametrize("step", REBUILD_STEPS)
def test_a_rebuild_that_is_interrupted_is_repeated(driver: IdempotentDriver, step: str, machine: bool) -> None:
    driver.append()
    driver.send_transactional(1, 0)
    driver.write_marker(1, ControlType.ABORT)
    driver.log.local.roll()
    driver.append()
    driver.log.close()
    driver.checkpointed = driver.flushed = driver.log.local.recovery_point
    driver.disk.remove(f"{DIRECTORY}/{0:020d}.index")
    driver.disk.sync_directory(DIRECTORY)
    driver.disk.restart()
    driver.faults.crash_at = step
    with pytest.raises(SimulatedCrash):
        driver._open(clean=True)
    driver.faults.revive()
    if machine:
        driver.disk.crash()
    driver.reopen(clean=False)
    assert driver.log.local.view.aborted_transactions(0, 4) == [AbortedTransaction(1, 1, 2, 3)]
    assert not any(name.endswith(".tmp") for name in driver.files())


def test_batches_without_a_producer_id_have_no_state(driver: IdempotentDriver) -> None:
    driver.append()
    driver.append()
    assert len(driver.log.producers) == 0
    driver.reopen(clean=False)
    assert len(driver.log.producers) == 0
    driver.check()


def test_readers_of_committed_records_stop_before_an_open_transaction(driver: IdempotentDriver) -> None:
    driver.append()
    driver.send_transactional(1, 0)
    driver.append()
    limit = driver.log.last_stable_offset
    assert limit == 1
    committed = driver.log.reader.read(0, max_bytes=10**6, upper_bound_offset=limit)
    assert [row.offset for row in rows(slice_bytes(committed))] == [0]
    driver.log.retention.delete_records(2)
    assert driver.log.last_stable_offset == 2


def test_a_marker_is_not_written_if_the_transaction_index_cannot_be_opened(driver: IdempotentDriver) -> None:
    for sequence, step in enumerate(("create *.txnindex", "open *.txnindex")):
        driver.send_transactional(1, sequence)
        end = driver.log.log_end_offset
        while driver.log.local.platform.open_files.close_oldest():
            pass
        driver.faults.fail(step, errno.EMFILE)
        assert refused(driver.write_marker, 1, ControlType.ABORT).code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (driver.log.offline, driver.log.log_end_offset, driver.log.producers.open_transactions) == (None, end, 1)
        driver.faults.heal()
        driver.write_marker(1, ControlType.ABORT)
    expected = [AbortedTransaction(1, 0, 1, 2), AbortedTransaction(1, 2, 3, 4)]
    assert driver.log.local.view.aborted_transactions(0, 4) == expected


def test_a_lost_transaction_index_takes_the_log_offline(driver: IdempotentDriver) -> None:
    driver.send_transactional(1, 0)
    driver.faults.fail("write *.txnindex")
    assert refused(driver.write_marker, 1, ControlType.ABORT).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.log.offline is not None
    driver.faults.heal()
    driver.values.append(b"marker")
    driver.reopen(clean=False)
    assert driver.log.local.view.aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 1, 2)]
