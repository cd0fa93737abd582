import pytest

from broker_embedded._records.coordinator_record import CoordinatorRecord, encode_batch
from broker_embedded._records.last_records import LastRecords, LoggedRecord
from spark_kafka_native._records.batch import (
    RECORD_BATCH_OVERHEAD,
    read_header,
    seal,
    set_offsets,
    set_producer,
    write_header,
)
from spark_kafka_native._records.control import ControlType
from spark_kafka_native._records.errors import CorruptBatch
from tests.support.records.record_batches import marker

P, Q = 7, 8


class RecordsDriver:
    """A log in few words: ``driver.write("a=1")``, ``driver.write("a=2", P)``, ``driver.end(P, commit=True)``."""

    def __init__(self) -> None:
        self.last = LastRecords()
        self._end = 0

    def read(self, batch: bytearray) -> None:
        set_offsets(batch, 0, base_offset=self._end, partition_leader_epoch=0)
        header = read_header(batch)
        self.last.read(batch, 0, header)
        self._end = header.next_offset

    def write(self, *records: str, producer_id: int | None = None) -> None:
        """``k=v`` is a record, ``k`` a tombstone."""
        pairs = [record.partition("=") for record in records]
        batch = encode_batch(
            [CoordinatorRecord(key=key.encode(), value=value.encode() if sep else None) for key, sep, value in pairs], 0
        )
        if producer_id is not None:
            set_producer(batch, 0, producer_id=producer_id, producer_epoch=0, base_sequence=-1, transactional=True)
        self.read(batch)

    def end(self, producer_id: int, *, commit: bool) -> None:
        self.read(marker(ControlType.COMMIT if commit else ControlType.ABORT, producer_id))

    @property
    def found(self) -> list[str]:
        """``offset:record``, and ``?producer`` at the end of pending ones."""
        return [self._formatted(logged) for logged in self.last.in_order()]

    def _formatted(self, logged: LoggedRecord) -> str:
        key, value = logged.record.key.decode(), logged.record.value
        text = f"{logged.offset}:{key}" + ("" if value is None else f"={value.decode()}")
        return text if logged.producer_id is None else f"{text}?{logged.producer_id}"


@pytest.fixture
def driver() -> RecordsDriver:
    return RecordsDriver()


def test_the_last_record_of_a_key_is_kept_in_log_order(driver: RecordsDriver) -> None:
    driver.write("a=1", "b=2", "c=3")
    driver.write("a=4")
    driver.write("b")
    assert driver.found == ["2:c=3", "3:a=4", "4:b"]


def test_transactional_records_are_pending(driver: RecordsDriver) -> None:
    driver.write("a=1")
    driver.write("a=2", "b=3", producer_id=P)
    driver.write("a=4", producer_id=Q)
    assert driver.found == ["0:a=1", f"1:a=2?{P}", f"2:b=3?{P}", f"3:a=4?{Q}"]


@pytest.mark.parametrize(("commit", "found"), [(True, ["1:a=2"]), (False, ["0:a=1"])])
def test_a_marker_decides(driver: RecordsDriver, commit: bool, found: list[str]) -> None:
    driver.write("a=1")
    driver.write("a=2", producer_id=P)
    driver.end(Q, commit=not commit)
    driver.end(P, commit=commit)
    assert driver.found == found
    driver.end(P, commit=not commit)  # it ends nothing
    assert driver.found == found


def test_the_offset_of_the_record_decides_not_that_of_the_marker(driver: RecordsDriver) -> None:
    driver.write("a=1", producer_id=P)
    driver.write("a=2", producer_id=Q)
    driver.end(Q, commit=True)
    driver.end(P, commit=True)
    assert driver.found == ["1:a=2"]
    driver.write("a=3", producer_id=P)
    driver.write("a=4")
    driver.end(P, commit=True)
    assert driver.found == ["5:a=4"]


def test_a_tombstone_takes_what_is_pending_along(driver: RecordsDriver) -> None:
    driver.write("a=1", "b=2", producer_id=P)
    driver.write("a")
    driver.write("a=3", producer_id=Q)
    assert driver.found == [f"1:b=2?{P}", "2:a", f"3:a=3?{Q}"]
    driver.end(P, commit=True)
    assert driver.found == ["1:b=2", "2:a", f"3:a=3?{Q}"]


def test_the_next_transaction_of_a_producer_is_another(driver: RecordsDriver) -> None:
    driver.write("a=1", producer_id=P)
    driver.end(P, commit=False)
    driver.write("b=2", producer_id=P)
    driver.end(P, commit=True)
    assert driver.found == ["2:b=2"]


def test_a_record_without_a_key_is_kept(driver: RecordsDriver) -> None:
    driver.write("=1")
    assert driver.found == ["0:=1"]


def test_idempotent_records_are_part_of_no_transaction(driver: RecordsDriver) -> None:
    batch = encode_batch([CoordinatorRecord(key=b"a", value=b"1")], 0)
    set_producer(batch, 0, producer_id=P, producer_epoch=0, base_sequence=0)
    driver.read(batch)
    assert driver.found == ["0:a=1"]


@pytest.mark.parametrize("control", [False, True])
def test_batches_that_compaction_has_emptied_say_nothing(driver: RecordsDriver, control: bool) -> None:
    driver.write("a=1", producer_id=P)
    emptied = bytearray(RECORD_BATCH_OVERHEAD)
    write_header(
        emptied,
        size_in_bytes=len(emptied),
        last_offset_delta=0,
        base_timestamp=0,
        max_timestamp=0,
        records_count=0,
        transactional=True,
        control=control,
        producer_id=P,
        producer_epoch=0,
    )
    seal(emptied)
    driver.read(emptied)
    assert driver.found == [f"0:a=1?{P}"]


@pytest.mark.parametrize("control", [False, True])
def test_a_damaged_batch_raises_and_changes_nothing(driver: RecordsDriver, control: bool) -> None:
    driver.write("a=1", producer_id=P)
    record = CoordinatorRecord(key=b"a", value=b"2")
    damaged = marker(ControlType.COMMIT, P) if control else encode_batch([record], 0)
    damaged[61] = 0x7F  # the length of the first record
    seal(damaged)
    with pytest.raises(CorruptBatch):
        driver.read(damaged)
    assert driver.found == [f"0:a=1?{P}"]
